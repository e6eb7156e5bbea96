"""Partial least squares and canonical correlation: scale rows, then project them."""

from __future__ import annotations

from hbconv.containers import MATRIX, VECTOR, Affine, Cast, Linear, Node, Output
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses(
    "sklearn.cross_decomposition.CCA",
    "sklearn.cross_decomposition.PLSCanonical",
    "sklearn.cross_decomposition.PLSRegression",
)
def parse_partial_least_squares(step: Step) -> dict[str, Output]:
    """Project scaled rows, and predict from centred rows.

    The coefficients of ``predict`` hold the scale.
    """
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"))
    scores = Linear.of(_scale(step, x), est.x_rotations_)
    prediction = Linear.of(Affine.in_place(x, sub=est._x_mean), est.coef_.T, est.intercept_)
    return {
        "predict": Output(prediction, VECTOR if est._predict_1d else MATRIX),
        "transform": Output(scores),
    }


@inverts(
    "sklearn.cross_decomposition.CCA",
    "sklearn.cross_decomposition.PLSCanonical",
    "sklearn.cross_decomposition.PLSRegression",
)
def invert_partial_least_squares(step: Step) -> Node:
    """Add up the loadings, then undo the scaling in place; targets are not inverted."""
    est = step.estimator
    rows = Linear.of(step.require_finite(Cast(step.x, "float")), est.x_loadings_.T)
    return Affine.in_place(rows, mul=est._x_std, add=est._x_mean)


@parses("sklearn.cross_decomposition.PLSSVD")
def parse_partial_least_squares_svd(step: Step) -> Node:
    """Project scaled rows, all in float64."""
    return Linear.of(
        _scale(step, step.require_finite(Cast(step.x, "float64"))), step.estimator.x_weights_
    )


def _scale(step: Step, x: Node) -> Node:
    return Affine.in_place(x, sub=step.estimator._x_mean, div=step.estimator._x_std)
