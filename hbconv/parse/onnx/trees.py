"""Tree operators: TreeEnsembleRegressor, TreeEnsembleClassifier and TreeEnsemble."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    ArgMax,
    Cast,
    Choose,
    Compare,
    Concat,
    ConstantRows,
    LookupRows,
    Map,
    Node,
    Pool,
    Select,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.scores import class_labels, compared, labelled, regressed, transformed
from hbconv.parse.onnx.splits import TreeSplits, grown, tree_of_leaves, truncated
from hbconv.parse.onnx.tree_tables import read_nodes, read_tensors
from hbconv.parse.onnx.values import LabelTensor, RowTensor

__all__: list[str] = []

ML = "ai.onnx.ml"

Numbers = npt.NDArray[Any]

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""Aggregate functions, in the order of opset 5."""

NUMBERED = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""Post transforms as onnxruntime numbers them; opset 5 has SOFTMAX before LOGISTIC."""


@operator("TreeEnsembleRegressor", domain=ML)
def read_regressor(op: OnnxOperator) -> RowTensor:
    """Aggregate the leaves of all trees, add the base values, and transform."""
    targets = _count(op, op.get("n_targets", 1))
    x = _thresholded(op)
    splits = read_nodes(op, "target", targets, x.dtype)
    _require_columns(op, splits, x)
    scores = _aggregated(op, splits, x.node, op.get("aggregate_function", "SUM"))
    scores = Cast(_based(op, scores), "float32")
    found = Cast(regressed(op, scores, _transform(op)), "float32")
    return RowTensor((1, targets), 0, found)


@operator("TreeEnsemble", domain=ML)
def read_ensemble(op: OnnxOperator) -> RowTensor:
    """Aggregate likewise; there are no base values."""
    targets = _count(op, op.get("n_targets", 1))
    splits = read_tensors(op, targets)
    x = op.matrix().cast(splits.threshold.dtype.name)
    function = _named(op, "aggregate_function", 1, AGGREGATES)
    _require_columns(op, splits, x)
    read, splits = truncated(splits, x.node)
    scores = _aggregated(op, splits, read, function)
    found = regressed(op, scores, _named(op, "post_transform", 0, NUMBERED))
    return RowTensor((1, targets), 0, Cast(found, x.dtype))


@operator("TreeEnsembleClassifier", domain=ML)
def read_classifier(op: OnnxOperator) -> tuple[LabelTensor, RowTensor]:
    """Sum the leaves class by class, and take the label of the largest score.

    A class that no leaf reached of a row has a weight for is no candidate.
    With two classes the label follows the score of one of them.
    """
    labels = class_labels(op)
    x = _thresholded(op)
    splits = read_nodes(op, "class", len(labels), x.dtype)
    _require_columns(op, splits, x)
    sums = _aggregated(op, splits, x.node, "SUM")
    if len(labels) <= 2:
        return _binary(op, labels, splits, sums)
    scores = _based(op, sums)
    based = len(op.numbers("base_values")) > 0
    code = ArgMax(scores if based else _candidates(splits, x.node, scores))
    transform = op.get("post_transform", "NONE")
    return labelled(code, labels), _written(op, scores, transform)


def _thresholded(op: OnnxOperator) -> RowTensor:
    """Return x in the dtype in which it is compared: double stays, all else becomes float."""
    x = op.matrix()
    return x.cast("float64" if x.dtype == "float64" else "float32")


def _count(op: OnnxOperator, value: int) -> int:
    if not 0 < value < 1 << 20:
        raise op.damaged(f"has {value} targets")
    return int(value)


def _named(op: OnnxOperator, name: str, default: int, names: tuple[str, ...]) -> str:
    value = op.get(name, default)
    if value not in range(len(names)):
        raise op.refuse(name, value, f"hbconv handles 0 to {len(names) - 1}.")
    return names[int(value)]


def _require_columns(op: OnnxOperator, splits: TreeSplits, x: RowTensor) -> None:
    read = splits.feature
    if len(read) and not 0 <= read.min() <= read.max() < x.width:
        raise op.damaged(f"reads column {read.max()} of {x.width}")


def _aggregated(op: OnnxOperator, splits: TreeSplits, x: Node, function: str) -> Node:
    if function not in AGGREGATES:
        raise op.refuse("aggregate_function", function, f"hbconv handles {', '.join(AGGREGATES)}.")
    if not len(splits.roots):
        raise op.damaged("has no tree")
    read, forest = grown(splits, x)
    if function in ("MIN", "MAX"):
        return _extreme(op, splits, TreeLeaves(read, forest), function.lower())
    sums = TreeEnsemble(read, forest)
    return Affine.of(sums, div=float(forest.n_trees)) if function == "AVERAGE" else sums


def _extreme(op: OnnxOperator, splits: TreeSplits, leaves: Node, function: str) -> Node:
    """Return the least or largest weight of each target, of the trees that have one for it."""
    always = _by_tree(splits, splits.weighs, np.logical_and)
    if not np.array_equal(always, _by_tree(splits, splits.weighs, np.logical_or)):
        raise op.refuse("aggregate_function", function.upper(), "Give every leaf the same targets.")
    if not always.any(axis=0).all():
        raise op.refuse("aggregate_function", function.upper(), "Give every target a weight.")
    return _pooled(splits, leaves, always, function)


def _pooled(splits: TreeSplits, leaves: Node, adds: npt.NDArray[np.bool_], function: str) -> Node:
    targets = splits.weights.shape[1]
    values = LookupRows(leaves, Array(splits.weights))
    groups = tuple(
        tuple((np.flatnonzero(adds[:, target]) * targets + target).tolist())
        for target in range(targets)
    )
    return Pool(values, groups, function)


def _by_tree(
    splits: TreeSplits, weighs: npt.NDArray[np.bool_], combine: np.ufunc
) -> npt.NDArray[np.bool_]:
    """Combine the rows of each tree's leaves: shape (n_trees, n_targets)."""
    tree = tree_of_leaves(splits)
    trees = range(len(splits.roots))
    return np.array([combine.reduce(weighs[tree == i], axis=0) for i in trees], np.bool_)


