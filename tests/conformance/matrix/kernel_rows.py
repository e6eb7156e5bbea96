"""Few rows to fit kernel methods on, and kernels of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matrix.data import fit_rows, rows, target
from sklearn.metrics.pairwise import rbf_kernel

__all__ = ["fit_few", "kernel_of", "kernel_rows", "positive", "small"]


def small() -> np.ndarray:
    """The first rows to fit on."""
    return fit_rows()[:60]


def fit_few(
    estimator: Any,
    y: str | None = None,
    dtype: str = "float64",
    make: Callable[[np.ndarray], Any] = np.asarray,
) -> Callable[[], Any]:
    """Return a function that fits the estimator on few rows."""
    return lambda: estimator.fit(make(small().astype(dtype)), None if y is None else target(y)[:60])


def positive(n: int) -> np.ndarray:
    """New rows without negative values."""
    return np.abs(rows(n, large=30.0))


def kernel_rows(n: int) -> np.ndarray:
    """Rows of a kernel with those that were fitted on."""
    return rbf_kernel(rows(n, large=30.0), small()) if n else np.zeros((0, 60))


def kernel_of(x: np.ndarray) -> np.ndarray:
    """Kernel among the rows."""
    return rbf_kernel(x.astype(np.float64))
