"""Case: one fitted estimator of the matrix, and how to ask it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matrix.data import rows
from matrix.estimators import name_of
from sources import ask, methods

__all__ = ["Case", "as_dtype", "fitted"]


def as_dtype(x: Any, dtype: str) -> Any:
    """Return rows with their numbers in a dtype; text columns stay."""
    if isinstance(x, pd.DataFrame):
        return x.astype({name: dtype for name in x.columns if x[name].dtype.kind in "fi"})
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return x.astype(dtype) if x.dtype.kind in "fi" else x


@dataclass(frozen=True)
class Case:
    """One fitted estimator.

    Parameters
    ----------
    estimator : str
        Public dotted name, as the parser is registered.
    setting : str
        What is special in this one; settings of an estimator differ.
    fit : callable
        Returns the fitted estimator.
    kind : str
        Which row of the tolerance table judges it.
    rows : callable
        Makes n rows, of float64 or a table.
    ask : callable
        ``ask(estimator, method, x)`` calls the source.
    methods : tuple of str
        Methods of an estimator that does not show them as attributes.
    dtypes : tuple of str
        Dtypes of rows that the source takes; it refuses the others.
    same_as : str
        The estimator whose parser reads this one too, so that programs differ in their constants alone.
    """

    estimator: str
    setting: str
    fit: Callable[[], Any]
    kind: str = "linear"
    rows: Callable[[int], Any] = rows
    ask: Callable[[Any, str, Any], Any] = ask
    methods: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float64", "float32")
    same_as: str = ""

    def __str__(self) -> str:
        return name_of(self.estimator, self.setting)

    @property
    def names(self) -> tuple[str, ...]:
        """Methods that compute something on new rows."""
        return self.methods or methods(fitted(self))


@cache
def fitted(case: Case) -> Any:
    """Fit once; a small model need not converge."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return case.fit()
