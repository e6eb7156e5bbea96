"""Linear decompositions: projections on fixed components.

KernelPCA: principal components in the space of a kernel.
"""

from __future__ import annotations

import warnings
from math import log, pi
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import VECTOR, Affine, Cast, FlatRow, Linear, Node, Output, RowDot
from hbconv.parse.common.pairwise_kernels import kernel_matrix
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.preprocessing.scalers import centre_kernel
from hbconv.parse.step import Step


@parses("sklearn.decomposition.TruncatedSVD")
def parse_truncated_svd(step: Step) -> Node:
    """Project on the components."""
    return Linear.of(step.require_finite(), step.estimator.components_.T)


@inverts("sklearn.decomposition.TruncatedSVD")
def invert_truncated_svd(step: Step) -> Node:
    """Add up the components, each by its weight."""
    return Linear.of(step.require_finite(), step.estimator.components_)


@parses("sklearn.decomposition.PCA", takes_sparse=True)
def parse_pca(step: Step) -> dict[str, Output]:
    """Project on the components; ``score_samples`` is the likelihood of each row."""
    x = step.require_finite(Cast(step.x, "float"))
    precision = _precision(step)
    likelihood = (
        {}
        if precision is None
        else {"score_samples": Output(_log_likelihood(step, x, precision), VECTOR)}
    )
    return {"transform": Output(_project(step, x)), **likelihood}


def _precision(step: Step) -> npt.NDArray[Any] | None:
    """Invert the covariance as ``score_samples`` of the source model does at each call.

    None where that fails, and where the covariance is singular but for rounding.
    The inverse would then hold nothing but rounding errors.
    """
    est = step.estimator
    variances = np.append(
        est.explained_variance_,
        est.noise_variance_ if est.n_components_ < est.n_features_in_ else [],
    )
    if variances.size and variances.min() <= np.finfo(variances.dtype).eps * variances.max():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(est.get_precision())
        except (ValueError, np.linalg.LinAlgError):
            return None


@parses("sklearn.decomposition.IncrementalPCA")
def parse_incremental_pca(step: Step) -> Node:
    """Project on the components."""
    return _project(step, step.require_finite(Cast(step.x, "float")))


@inverts("sklearn.decomposition.IncrementalPCA", "sklearn.decomposition.PCA")
def invert_pca(step: Step) -> Node:
    """Undo the whitening within the components, add them up, then add the mean."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"))
    components = est.components_
    if est.whiten:
        components = np.sqrt(est.explained_variance_[:, np.newaxis]) * components
    return Linear.of(x, components, np.asarray(est.mean_).reshape(-1))


def _project(step: Step, x: Node) -> Node:
    """Project, then subtract the projected mean and whiten in place, as the source model does."""
    est = step.estimator
    components = est.components_.T
    mean = (est.mean_.reshape(1, -1) @ components)[0].astype(components.dtype)
    projected = Linear.of(x, components, -mean)
    if not est.whiten:
        return projected
    scale = np.sqrt(est.explained_variance_)
    return Affine.in_place(projected, div=np.maximum(scale, np.finfo(scale.dtype).eps))


def _log_likelihood(step: Step, x: Node, precision: npt.NDArray[Any]) -> Node:
    """Return the logarithm of the density of the normal distribution with this precision.

    ``-0.5 * (c @ precision @ c) - 0.5 * (n_features * log(2 pi) - log det precision)``, c centred.
    """
    sign, log_determinant = np.linalg.slogdet(precision)
    normalizer = 0.5 * (len(precision) * log(2.0 * pi) - (log_determinant if sign > 0 else -np.inf))
    centred = _centred(step, x)
    return Affine.of(RowDot(centred, Linear.of(centred, precision)), mul=-0.5, sub=normalizer)


@parses("sklearn.decomposition.FastICA")
def parse_fast_ica(step: Step) -> Node:
    """Centre in place where the model whitens, then unmix."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"))
    return Linear.of(Affine.in_place(x, sub=est.mean_) if est.whiten else x, est.components_.T)


@inverts("sklearn.decomposition.FastICA")
def invert_fast_ica(step: Step) -> Node:
    """Mix, then add the mean in place where the model whitens."""
    est = step.estimator
    mixed = Linear.of(step.require_finite(Cast(step.x, "float")), est.mixing_.T)
    return Affine.in_place(mixed, add=est.mean_) if est.whiten else mixed


@parses("sklearn.decomposition.FactorAnalysis")
def parse_factor_analysis(step: Step) -> dict[str, Output]:
    """Return the expected factors of each row, and its likelihood.

    The formula is (12.66) of Bishop, Pattern Recognition and Machine Learning, 2006.
    """
    est = step.estimator
    x = step.require_finite()
    loadings = est.components_ / est.noise_variance_
    covariance = np.linalg.inv(np.eye(len(loadings)) + loadings @ est.components_.T)
    factors = Linear.of(Linear.of(_centred(step, x), loadings.T), covariance)
    return {
        "transform": Output(factors),
        "score_samples": Output(_log_likelihood(step, x, step.estimator.get_precision()), VECTOR),
    }


@parses("sklearn.decomposition.MiniBatchSparsePCA", "sklearn.decomposition.SparsePCA")
def parse_sparse_pca(step: Step) -> dict[str, Output]:
    """Project by ridge regression: ``solve(C @ C.T + alpha * I, C @ row)``.

    The regression has a target for each row, and makes a vector of the coefficients of one.
    """
    est = step.estimator
    x = step.require_finite()
    components = est.components_
    gram = components @ components.T + est.ridge_alpha * np.eye(
        len(components), dtype=components.dtype
    )
    weights = np.linalg.solve(gram, components).T
    codes = Linear.of(Cast(_centred(step, x), components.dtype.name), weights)
    return {"transform": Output(codes, FlatRow())}


@inverts("sklearn.decomposition.MiniBatchSparsePCA", "sklearn.decomposition.SparsePCA")
def invert_sparse_pca(step: Step) -> Node:
    """Add up the components, then add the mean."""
    return Linear.of(step.require_finite(), step.estimator.components_, step.estimator.mean_)


def _centred(step: Step, x: Node) -> Node:
    """Return ``x - mean_`` in numpy's common dtype."""
    mean = step.estimator.mean_
    return Affine.of(Cast(x, "float64") if mean.dtype == np.float64 else x, sub=mean)


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
