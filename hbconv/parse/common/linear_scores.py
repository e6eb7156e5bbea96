"""Scores of linear models, ``X @ coef_.T + intercept_``, and the decision taken by them."""

from __future__ import annotations

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    ArgMax,
    Compare,
    ConstantRows,
    Labels,
    Linear,
    Node,
    Output,
)
from hbconv.parse.common.fitted_arrays import dense
from hbconv.parse.step import Step

__all__ = ["decide_by_scores", "linear_scores"]


def linear_scores(step: Step) -> Node:
    """Return ``X @ coef_.T + intercept_``, one column an output."""
    estimator = step.estimator
    return Linear.of(step.require_finite(), dense(estimator.coef_).T, estimator.intercept_)


def decide_by_scores(step: Step) -> dict[str, Output]:
    """Return the methods every linear classifier has: predict and decision_function.

    Two classes share one score: above 0 is the second class.
    More classes have one score each: the largest wins, the first of equals.
    """
    scores = linear_scores(step)
    classes = Array(step.estimator.classes_)
    one = scores.type.width == 1
    if one and len(classes) == 1:
        return _only_class(step, scores, classes)
    codes = Compare.of(scores, "gt", 0.0, "int32") if one else ArgMax(scores)
    return {
        "predict": Output(codes, Labels(classes)),
        "decision_function": Output(scores, VECTOR if one else MATRIX),
    }


def _only_class(step: Step, scores: Node, classes: Array) -> dict[str, Output]:
    """Answer with the class that stands alone, and refuse rows whose score is of a second one."""
    step.check(
        Compare.of(scores, "gt", 0.0),
        f"A score above 0 stands for a second class, of which {step.name} ({step.place}) "
        "knows none.",
    )
    return {
        "predict": Output(ConstantRows(scores, Array.of([0], "int32")), Labels(classes)),
        "decision_function": Output(scores, VECTOR),
    }
