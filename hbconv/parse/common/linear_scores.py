"""Scores of linear models, the classes and probabilities made of them, and fitted arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Add,
    Affine,
    ArgMax,
    Cast,
    Compare,
    Concat,
    ConstantRows,
    GroupSums,
    Labels,
    Linear,
    LogSoftmax,
    Map,
    Node,
    Output,
    Pool,
    Select,
)
from hbconv.parse.step import Step, concat

__all__ = [
    "below_largest",
    "beside_complement",
    "classify",
    "decide_by_scores",
    "dense",
    "linear_scores",
    "promote",
    "squared_lengths",
    "with_probabilities",
]


def dense(weights: Any) -> npt.NDArray[Any]:
    """Return weights as an array, also those that ``sparsify()`` made a scipy matrix."""
    return np.asarray(weights.toarray() if hasattr(weights, "toarray") else weights)


def promote(x: Node, *constants: Any) -> Node:
    """Cast x to numpy's common dtype with arrays: float64 unless all are float32."""
    narrow = all(np.asarray(constant).dtype == np.float32 for constant in constants)
    return Cast(x, "float" if narrow else "float64")


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
    has_one_score = scores.type.width == 1
    if has_one_score and len(classes) == 1:
        return _only_class(step, scores, classes)
    # A score of exactly 0 is the first class, as in the source.
    codes = Compare.of(scores, "gt", 0.0, "int32") if has_one_score else ArgMax(scores)
    return {
        "predict": Output(codes, Labels(classes)),
        "decision_function": Output(scores, VECTOR if has_one_score else MATRIX),
    }


def _only_class(step: Step, scores: Node, classes: Array) -> dict[str, Output]:
    """Predict the only class, and refuse rows whose score is for a second one."""
    step.check(
        Compare.of(scores, "gt", 0.0),
        f"A score above 0 is for a second class, which {step.name} ({step.place}) does not have.",
    )
    return {
        "predict": Output(ConstantRows(scores, Array.of([0], "int32")), Labels(classes)),
        "decision_function": Output(scores, VECTOR),
    }


def classify(joint: Node, classes: npt.ArrayLike) -> dict[str, Output]:
    """Return the most likely class, and the normalized probabilities of all classes."""
    logs = LogSoftmax(joint)
    return {
        "predict": Output(ArgMax(joint), Labels(Array(np.asarray(classes)))),
        "predict_proba": Output(Map(logs, "exp")),
        "predict_log_proba": Output(logs),
    }


def below_largest(joint: Node) -> Node:
    """Take off the largest of the joint densities, which are otherwise normalized to the same.

    Where all are huge, the logarithm of their number is lost next to them: two equal ones would
    have a probability of 1 each.
    """
    columns = tuple(range(joint.type.width))
    largest = Select(Pool(joint, (columns,), "max"), Array.of([0] * len(columns), np.int32))
    return Add((joint, Map(largest, "neg")))


def squared_lengths(parts: Sequence[Node]) -> Node:
    """Return the sum of squares of each block of columns; all blocks have one width."""
    return GroupSums(Map(concat(parts), "square"), len(parts))


def beside_complement(p: Node) -> Node:
    """Return two columns ``1 - p, p`` for each column of p: probabilities of two classes."""
    both = Concat((Affine.of(p, mul=-1.0, add=1.0), p))
    if p.type.width == 1:
        return both
    # Concat gives all complements, then all of p: pairs must be neighbours.
    return Select(both, Array.of(np.arange(both.type.width).reshape(2, -1).T.ravel(), np.int32))


def with_probabilities(outputs: dict[str, Output], probabilities: Node) -> dict[str, Output]:
    """Add predict_proba and its logarithm."""
    return {
        **outputs,
        "predict_proba": Output(probabilities),
        "predict_log_proba": Output(Map(probabilities, "log")),
    }
