"""The kernel matrix of an estimator, by a kernel's name or a Gaussian process kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.containers import Node
from hbconv.parse.common.covariance_kernels import covariance, is_process_kernel
from hbconv.parse.common.fitted_arrays import dense
from hbconv.parse.common.pairwise_kernels import KERNELS, PairwiseKernel, pairwise_kernel
from hbconv.parse.common.promotion import promoted
from hbconv.parse.step import Step

__all__ = ["kernel_matrix"]


def kernel_matrix(step: Step, points: Any, **parameters: Any) -> Node:
    """Return the kernel of the rows and each point, of shape (n_rows, n_points).

    Rows of a precomputed kernel stay as they are.
    """
    kernel = step.estimator.kernel
    x = step.require_finite()
    if kernel in ("precomputed", "chi2", "additive_chi2") or is_process_kernel(kernel):
        step.refuse_sparse("has a kernel that takes no sparse matrix")
    if is_process_kernel(kernel):
        return covariance(step, kernel, x, np.asarray(dense(points), dtype=np.float64))
    if callable(kernel):
        raise step.refuse(
            "kernel",
            getattr(kernel, "__name__", kernel),
            "hbconv cannot read a function: use a kernel that has a name.",
        )
    if kernel == "precomputed":
        return promoted(x, dense(points))
    if kernel not in KERNELS:
        raise step.refuse("kernel", kernel, f"hbconv handles {', '.join(KERNELS)} and precomputed.")
    return pairwise_kernel(step, x, points, PairwiseKernel(kernel, **parameters))
