"""Tree operators: TreeEnsembleRegressor, TreeEnsembleClassifier and TreeEnsemble.

Opsets 1, 3 and 5 store trees differently; each form is read into the same splits.
"""

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
from hbconv.parse.onnx.linear import (
    class_labels,
    compare_with,
    label_codes,
    post_transform,
    transform_predictions,
)
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.splits import MODES, TreeSplits, grow, tree_of_leaves, truncate_members
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
    x = _read_rows(op)
    splits = read_nodes(op, "target", targets, x.dtype)
    _require_columns(op, splits, x)
    scores = _aggregate(op, splits, x.node, op.get("aggregate_function", "SUM"))
    scores = Cast(_add_base(op, scores), "float32")
    predictions = Cast(transform_predictions(op, scores, _transform(op)), "float32")
    return RowTensor((1, targets), 0, predictions)


@operator("TreeEnsemble", domain=ML)
def read_ensemble(op: OnnxOperator) -> RowTensor:
    """Aggregate likewise; there are no base values."""
    targets = _count(op, op.get("n_targets", 1))
    splits = read_tensors(op, targets)
    x = op.matrix().cast(splits.threshold.dtype.name)
    function = _read_name(op, "aggregate_function", 1, AGGREGATES)
    _require_columns(op, splits, x)
    read, splits = truncate_members(splits, x.node)
    scores = _aggregate(op, splits, read, function)
    predictions = transform_predictions(op, scores, _read_name(op, "post_transform", 0, NUMBERED))
    return RowTensor((1, targets), 0, Cast(predictions, x.dtype))


@operator("TreeEnsembleClassifier", domain=ML)
def read_classifier(op: OnnxOperator) -> tuple[LabelTensor, RowTensor]:
    """Sum the leaves class by class, and take the label of the largest score.

    A class that no leaf reached of a row has a weight for is no candidate.
    With two classes the label follows the score of one of them.
    """
    labels = class_labels(op)
    x = _read_rows(op)
    splits = read_nodes(op, "class", len(labels), x.dtype)
    _require_columns(op, splits, x)
    sums = _aggregate(op, splits, x.node, "SUM")
    # onnxruntime decides between two classes by rules of their own.
    if len(labels) <= 2:
        return _binary(op, labels, splits, sums)
    scores = _add_base(op, sums)
    based = len(op.numbers("base_values")) > 0
    # With base values every class is a candidate.
    code = ArgMax(scores if based else _candidates(splits, x.node, scores))
    transform = op.get("post_transform", "NONE")
    return label_codes(code, labels), _write_scores(op, scores, transform)


def _read_rows(op: OnnxOperator) -> RowTensor:
    """Return x in the dtype in which it is compared: double stays, all else becomes float."""
    x = op.matrix()
    return x.cast("float64" if x.dtype == "float64" else "float32")


def _count(op: OnnxOperator, value: int) -> int:
    if not 0 < value < 1 << 20:
        raise op.damaged(f"has {value} targets")
    return int(value)


def _read_name(op: OnnxOperator, name: str, default: int, names: tuple[str, ...]) -> str:
    value = op.get(name, default)
    if value not in range(len(names)):
        raise op.refuse(name, value, f"hbconv handles 0 to {len(names) - 1}.")
    return names[int(value)]


def _require_columns(op: OnnxOperator, splits: TreeSplits, x: RowTensor) -> None:
    read = splits.feature
    if len(read) and not 0 <= read.min() <= read.max() < x.width:
        raise op.damaged(f"reads column {read.max()} of {x.width}")


def _aggregate(op: OnnxOperator, splits: TreeSplits, x: Node, function: str) -> Node:
    if function not in AGGREGATES:
        raise op.refuse("aggregate_function", function, f"hbconv handles {', '.join(AGGREGATES)}.")
    if not len(splits.roots):
        raise op.damaged("has no tree")
    read, forest = grow(splits, x)
    if function in ("MIN", "MAX"):
        return _extreme(op, splits, TreeLeaves(read, forest), function.lower())
    sums = TreeEnsemble(read, forest)
    return Affine.of(sums, div=float(forest.n_trees)) if function == "AVERAGE" else sums


