"""Mixtures of Gaussians: the weighted log density of each component."""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    VECTOR,
    Add,
    Affine,
    ArgMax,
    Cast,
    CastLike,
    Linear,
    LogSoftmax,
    LogSumExp,
    Map,
    Node,
    Output,
    RowDot,
)
from hbconv.parse.common.linear_scores import promote, squared_lengths
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

Floats = npt.NDArray[np.floating]


@parses("sklearn.mixture.GaussianMixture", "sklearn.mixture.BayesianGaussianMixture")
def parse_gaussian_mixture(step: Step) -> dict[str, Output]:
    """Return the component of largest ``log weight + log density``, shares and the sum."""
    est = step.estimator
    width = est.means_.shape[1]
    density = Affine.of(_distances(step), add=width * log(2 * pi), mul=-0.5)
    joint = density
    # Added one by one, since each sum rounds.
    for constants in _constants(est, width):
        joint = Affine.of(promote(joint, constants), add=constants)
    return {
        "predict": Output(Cast(ArgMax(joint), "int64"), VECTOR),
        "predict_proba": Output(Map(LogSoftmax(joint), "exp")),
        "score_samples": Output(LogSumExp(joint), VECTOR),
    }


def _distances(step: Step) -> Node:
    """Return squared distances to the means, in the metric of each component."""
    est = step.estimator
    x = step.require_finite()
    kind = step.require("covariance_type", "full", "tied", "diag", "spherical")
    means = est.means_
    root = est.precisions_cholesky_
    if kind in ("full", "tied"):
        roots = root if kind == "full" else [root] * len(means)
        return CastLike(
            squared_lengths(
                [Linear.of(x, r, -(mean @ r)) for mean, r in zip(means, roots, strict=True)]
            ),
            x,
        )
    precisions = root**2 if kind == "diag" else (root**2)[:, None]
    # The square is expanded as in the source, which loses digits far from zero.
    products = Linear.of(x, -2.0 * (means * precisions).T, (means**2 * precisions).sum(axis=1))
    squares = Map(x, "square") if kind == "diag" else RowDot(x, x)
    return Add((products, Linear.of(squares, precisions.T)))


def _constants(est: Any, width: int) -> list[Floats]:
    """Return what the source model adds to each component, in its order."""
    expected = _expectations(est, width) if hasattr(est, "degrees_of_freedom_") else []
    return [_log_determinants(est, width), *expected, est._estimate_log_weights()]


def _log_determinants(est: Any, width: int) -> Floats:
    """Return the logarithm of the determinant of each ``precisions_cholesky_``."""
    root: Floats = est.precisions_cholesky_
    if est.covariance_type == "spherical":
        return width * np.log(root)
    if est.covariance_type == "tied":
        return np.repeat(np.log(np.diagonal(root)).sum(), len(est.means_))
    diagonals = root if est.covariance_type == "diag" else np.diagonal(root, axis1=1, axis2=2)
    return np.asarray(np.log(diagonals).sum(axis=1))


def _expectations(est: Any, width: int) -> list[Floats]:
    """Return what the uncertain precisions of a variational mixture add to each log density."""
    # Imported here: hbconv itself needs no scipy.
    from scipy.special import digamma

    freedom = est.degrees_of_freedom_
    log_lambda = width * log(2.0) + digamma(0.5 * (freedom - np.arange(width)[:, None])).sum(axis=0)
    return [-0.5 * width * np.log(freedom), 0.5 * (log_lambda - width / est.mean_precision_)]
