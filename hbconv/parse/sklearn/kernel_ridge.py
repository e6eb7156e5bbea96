"""KernelRidge: ridge regression in the space of a kernel."""

from __future__ import annotations

from hbconv.containers import MATRIX, VECTOR, Linear, Output
from hbconv.parse.common.pairwise_kernels import kernel_matrix
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.kernel_ridge.KernelRidge")
def parse_kernel_ridge(step: Step) -> dict[str, Output]:
    """Multiply the kernel matrix by ``dual_coef_``."""
    est = step.estimator
    kernel = kernel_matrix(step, est.X_fit_, gamma=est.gamma, degree=est.degree, coef0=est.coef0)
    return {
        "predict": Output(
            Linear.of(kernel, est.dual_coef_), VECTOR if est.dual_coef_.ndim == 1 else MATRIX
        )
    }
