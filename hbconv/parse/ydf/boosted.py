"""YDF's gradient boosted trees: sums of trees behind the link of their loss."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    Cast,
    Clip,
    GroupSums,
    Map,
    Multiply,
    Node,
    Output,
)
from hbconv.parse.registry import parses
from hbconv.parse.step import Step
from hbconv.parse.ydf.answers import (
    class_answers,
    is_slow,
    number_of_classes,
    require_task,
    sum_trees,
)
from hbconv.parse.ydf.columns import read_columns
from hbconv.parse.ydf.trees import read_trees

__all__: list[str] = []

_LOSS_MODULE = "yggdrasil_decision_forests.model.gradient_boosted_trees.gradient_boosted_trees_pb2"

_ONE = np.float32(1)

POISSON_BOUND = 19.0
"""Scores of a Poisson loss are clipped to this magnitude before the exponential."""


def _rounded_exp(x: Node) -> Node:
    """Take exponentials as the C library does, which rounds nearly all of them correctly."""
    return Cast(Map(Cast(x, "float64"), "exp"), x.type.dtype)


def _sigmoid(scores: Node) -> Node:
    return Map(Affine.of(_rounded_exp(Map(scores, "neg")), add=_ONE), "reciprocal")


def _softmax(scores: Node) -> Node:
    """Multiply exponentials by one over their sum, without taking off the largest score before."""
    parts = _rounded_exp(scores)
    return Multiply((parts, Map(GroupSums(parts, 1), "reciprocal")))


def _exponential(scores: Node) -> Node:
    bound = np.array([POISSON_BOUND], scores.type.dtype)
    return _rounded_exp(Clip(scores, Array(-bound), Array(bound)))


def _identity(scores: Node) -> Node:
    return scores


_LOSSES: dict[str, tuple[str, Callable[[Node], Node]]] = {
    "BINOMIAL_LOG_LIKELIHOOD": ("CLASSIFICATION", _sigmoid),
    "BINARY_FOCAL_LOSS": ("CLASSIFICATION", _sigmoid),
    "MULTINOMIAL_LOG_LIKELIHOOD": ("CLASSIFICATION", _softmax),
    "SQUARED_ERROR": ("REGRESSION", _identity),
    "MEAN_AVERAGE_ERROR": ("REGRESSION", _identity),
    "POISSON": ("REGRESSION", _exponential),
    "LAMBDA_MART_NDCG": ("RANKING", _identity),
    "LAMBDA_MART_NDCG5": ("RANKING", _identity),
    "XE_NDCG_MART": ("RANKING", _identity),
}
"""Task and link of each loss."""


@parses("ydf.GradientBoostedTreesModel", features=read_columns)
def parse_gradient_boosted_trees(step: Step) -> dict[str, Output]:
    """Add the trees to the initial predictions, and apply the link unless scores are asked for.

    ``raw_scores`` are what ``predict`` returns after ``set_output_logits(True)``.
    """
    task = require_task(step, "CLASSIFICATION", "REGRESSION", "RANKING")
    link = _link(step, task)
    scores, leaves = _scores(step, number_of_classes(step) if task == "CLASSIFICATION" else 1)
    linked = task != "CLASSIFICATION" or not step.estimator.output_logits()
    answer = Cast(link(scores) if linked else scores, "float32")
    form = VECTOR if scores.type.width == 1 else MATRIX
    others = {"raw_scores": Output(Cast(scores, "float32"), form), **leaves}
    if task != "CLASSIFICATION":
        return {"predict": Output(answer, form), **others}
    return {**class_answers(step, answer), **others}


def _link(step: Step, task: str) -> Callable[[Node], Node]:
    number = step.estimator._model.loss()
    names = importlib.import_module(_LOSS_MODULE).Loss
    loss = str(names.Name(number)) if number in names.values() else str(number)
    if loss not in _LOSSES or _LOSSES[loss][0] != task:
        raise step.refuse("loss", loss, f"hbconv handles {', '.join(_LOSSES)}.")
    return _LOSSES[loss][1]


def _scores(step: Step, classes: int) -> tuple[Node, dict[str, Output]]:
    """Return the scores: one, or one for each of three classes or more."""
    model = step.estimator
    width = classes if classes > 2 else 1
    initial = np.array(model.initial_predictions(), np.float32)
    if model.num_trees_per_iteration() != width or len(initial) != width:
        hint = f"{width} score{'s' * (width > 1)} would have as many trees in each iteration."
        raise step.refuse("num_trees_per_iteration", model.num_trees_per_iteration(), hint)
    trees = read_trees(model)
    values = trees.leaf_values(lambda node: [node.regressor.top_value], 1)
    target = np.arange(len(trees.sizes)) % width
    if _starts_from_zero(model):
        sums, leaves = sum_trees(step, trees, values, np.zeros(width, np.float32), target)
        return Affine.of(sums, add=initial), leaves
    start = initial.astype(np.float64) if is_slow(model) and width == 1 else initial
    return sum_trees(step, trees, values, start, target)


def _starts_from_zero(model: Any) -> bool:
    """Tell whether the engine that ``predict`` takes adds the initial predictions at last."""
    return bool(model.list_compatible_engines()[:1] == ["GradientBoostedTreesGeneric"])