def _extreme(op: OnnxOperator, splits: TreeSplits, leaves: Node, function: str) -> Node:
    """Return the least or largest weight of each target, of the trees that have one for it."""
    # Trees whose leaves differ in targets would need a mask for each row.
    always = _by_tree(splits, splits.weighs, np.logical_and)
    if not np.array_equal(always, _by_tree(splits, splits.weighs, np.logical_or)):
        raise op.refuse("aggregate_function", function.upper(), "Give every leaf the same targets.")
    if not always.any(axis=0).all():
        raise op.refuse("aggregate_function", function.upper(), "Give every target a weight.")
    return _pool(splits, leaves, always, function)


def _pool(splits: TreeSplits, leaves: Node, adds: npt.NDArray[np.bool_], function: str) -> Node:
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


def _add_base(op: OnnxOperator, sums: Node) -> Node:
    """Add the base values behind the sums."""
    base = op.numbers("base_values")
    if not len(base):
        return sums
    if len(base) != sums.type.width:
        raise op.refuse(
            "base_values", base.tolist()[:4], f"Give one for each of {sums.type.width} targets."
        )
    return Affine.of(sums, add=base.astype(sums.type.dtype))


def _write_scores(op: OnnxOperator, scores: Node, transform: str) -> RowTensor:
    """Return the scores transformed, as float32."""
    written = Cast(post_transform(op, Cast(scores, "float32"), transform), "float32")
    return RowTensor((1, scores.type.width), 0, written)


def _candidates(splits: TreeSplits, x: Node, scores: Node) -> Node:
    """Return scores that are least where no leaf reached has a weight for the class."""
    always = np.atleast_1d(_by_tree(splits, splits.weighs, np.logical_and).any(axis=0))
    if always.all():
        return scores
    read, forest = grow(replace(splits, weights=splits.weighs.astype(np.float32)), x)
    least = ConstantRows(x, Array(np.full(len(always), -np.inf, scores.type.dtype)))
    counted = compare_with(TreeEnsemble(read, forest), "gt", 0.0)
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
    return _of_first_class(op, labels, _add_base(op, score), positive=positive)


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
    shown = np.arange(2) if labels.dtype.kind == "i" else labels
    return label_codes(_code(second, 0.0), shown), _write_scores(op, scores, _transform(op))


def _of_second_class(
    op: OnnxOperator, labels: Numbers, score: Node, threshold: float
) -> tuple[LabelTensor, RowTensor]:
    """Score 0 for the first class; onnxruntime leaves a base value out."""
    zero = ConstantRows(score, Array(np.zeros(1, score.type.dtype)))
    written = _write_scores(op, Concat((zero, score)), _transform(op))
    return label_codes(_code(score, threshold), labels), written


