"""YDF's models: averages of trees, and boosted trees behind the link of their loss.

Random forests, CART trees and isolation forests are averages. Folders that YDF saved are opened by
its own library.
"""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Cast,
    Clip,
    Compare,
    ConstantRows,
    GroupSums,
    Labels,
    Map,
    Multiply,
    Node,
    Output,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.errors import MissingPackageError
from hbconv.parse.damage import reading
from hbconv.parse.registry import parses
from hbconv.parse.step import Step
from hbconv.parse.ydf.columns import read_columns
from hbconv.parse.ydf.conditions import YdfTrees, grow, read_trees

__all__ = ["class_answers", "is_slow", "number_of_classes", "open_ydf", "require_task", "sum_trees"]


def require_task(step: Step, *allowed: str) -> str:
    """Return the task that a model was trained for, if it is one of the allowed."""
    task = str(step.estimator.task().name)
    if task not in allowed:
        raise step.refuse("task", task, f"hbconv handles {', '.join(allowed)}.")
    return task


def is_slow(model: Any) -> bool:
    """Tell whether no fast engine takes a model; it answers ``use_slow_engine=True`` alone.

    So it is where a missing value goes another way than the mean, or the most frequent category.
    """
    return not model.list_compatible_engines()


def number_of_classes(step: Step) -> int:
    """Return the number of classes of the label, which must be two or more."""
    count = len(step.estimator.label_classes())
    if count < 2:
        raise step.refuse("label_classes", count, "Train it on a label of two classes or more.")
    return count


def sum_trees(
    step: Step,
    trees: YdfTrees,
    values: npt.NDArray[Any],
    start: npt.NDArray[Any],
    target: npt.NDArray[np.int64] | None = None,
) -> tuple[Node, dict[str, Output]]:
    """Return the sums of the leaves' values in start's dtype, tree after tree, and ``apply``."""
    step.refuse_sparse("finds columns by name")
    x, forest = grow(step, trees, values.astype(start.dtype), start, target)
    leaves = {"apply": Output(TreeLeaves(x, forest))} if forest.n_trees else {}
    return TreeEnsemble(x, forest), leaves


def class_answers(step: Step, p: Node) -> dict[str, Output]:
    """Return probabilities, of two classes the second's alone, and the likeliest class."""
    classes = Labels(Array(np.array(step.estimator.label_classes())))
    if p.type.width > 1:
        return {"predict": Output(p), "predict_class": Output(ArgMax(p), classes)}
    # At a half YDF takes the second class.
    second = Compare.of(p, "ge", 0.5, "int32")
    return {"predict": Output(p, VECTOR), "predict_class": Output(second, classes)}


Floats = npt.NDArray[Any]

EULER = np.float32(0.5772156649)
"""Euler's constant, as the source rounds it."""


@parses("ydf.RandomForestModel", features=read_columns)
def parse_random_forest(step: Step) -> dict[str, Output]:
    """Average the trees: numbers, or shares of classes clipped to [0, 1]."""
    task = require_task(step, "CLASSIFICATION", "REGRESSION")
    trees = read_trees(step.estimator)
    if task == "REGRESSION":
        values = trees.leaf_values(lambda node: [node.regressor.top_value], 1)
        mean, leaves = _mean(step, trees, values.astype(np.float32), np.float64)
        return {"predict": Output(mean, VECTOR), **leaves}
    mean, leaves = _mean(step, trees, _shares(step, trees), np.float32)
    # Sums of float32 shares may exceed 1 by rounding; YDF clips them.
    bounds = (Array(np.full(mean.type.width, bound, np.float32)) for bound in (0, 1))
    answers = class_answers(step, Clip(mean, *bounds))
    # Only the label is refused: probabilities that differ in the last bit are within tolerance.
    if is_slow(step.estimator) and not step.estimator.winner_takes_all():
        del answers["predict_class"]
        hint = "The slow engine rounds sums of shares in its own way, so equal ones may differ."
        step.refuse_method("predict_class", "winner_take_all", False, hint)
    return {**answers, **leaves}


def _mean(
    step: Step, trees: YdfTrees, values: Floats, slow: type[np.floating[Any]]
) -> tuple[Node, dict[str, Output]]:
    """Divide the values by the number of trees before they are added.

    The slow engine adds values first, in the dtype ``slow``.
    """
    count = len(trees.sizes)
    width = values.shape[1]
    if is_slow(step.estimator):
        sums, leaves = sum_trees(step, trees, values, np.zeros(width, slow))
        return Cast(Affine.of(sums, div=slow(count)), "float32"), leaves
    # Fast engines divide each leaf when they are built, which
    # rounds otherwise than a division of the sum.
    return sum_trees(step, trees, values / values.dtype.type(count), np.zeros(width, np.float32))


