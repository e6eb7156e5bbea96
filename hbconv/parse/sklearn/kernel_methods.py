"""Kernel ridge regression, kernel PCA, and the centring of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Add, Affine, Cast, Linear, Node, Output, Select
from hbconv.parse.common.kernel_matrix import kernel_matrix
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.kernel_ridge.KernelRidge")
def parse_kernel_ridge(step: Step) -> dict[str, Output]:
    """``K @ dual_coef_``."""
    est = step.estimator
    kernel = kernel_matrix(step, est.X_fit_, gamma=est.gamma, degree=est.degree, coef0=est.coef0)
    return {"predict": Output(Linear.of(kernel, est.dual_coef_), vector=est.dual_coef_.ndim == 1)}


@parses("sklearn.decomposition.KernelPCA")
def parse_kernel_pca(step: Step) -> Node:
    """Project the centred kernel on the scaled eigenvectors, those of eigenvalue zero left out."""
    est = step.estimator
    kernel = kernel_matrix(step, est.X_fit_, gamma=est.gamma_, degree=est.degree, coef0=est.coef0)
    weights, found = np.zeros_like(est.eigenvectors_), np.flatnonzero(est.eigenvalues_)
    weights[:, found] = est.eigenvectors_[:, found] / np.sqrt(est.eigenvalues_[found])
    return Linear.of(_centred(kernel, est._centerer), weights)


@parses("sklearn.preprocessing.KernelCenterer")
def parse_kernel_centerer(step: Step) -> Node:
    """Centre the rows of a kernel."""
    return _centred(step.require_finite(Cast(step.x, "float")), step.estimator)


def _centred(kernel: Node, centerer: Any) -> Node:
    """Subtract the mean of each column when fitted, and that of the row; add the mean of all. The kernel's dtype stays."""
    n = len(centerer.K_fit_rows_)
    mean = Affine.of(Linear.of(kernel, np.ones(n, dtype=np.float32)), div=-float(n))
    sum_ = Add(
        (
            Affine.in_place(kernel, sub=centerer.K_fit_rows_),
            Select(mean, Array(np.zeros(n, dtype=np.int32))),
        )
    )
    return Affine.of(sum_, add=centerer.K_fit_all_)
