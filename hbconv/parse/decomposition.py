"""Linear decompositions: projections on fixed components."""

from __future__ import annotations

from math import log, pi

import numpy as np

from hbconv.containers import Node, Output
from hbconv.containers.affine import Affine
from hbconv.containers.linear import Linear
from hbconv.containers.row_dot import RowDot
from hbconv.containers.wiring import Cast
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.decomposition.TruncatedSVD")
def parse_truncated_svd(step: Step) -> Node:
    """Project on the components."""
    return Linear.of(step.require_finite(), step.estimator.components_.T)


@parses("sklearn.decomposition.PCA")
def parse_pca(step: Step) -> dict[str, Output]:
    """Project on the components, and the likelihood of each row."""
    x = step.require_finite(Cast(step.x, "float"))
    return {"transform": Output(_project(step, x)), "score_samples": Output(_log_likelihood(step, x), vector=True)}


@parses("sklearn.decomposition.IncrementalPCA")
def parse_incremental_pca(step: Step) -> Node:
    """Project on the components."""
    return _project(step, step.require_finite(Cast(step.x, "float")))


def _project(step: Step, x: Node) -> Node:
    """Project, then subtract the projected mean, then whiten: the source's order."""
    est = step.estimator
    components = est.components_.T
    projected = Linear.of(x, components, -(est.mean_.reshape(1, -1) @ components)[0])
    if not est.whiten:
        return projected
    scale = np.sqrt(est.explained_variance_)
    return Affine.of(projected, div=np.maximum(scale, np.finfo(scale.dtype).eps))


def _log_likelihood(step: Step, x: Node) -> Node:
    """``-0.5 * (c @ precision @ c) - 0.5 * (n_features * log(2 pi) - log det precision)`` for the centred row c."""
    est = step.estimator
    precision = est.get_precision()
    sign, log_determinant = np.linalg.slogdet(precision)
    normalizer = 0.5 * (len(est.mean_) * log(2.0 * pi) - (log_determinant if sign > 0 else -np.inf))
    centred = Affine.of(Cast(x, "float64") if est.mean_.dtype == np.float64 else x, sub=est.mean_)
    return Affine.of(RowDot(centred, Linear.of(centred, precision)), mul=-0.5, sub=normalizer)