def _based(op: OnnxOperator, sums: Node) -> Node:
    """Add the base values behind the sums."""
    base = op.numbers("base_values")
    if not len(base):
        return sums
    if len(base) != sums.type.width:
        raise op.refuse(
            "base_values", base.tolist()[:4], f"Give one for each of {sums.type.width} targets."
        )
    return Affine.of(sums, add=base.astype(sums.type.dtype))


def _written(op: OnnxOperator, scores: Node, transform: str) -> RowTensor:
    """Return the scores transformed, as float32."""
    found = Cast(transformed(op, Cast(scores, "float32"), transform), "float32")
    return RowTensor((1, scores.type.width), 0, found)


def _candidates(splits: TreeSplits, x: Node, scores: Node) -> Node:
    """Return scores that are least where no leaf reached has a weight for the class."""
    always = np.atleast_1d(_by_tree(splits, splits.weighs, np.logical_and).any(axis=0))
    if always.all():
        return scores
    read, forest = grown(replace(splits, weights=splits.weighs.astype(np.float32)), x)
    least = ConstantRows(x, Array(np.full(len(always), -np.inf, scores.type.dtype)))
    counted = compared(TreeEnsemble(read, forest), "gt", 0.0)
    return Choose(counted, scores, least)


def _binary(
    op: OnnxOperator, labels: Numbers, splits: TreeSplits, sums: Node
) -> tuple[LabelTensor, RowTensor]:
    """Return label and scores of two classes, as onnxruntime does.

    The weights are those of one class, or of both. Of one class the score decides alone: above a
    half where all weights are positive, else above 0.
    """
    if len(labels) != 2:
        raise op.refuse("classlabels", labels.tolist(), "hbconv handles two classes or more.")
    weighed = np.flatnonzero(splits.weighs.any(axis=0)).tolist()
    always = np.flatnonzero(_by_tree(splits, splits.weighs, np.logical_and).any(axis=0)).tolist()
    if weighed != always or not weighed:
        raise op.refuse("class_ids", weighed, "Give each class a weight in every leaf.")
    if weighed == [0, 1]:
        return _of_two_sums(op, labels, sums)
    positive = bool(np.all(splits.weights >= 0))
    if len(op.numbers("base_values")) > 1:
        hint = "Give one for a classifier of one score."
        raise op.refuse("base_values", op.numbers("base_values").tolist(), hint)
    score = Select(sums, Array.of(weighed, np.int32))
    if weighed == [1]:
        return _of_second_class(op, labels, score, 0.5 if positive else 0.0)
    return _of_first_class(op, labels, _based(op, score), positive=positive)


def _of_two_sums(op: OnnxOperator, labels: Numbers, sums: Node) -> tuple[LabelTensor, RowTensor]:
    """Decide by the sign of the second score; labels that are ints become 0 and 1.

    One base value is added to the first score. Of two, the second is added to the first score,
    which is then that of the second class, and its negative that of the first.
    """
    base = op.numbers("base_values").astype(sums.type.dtype)
    first: Node = Select(sums, Array.of([0], np.int32))
    second: Node = Select(sums, Array.of([1], np.int32))
    scores = sums
    if len(base) == 1:
        scores = Concat((Affine.of(first, add=base), second))
    elif len(base) == 2:
        second = Affine.of(first, add=base[1:])
        scores = Concat((Map(second, "neg"), second))
    elif len(base):
        raise op.refuse("base_values", base.tolist()[:4], "Give at most two.")
    told = np.arange(2) if labels.dtype.kind == "i" else labels
    return labelled(_code(second, 0.0), told), _written(op, scores, _transform(op))


def _of_second_class(
    op: OnnxOperator, labels: Numbers, score: Node, threshold: float
) -> tuple[LabelTensor, RowTensor]:
    """Score 0 for the first class; onnxruntime leaves a base value out."""
    zero = ConstantRows(score, Array(np.zeros(1, score.type.dtype)))
    found = _written(op, Concat((zero, score)), _transform(op))
    return labelled(_code(score, threshold), labels), found


def _of_first_class(
    op: OnnxOperator, labels: Numbers, score: Node, *, positive: bool
) -> tuple[LabelTensor, RowTensor]:
    """Make both scores of one, which is that of the second class."""
    code = _code(score, 0.5 if positive else 0.0)
    single = Cast(score, "float32")
    transform = op.one_of("post_transform", "NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    if transform == "LOGISTIC":
        other: Node = Map(Map(single, "neg"), "sigmoid")
        found = Concat((other, Map(single, "sigmoid")))
    else:
        other = Affine.of(single, mul=-1.0, add=1.0) if positive else Map(single, "neg")
        found = Concat((other, single))
    return labelled(code, labels), RowTensor((1, 2), 0, found)


def _code(score: Node, threshold: float) -> Node:
    return Compare(score, "gt", Array(np.array([threshold], score.type.dtype)), "int32")


def _transform(op: OnnxOperator) -> str:
    return str(op.get("post_transform", "NONE"))
