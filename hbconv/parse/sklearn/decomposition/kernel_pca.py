"""KernelPCA: principal components in the space of a kernel."""

from __future__ import annotations

import numpy as np

from hbconv.containers import Linear, Node
from hbconv.parse.common.kernel_matrix import kernel_matrix
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.preprocessing.kernel_centerer import centre_kernel
from hbconv.parse.step import Step


@parses("sklearn.decomposition.KernelPCA")
def parse_kernel_pca(step: Step) -> Node:
    """Project the centred kernel on the scaled eigenvectors; those of eigenvalue zero count 0."""
    est = step.estimator
    kernel = kernel_matrix(step, est.X_fit_, gamma=est.gamma_, degree=est.degree, coef0=est.coef0)
    weights = np.zeros_like(est.eigenvectors_)
    found = np.flatnonzero(est.eigenvalues_)
    weights[:, found] = est.eigenvectors_[:, found] / np.sqrt(est.eigenvalues_[found])
    return Linear.of(centre_kernel(kernel, est._centerer), weights)


@inverts("sklearn.decomposition.KernelPCA", takes_sparse=True)
def invert_kernel_pca(step: Step) -> Node:
    """Predict the row by kernel ridge regression on its components."""
    est = step.estimator
    if not est.fit_inverse_transform:
        raise step.refuse(
            "fit_inverse_transform", False, "The source model then cannot invert either."
        )
    kernel = kernel_matrix(
        step, est.X_transformed_fit_, gamma=est.gamma_, degree=est.degree, coef0=est.coef0
    )
    return Linear.of(kernel, est.dual_coef_)