def _of_first_class(
    op: OnnxOperator, labels: Numbers, score: Node, *, positive: bool
) -> tuple[LabelTensor, RowTensor]:
    """Make both scores of one, which is that of the second class."""
    code = _code(score, 0.5 if positive else 0.0)
    single = Cast(score, "float32")
    transform = op.one_of("post_transform", "NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    if transform == "LOGISTIC":
        other: Node = Map(Map(single, "neg"), "sigmoid")
        both = Concat((other, Map(single, "sigmoid")))
    else:
        other = Affine.of(single, mul=-1.0, add=1.0) if positive else Map(single, "neg")
        both = Concat((other, single))
    return label_codes(code, labels), RowTensor((1, 2), 0, both)


def _code(score: Node, threshold: float) -> Node:
    return Compare(score, "gt", Array(np.array([threshold], score.type.dtype)), "int32")


def _transform(op: OnnxOperator) -> str:
    return str(op.get("post_transform", "NONE"))


MOST_WEIGHTS = 1 << 28
"""Weights of all leaves together: a damaged file would ask for more memory than there is."""

Ints = npt.NDArray[np.int64]


def read_nodes(op: OnnxOperator, prefix: str, n_targets: int, dtype: str) -> TreeSplits:
    """Read trees of opset 1 and 3, which name each node by tree and number.

    1. Nodes are numbered over all trees, those that split and leaves apart.
    2. A tree's root is its first node that is no child.
    3. The weights of a leaf are added up, target by target.
    """
    tree, node = (_ints(op, f"nodes_{name}") for name in ("treeids", "nodeids"))
    modes = op.texts("nodes_modes")
    count = len(tree)
    _require_lengths(op, count, {"nodes_nodeids": node, "nodes_modes": modes})
    mode = _modes(op, modes)
    split = mode >= 0
    number = np.where(split, np.cumsum(split) - 1, ~(np.cumsum(~split) - 1))  # 1
    places = _Places(op, tree, node)
    children = {
        side: places.of(tree[split], _of_length(op, f"nodes_{side}nodeids", count)[split])
        for side in ("true", "false")
    }
    roots = _roots(op, tree, np.concatenate([*children.values()]))  # 2
    at = places.of(_ints(op, f"{prefix}_treeids"), _ints(op, f"{prefix}_nodeids"))
    weights, weighs = _weights(op, prefix, n_targets, count, at, dtype)  # 3
    threshold = op.numbers("nodes_values").astype(dtype)
    _require_lengths(op, count, {"nodes_values": threshold})
    if prefix == "target" and n_targets == 1 and np.any(~split & ~weighs[:, 0] & (threshold != 0)):
        raise op.damaged("has a leaf without a weight")  # onnxruntime adds its threshold
    tracks = (
        _ints(op, "nodes_missing_value_tracks_true")
        if (len(op.numbers("nodes_missing_value_tracks_true", "int64")))
        else np.zeros(count, np.int64)
    )
    _require_lengths(op, count, {"nodes_missing_value_tracks_true": tracks})
    return TreeSplits(
        _of_length(op, "nodes_featureids", count)[split],
        threshold[split],
        mode[split],
        tracks[split] != 0,
        number[children["true"]],
        number[children["false"]],
        number[roots],
        weights[~split],
        weighs[~split],
        (),
        np.full(int(split.sum()), -1),
    )


class _Places:
    """Find the position of nodes by their tree and number."""

    def __init__(self, op: OnnxOperator, tree: Ints, node: Ints) -> None:
        self.op = op
        self.at = {key: i for i, key in enumerate(zip(tree.tolist(), node.tolist(), strict=True))}
        if len(self.at) != len(tree):
            raise op.damaged("has two nodes of one number in one tree")

    def of(self, tree: Ints, node: Ints) -> Ints:
        if len(tree) != len(node):
            raise self.op.damaged("has lists of other lengths for trees and nodes")
        positions = [self.at.get(key, -1) for key in zip(tree.tolist(), node.tolist(), strict=True)]
        if -1 in positions:
            raise self.op.damaged("names a node that does not exist")
        return np.array(positions, np.int64)


def _roots(op: OnnxOperator, tree: Ints, children: Ints) -> Ints:
    above = np.zeros(len(tree), np.bool_)
    above[children] = True
    roots = np.flatnonzero(~above)
    if len(np.unique(tree[roots])) != len(roots) or len(roots) != len(np.unique(tree)):
        raise op.damaged("has a tree without a root, or with two")
    return roots


def _modes(op: OnnxOperator, modes: list[str]) -> Ints:
    number_of = {mode: i for i, mode in enumerate((*MODES[:-1], "LEAF"))}
    for mode in {*modes} - {*number_of}:
        raise op.refuse("nodes_modes", mode, f"hbconv handles {', '.join(number_of)}.")
    numbers = np.array([number_of[mode] for mode in modes], np.int64)
    return np.where(numbers == len(number_of) - 1, -1, numbers)


def _weights(
    op: OnnxOperator, prefix: str, n_targets: int, count: int, at: Ints, dtype: str
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    weight = op.numbers(f"{prefix}_weights").astype(dtype)
    target = _ints(op, f"{prefix}_ids")
    _require_lengths(op, len(at), {f"{prefix}_weights": weight, f"{prefix}_ids": target})
    if count * n_targets > MOST_WEIGHTS:
        raise op.damaged(f"has {n_targets} targets for each of {count} nodes")
    return spread(op, (count, n_targets), at, target, weight)


def spread(
    op: OnnxOperator, shape: tuple[int, int], at: Ints, target: Ints, weight: Numbers
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Write weights into a table of nodes and targets, and tell where there are any.

    Weights of one leaf and target add up. Of a single target onnxruntime reads the first alone.
    """
    if len(target) and (target.min() < 0 or target.max() >= shape[1]):
        raise op.damaged(f"adds to a target that does not exist (there are {shape[1]})")
    if not np.isfinite(weight).all():
        raise op.refuse("weights", "not finite", "Leaves must be finite numbers.")
    _, first = np.unique(at * shape[1] + target, return_index=True)
    if shape[1] == 1:
        at = at[first]
        target = target[first]
        weight = weight[first]
    elif len(first) < len(at) and op.get("aggregate_function", "SUM") in ("MIN", "MAX"):
        raise op.refuse("target_ids", "one twice", "Give each leaf one weight of a target.")
    weights = np.zeros(shape, weight.dtype)
    np.add.at(weights, (at, target), weight)
    weighs = np.zeros(shape, np.bool_)
    weighs[at, target] = True
    return weights, weighs


def read_tensors(op: OnnxOperator, n_targets: int) -> TreeSplits:
    """Read trees of opset 5: splits and leaves have lists of their own.

    A leaf that two branches share is written twice, so that the branches form trees.
    """
    threshold = op.tensor("nodes_splits")
    dtype = threshold.dtype
    if dtype.name not in ("float32", "float64"):
        raise op.refuse("nodes_splits", dtype.name, "Thresholds must be float32 or float64.")
    count = len(threshold)
    mode = op.numbers("nodes_modes", "int64").astype(np.int64)
    _require_lengths(op, count, {"nodes_modes": mode})
    if count and (mode.min() < 0 or mode.max() >= len(MODES)):
        raise op.refuse("nodes_modes", int(mode.max()), "hbconv handles 0 to 6.")
    target = _ints(op, "leaf_targetids")
    weight = op.tensor("leaf_weights").astype(dtype)
    _require_lengths(op, len(target), {"leaf_weights": weight})
    children = [_side(op, side, count, len(target)) for side in ("true", "false")]
    # Forests want each leaf reached once, and opset 5 lets branches share one.
    shared = np.concatenate([~child[child < 0] for child in children])
    true, false = _own_leaves(children)
    shape = (len(shared), n_targets)
    weights, weighs = spread(op, shape, np.arange(len(shared)), target[shared], weight[shared])
    tracks = op.numbers("nodes_missing_value_tracks_true", "int64")
    tracks = tracks if len(tracks) else np.zeros(count)
    _require_lengths(op, count, {"nodes_missing_value_tracks_true": tracks})
    members, member_of = _members(op, mode, dtype)
    roots = _ints(op, "tree_roots")
    if len(roots) and (roots.min() < 0 or roots.max() >= count):
        raise op.damaged("has a root that does not exist")
    feature = _of_length(op, "nodes_featureids", count)
    return TreeSplits(
        feature,
        threshold,
        mode,
        tracks != 0,
        true,
        false,
        roots,
        weights,
        weighs,
        members,
        member_of,
    )


def _side(op: OnnxOperator, side: str, count: int, leaves: int) -> Ints:
    """Return the child of each split on one side: a split, or ``~leaf``."""
    child = _of_length(op, f"nodes_{side}nodeids", count)
    leaf = _of_length(op, f"nodes_{side}leafs", count) != 0
    limit = np.where(leaf, leaves, count)
    if np.any((child < 0) | (child >= limit)):
        raise op.damaged("names a node that does not exist")
    return np.where(leaf, ~child, child)


def _own_leaves(children: list[Ints]) -> list[Ints]:
    """Count the leaves of both sides, in the order in which they are named."""
    counts = np.cumsum([0, *((child < 0).sum() for child in children)])
    return [
        np.where(child < 0, ~(np.cumsum(child < 0) - 1 + int(first)), child)
        for child, first in zip(children, counts, strict=False)
    ]


def _members(op: OnnxOperator, mode: Ints, dtype: Any) -> tuple[tuple[Numbers, ...], Ints]:
    """Return the sets of values, which NaN separates, and the set of each split."""
    member = mode == len(MODES) - 1
    values = op.tensor("membership_values").astype(dtype)
    ends = np.flatnonzero(np.isnan(values))
    parts = np.split(values, ends)
    sets = tuple(part[~np.isnan(part)] for part in parts)[: len(ends) or 1]
    if member.sum() > len(sets) or (member.any() and not len(values)):
        raise op.damaged(f"has {member.sum()} splits on sets, and {len(sets)} sets")
    return sets, np.where(member, np.cumsum(member) - 1, -1)


def _ints(op: OnnxOperator, name: str) -> Ints:
    return op.numbers(name, "int64").astype(np.int64)


def _of_length(op: OnnxOperator, name: str, count: int) -> Ints:
    ints = _ints(op, name)
    _require_lengths(op, count, {name: ints})
    return ints


def _require_lengths(op: OnnxOperator, count: int, lists: dict[str, Any]) -> None:
    for name, values in lists.items():
        if len(values) != count:
            raise op.damaged(f"has {len(values)} entries of {name}, where there are {count}")
