"""Discriminant analysis: linear scores, or distances in a metric of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    Cast,
    FiniteLog,
    GroupSums,
    Linear,
    Map,
    Node,
    Output,
    Softmax,
)
from hbconv.parse.common.linear_scores import (
    below_largest,
    beside_complement,
    classify,
    decide_by_scores,
    promote,
)
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.discriminant_analysis.LinearDiscriminantAnalysis", takes_sparse=True)
def parse_linear_discriminant_analysis(step: Step) -> dict[str, Output]:
    """Return linear scores, their softmax, and the projection.

    Only some solvers find discriminants to project on.
    """
    solver = step.require("solver", "svd", "lsqr", "eigen")
    if len(step.estimator.classes_) == 1:
        raise step.refuse(
            "classes_",
            step.estimator.classes_,
            "The source model itself has no probabilities of a single class: use DummyClassifier.",
        )
    outputs = decide_by_scores(step)
    scores = outputs["decision_function"].node
    p = beside_complement(Map(scores, "sigmoid")) if scores.type.width == 1 else Softmax(scores)
    outputs |= {"predict_proba": Output(p), "predict_log_proba": Output(FiniteLog(p))}
    return outputs if solver == "lsqr" else {**outputs, "transform": Output(_discriminants(step))}


def _discriminants(step: Step) -> Node:
    est = step.estimator
    x = step.x
    centred = Affine.of(promote(x, est.xbar_), sub=est.xbar_) if est.solver == "svd" else x
    return Linear.of(centred, est.scalings_[:, : est._max_components])


@parses("sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis")
def parse_quadratic_discriminant_analysis(step: Step) -> dict[str, Output]:
    """Return ``log prior - (distance + log det covariance) / 2`` of each class.

    With two classes the score is the difference.
    """
    est = step.estimator
    # The source spoils only the classes of these means; the common centre would spoil all.
    if not np.isfinite(est.means_).all():
        raise step.damaged("means_ holds NaN or infinity")
    x = promote(step.require_finite(), est.means_)
    distances = _distances(est, x)
    log_determinants = np.array([np.log(scaling).sum() for scaling in est.scalings_])
    joint = Affine.of(
        Affine.of(Cast(distances, "float64"), add=log_determinants, mul=-0.5),
        add=np.log(est.priors_),
    )
    two = len(est.classes_) == 2
    scores = Linear.of(joint, [[-1.0], [1.0]]) if two else joint
    return {
        **classify(below_largest(joint), est.classes_),
        "decision_function": Output(scores, VECTOR if two else MATRIX),
    }


def _distances(est: Any, x: Node) -> Node:
    """Return squared distances to the mean of each class, in the metric of the class.

    They come from one product of rows centred at the median of the means.
    """
    roots = [
        _triangular(rotation * scaling**-0.5)
        for rotation, scaling in zip(est.rotations_, est.scalings_, strict=True)
    ]
    # One class 1e9 away took the digits from the distances to all others, so no mean.
    centre = np.median(est.means_, axis=0)
    shifts = [
        (centre.astype(np.float64) - mean) @ root
        for mean, root in zip(est.means_, roots, strict=True)
    ]
    return GroupSums(
        Map(
            Linear.of(
                Affine.of(x, sub=centre), np.concatenate(roots, axis=1), np.concatenate(shifts)
            ),
            "square",
        ),
        len(roots),
    )


def _triangular(weights: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return lower triangular weights that give rows the same lengths: ``weights = L Q``.

    Q is a rotation. Weights of float32 stay, since rows of float64 would see the rounding.
    """
    if weights.dtype != np.float64:
        return weights
    # Products pass over zeros along the edge of the weights, here half of them.
    upper = np.asarray(np.linalg.qr(weights.T, mode="r"))
    return np.ascontiguousarray(upper.T)
