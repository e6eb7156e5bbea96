"""Kernel ridge regression."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.fitting import MODERATE
from matrix.kernel_rows import fit_few, kernel_of, kernel_rows, positive
from sklearn import (
    kernel_ridge,
)
from sklearn.gaussian_process import kernels


def ridges() -> Iterator[Case]:
    """Ridge regression over every kernel."""
    ridge = kernel_ridge.KernelRidge
    case = partial(Case, "sklearn.kernel_ridge.KernelRidge", rows=MODERATE)
    yield case("rbf", fit_few(ridge(kernel="rbf", gamma=0.05), "value"))
    yield case("rbf, float32, two targets", fit_few(ridge(kernel="rbf"), "values", "float32"))
    yield case(
        "a kernel of a Gaussian process",
        fit_few(ridge(kernel=kernels.Matern(2.0) + kernels.DotProduct(0.5)), "value"),
    )
    for kernel in ("linear", "poly", "sigmoid", "cosine", "laplacian"):
        yield case(kernel, fit_few(ridge(kernel=kernel, degree=2, gamma=0.01), "value"))
    for kernel in ("chi2", "additive_chi2"):
        yield case(
            kernel, fit_few(ridge(kernel=kernel, gamma=0.1), "value", make=np.abs), rows=positive
        )
    yield case(
        "chi2, float32",
        fit_few(ridge(kernel="chi2", gamma=0.1), "value", "float32", make=np.abs),
        rows=positive,
    )
    yield case(
        "precomputed",
        fit_few(ridge(kernel="precomputed"), "value", make=kernel_of),
        rows=kernel_rows,
    )


CASES = (*ridges(),)
