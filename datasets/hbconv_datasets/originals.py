"""Download the original data sets through scikit-learn; nothing here runs on import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hbconv_datasets.dataset import Dataset

__all__ = ["NAMES", "fetch"]

_Fetch = Callable[..., Any]


def fetch(
    name: str,
    data_home: str | None = None,
    fetch_openml: _Fetch | None = None,
    fetch_covtype: _Fetch | None = None,
) -> Dataset:
    """Download an original data set, or read it from scikit-learn's cache.

    Parameters
    ----------
    name : str
        One of ``NAMES``.
    data_home : str, optional
        Folder of the cache; scikit-learn's own by default.
    fetch_openml, fetch_covtype : callable, optional
        Stand-ins for ``sklearn.datasets.fetch_openml`` and ``fetch_covtype``.

    Raises
    ------
    ValueError
        Unknown name.
    OSError
        No network, or the server refused.
    """
    if name not in NAMES:
        raise ValueError(f"No original data set {name!r}. Known: {', '.join(NAMES)}.")
    from sklearn import datasets

    if name == "covtype":
        bunch = (fetch_covtype or datasets.fetch_covtype)(data_home=data_home)
        return Dataset(
            name, np.ascontiguousarray(bunch.data, np.float32), bunch.target, "multiclass"
        )
    openml_name, version, task = _OPENML[name]
    bunch = (fetch_openml or datasets.fetch_openml)(
        openml_name, version=version, data_home=data_home, as_frame=False, parser="liac-arff"
    )
    x = np.ascontiguousarray(bunch.data, np.float32)
    if name == "fraud":
        x = np.ascontiguousarray(
            x[:, :28]
        )  # V1 to V28; the amount is not used by the published benchmark
    target = (
        bunch.target.astype(np.float64)
        if task == "regression"
        else np.unique(bunch.target, return_inverse=True)[1]
    )
    return Dataset(name, x, target, task)


_OPENML: dict[str, tuple[str, int, Any]] = {
    "fraud": ("creditcard", 1, "binary"),
    "year": ("year", 1, "regression"),
    "epsilon": ("epsilon", 1, "binary"),
    "higgs": ("Higgs", 1, "binary"),
    "airline": ("airlines", 1, "binary"),
}

NAMES = ("covtype", *_OPENML)
"""Names that ``fetch`` knows."""
