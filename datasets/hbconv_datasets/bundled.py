"""The data sets that ship inside scikit-learn, as pandas tables."""

from __future__ import annotations

from typing import Literal

from sklearn import datasets

from hbconv_datasets.dataset import Dataset

__all__ = ["NAMES", "load"]

_TASKS: dict[str, Literal["binary", "multiclass", "regression"]] = {
    "breast_cancer": "binary",
    "diabetes": "regression",
    "digits": "multiclass",
    "iris": "multiclass",
    "wine": "multiclass",
}

NAMES = tuple(_TASKS)
"""Names that ``load`` knows."""


def load(name: str) -> Dataset:
    """Load a bundled data set as a table with named columns.

    Examples
    --------
    >>> load("iris").X.shape, load("iris").task
    ((150, 4), 'multiclass')
    """
    if name not in _TASKS:
        raise ValueError(f"No bundled data set {name!r}. Known: {', '.join(NAMES)}.")
    bunch = getattr(datasets, f"load_{name}")(as_frame=True)
    return Dataset(name, bunch.data, bunch.target.to_numpy(), _TASKS[name])
