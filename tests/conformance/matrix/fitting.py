"""Fitting a case, and the rows that many cases are asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows, target, with_missing

__all__ = [
    "MODERATE",
    "NEAR",
    "Entries",
    "Trees",
    "fit",
    "fit_positive",
    "known",
    "missing_rows",
    "positive_rows",
]

Trees = partial(Case, kind="trees")
Entries = partial(Case, kind="elementwise")
MODERATE = partial(rows, large=30.0)
NEAR = partial(rows, large=100.0)


def fit(
    estimator: Any,
    y: str | None = None,
    dtype: str = "float64",
    *,
    missing: bool = False,
    **options: Any,
) -> Callable[[], Any]:
    """Return a function that fits the estimator to a target, rows and float targets in a dtype."""
    x = (with_missing(fit_rows()) if missing else fit_rows()).astype(dtype)
    if y is None:
        return lambda: estimator.fit(x, **options)
    values = target(y)
    values = values.astype(dtype) if values.dtype.kind == "f" else values
    return lambda: estimator.fit(x, values, **options)


def missing_rows(n: int) -> np.ndarray:
    """Rows with missing values."""
    return with_missing(rows(n))


def positive_rows(n: int) -> np.ndarray:
    """Rows without negative numbers."""
    return np.abs(rows(n, large=300.0))


def known(make: Callable[..., Any], **newer: Any) -> Callable[..., Any]:
    """Return what makes an estimator, with those parameters that the installed version has."""
    parameters = signature(make).parameters
    return partial(make, **{name: value for name, value in newer.items() if name in parameters})


def fit_positive(estimator: Any, dtype: str = "float64") -> Callable[[], Any]:
    """Return a function that fits the estimator on numbers that are not negative."""
    return lambda: estimator.fit(np.abs(fit_rows()).astype(dtype))