def _shares(step: Step, trees: YdfTrees) -> Floats:
    """Return what each leaf gives the classes; of two classes, the second alone.

    It gives all to the class that won it, as float32, or to each by its count, as float64.
    """
    classes = number_of_classes(step)
    kept = [2] if classes == 2 else list(range(1, classes + 1))
    if step.estimator.winner_takes_all():
        winners = trees.leaf_values(lambda node: [node.classifier.top_value], 1)
        # Class 0 of the file is "out of the dictionary", which no label has.
        if np.any(winners[~trees.splits] < 1) or np.any(winners > classes):
            raise step.damaged(f"a leaf votes for none of the {classes} classes")
        return np.where(winners == kept, np.float32(1), np.float32(0))
    counts = trees.leaf_values(lambda node: list(node.classifier.distribution.counts), classes + 1)
    total = trees.leaf_values(lambda node: [node.classifier.distribution.sum], 1)
    if not np.all(total[~trees.splits] > 0):
        raise step.damaged("a leaf counts no row")
    # Splits have no counts, so 1 keeps their zeros; they are not read.
    shares: Floats = (counts / np.where(total, total, 1.0))[:, kept]
    return shares


@parses("ydf.IsolationForestModel", features=read_columns)
def parse_isolation_forest(step: Step) -> dict[str, Output]:
    """Raise 2 to the mean depth of a row, over that of a random tree, made negative.

    A leaf of several rows counts as deep as a random tree of as many would reach below it
    (Liu, Ting and Zhou 2008).
    """
    require_task(step, "ANOMALY_DETECTION")
    trees = read_trees(step.estimator)
    rows = trees.leaf_values(lambda node: [node.anomaly_detection.num_examples_without_weight], 1)
    below = np.array([_random_depth(int(count)) for count in rows[:, 0]], np.float32)
    depth = trees.depth.astype(np.float32) + below
    shares = depth[:, None] / np.float32(len(trees.sizes))
    sums, leaves = sum_trees(step, trees, shares, np.zeros(1, np.float32))
    whole = _random_depth(int(step.estimator.num_examples_per_tree()))
    if not whole:
        none = ConstantRows(sums, Array(np.zeros(1, np.float32)))
        return {"predict": Output(none, VECTOR), **leaves}
    # The division is in float32 and the power in float64, as in YDF.
    power = Cast(Affine.of(Map(sums, "neg"), div=whole), "float64")
    return {"predict": Output(Cast(Map(power, "exp2"), "float32"), VECTOR), **leaves}


def _random_depth(count: int) -> np.float32:
    """Return the mean depth of a row in a random tree of so many rows, in float32."""
    if count <= 2:
        return np.float32(count == 2)
    n = np.float32(count)
    one = np.float32(1)
    two = np.float32(2)
    # YDF rounds each step to float32.
    harmonic = np.float32(math.log(n - one)) + EULER
    return np.float32(two * harmonic - two * (n - one) / n)


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
    # Imported here: whoever has a model of YDF has the package, and nobody else needs it.
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
        # Adding the initial predictions at last rounds otherwise than starting from them.
        return Affine.of(sums, add=initial), leaves
    # The slow engine adds a single score in float64, and several in float32.
    start = initial.astype(np.float64) if is_slow(model) and width == 1 else initial
    return sum_trees(step, trees, values, start, target)


def _starts_from_zero(model: Any) -> bool:
    """Tell whether the engine that ``predict`` takes adds the initial predictions at last."""
    return bool(model.list_compatible_engines()[:1] == ["GradientBoostedTreesGeneric"])


def open_ydf(path: Path) -> Any:
    """Open the model of a folder with the package ydf.

    Raises
    ------
    MissingPackageError
        The package is not installed.
    ConversionError
        The folder is damaged.
    """
    try:
        ydf = importlib.import_module("ydf")
    except ImportError as error:
        raise MissingPackageError(
            "Reading models of YDF needs the package ydf. Install with: pip install ydf"
        ) from error
    aside = redirect_stdout(io.StringIO())  # it prints what it loads among the answers
    with aside, reading(path.name, "Save the model again with model.save."):
        return ydf.load_model(str(path))
