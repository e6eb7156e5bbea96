"""Calibration: turn the scores of classifiers into probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    ArgMax,
    Cast,
    Clip,
    Concat,
    Labels,
    Logits,
    Map,
    Node,
    Output,
    Proportions,
    Select,
    Softmax,
)
from hbconv.parse.common.linear_scores import beside_complement, promote
from hbconv.parse.common.members import response, spread_classes
from hbconv.parse.registry import parses
from hbconv.parse.schema import common_schema
from hbconv.parse.sklearn.isotonic import isotonic_prediction
from hbconv.parse.step import Step, concat


@parses(
    "sklearn.calibration.CalibratedClassifierCV",
    features=lambda est: common_schema(pair.estimator for pair in est.calibrated_classifiers_),
)
def parse_calibrated_classifier(step: Step) -> dict[str, Output]:
    """Average the probabilities of all pairs of classifier and calibrator, in float64."""
    est = step.estimator
    each = [
        Cast(_calibrate(step, pair, i), "float64")
        for i, pair in enumerate(est.calibrated_classifiers_)
    ]
    mean = Affine.of(Add(tuple(each)), div=len(each))
    return {
        "predict": Output(ArgMax(mean), Labels(Array(est.classes_))),
        "predict_proba": Output(mean),
    }


def _calibrate(step: Step, pair: Any, i: int) -> Node:
    outputs = step.child(
        pair.estimator, step.x, f"calibrated_classifiers_[{i}]", x_sparse=step.x_sparse
    )
    scores, method = response(step, pair.estimator, outputs, "decision_function", "predict_proba")
    if pair.method == "temperature":
        return _with_temperature(step, pair, scores, method)
    if pair.method not in _CALIBRATORS:
        raise step.refuse(
            "method", pair.method, f"hbconv handles {', '.join([*_CALIBRATORS, 'temperature'])}."
        )
    return _class_by_class(step, pair, scores)


def _class_by_class(step: Step, pair: Any, scores: Node) -> Node:
    """Calibrate each class against the others.

    Classes that a classifier was not fitted on have probability 0.
    """
    calibrate = _CALIBRATORS[pair.method]
    n_classes = len(pair.classes)
    columns = [Select(scores, Array.of([j], np.int32)) for j in range(scores.type.width)]
    each = concat(
        [
            calibrate(step, calibrator, column)
            for calibrator, column in zip(pair.calibrators, columns, strict=True)
        ]
    )
    if n_classes == 2:
        p = beside_complement(each)
    else:
        # zip() of the source stops at the shorter: with one score it calibrates the first class.
        positions = np.searchsorted(pair.classes, pair.estimator.classes_)[: scores.type.width]
        p = Proportions(spread_classes(each, positions, n_classes, 0.0))
    # The source cuts what rounding lifts above 1, by at most 1e-5.
    return Clip.of(p, -np.inf, 1.0) if pair.method == "isotonic" else p


def _sigmoid(_step: Step, calibrator: Any, score: Node) -> Node:
    """Return ``sigmoid(-(a * score + b))``."""
    return Map(
        Affine.of(
            Affine.of(Cast(score, "float64"), mul=calibrator.a_, add=calibrator.b_), mul=-1.0
        ),
        "sigmoid",
    )


def _isotonic(step: Step, calibrator: Any, score: Node) -> Node:
    return Cast(isotonic_prediction(step, calibrator, score), "float64")


_CALIBRATORS: dict[str, Callable[[Step, Any, Node], Node]] = {
    "sigmoid": _sigmoid,
    "isotonic": _isotonic,
}
"""How each method turns one score into a probability."""


def _with_temperature(step: Step, pair: Any, scores: Node, method: str) -> Node:
    """Take the softmax of logits divided by a temperature."""
    logits = _logits(step.require_finite(scores), method)
    (calibrator,) = pair.calibrators
    # The one temperature scales a logit for each class.
    if logits.type.width != len(pair.classes):
        raise step.refuse(
            "method",
            "temperature",
            "One of its classifiers was not fitted on all classes: use fewer folds.",
        )
    return Softmax(Affine.of(promote(logits, calibrator.beta_), mul=calibrator.beta_))


def _logits(scores: Node, method: str) -> Node:
    """Return the scores of all classes, or the logarithms of their probabilities.

    The source model takes scores for probabilities where all rows of a batch look like some.
    Here each row is judged alone.
    """
    if scores.type.width > 1:
        return Logits(scores)
    return (
        Logits(beside_complement(scores))
        if method == "predict_proba"
        else Concat((Affine.of(scores, mul=-1.0), scores))
    )
