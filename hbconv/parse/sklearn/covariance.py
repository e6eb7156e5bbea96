"""Covariance estimators: Mahalanobis distances, and outliers by them."""

from __future__ import annotations

import numpy as np

from hbconv.containers import VECTOR, Affine, Cast, Compare, Linear, Map, Node, Output, RowDot
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses(
    "sklearn.covariance.EmpiricalCovariance",
    "sklearn.covariance.GraphicalLasso",
    "sklearn.covariance.GraphicalLassoCV",
    "sklearn.covariance.LedoitWolf",
    "sklearn.covariance.MinCovDet",
    "sklearn.covariance.OAS",
    "sklearn.covariance.ShrunkCovariance",
)
def parse_covariance(step: Step) -> dict[str, Output]:
    """Return the distances alone."""
    return {"mahalanobis": Output(_mahalanobis(step), VECTOR)}


@parses("sklearn.covariance.EllipticEnvelope")
def parse_elliptic_envelope(step: Step) -> dict[str, Output]:
    """Score by the negative distance; a row is an inlier from the offset on."""
    distances = _mahalanobis(step)
    scores = Affine.of(distances, mul=-1.0)
    decision = Affine.of(scores, sub=step.estimator.offset_)
    inlier = Compare.of(decision, "ge", 0.0, "float64")
    return {
        "predict": Output(Cast(Affine.of(inlier, mul=2.0, sub=1.0), "int64"), VECTOR),
        "decision_function": Output(decision, VECTOR),
        "score_samples": Output(scores, VECTOR),
        "mahalanobis": Output(distances, VECTOR),
    }


def _mahalanobis(step: Step) -> Node:
    """Return ``c @ precision @ c`` for the centred row c, in float64.

    It is NaN where rounding makes it negative, since the source model takes its root.
    """
    est = step.estimator
    centred = Affine.of(Cast(step.require_finite(), "float64"), sub=est.location_)
    precision = est.get_precision()
    if not np.isfinite(precision).all():
        raise step.damaged("precision_ holds values that are not finite")
    return Map(Map(RowDot(centred, Linear.of(centred, precision)), "sqrt"), "square")
