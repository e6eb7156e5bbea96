"""Read the attributes of tree operators into splits, one version each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.parse.onnx.operator import OnnxOperator
from hbconv.parse.onnx.splits import MODES, TreeSplits

__all__ = ["read_nodes", "read_tensors"]

MOST_WEIGHTS = 1 << 28
"""Weights of all leaves together: a damaged file would ask for more memory than there is."""

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]


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
        found = [self.at.get(key, -1) for key in zip(tree.tolist(), node.tolist(), strict=True)]
        if -1 in found:
            raise self.op.damaged("names a node that does not exist")
        return np.array(found, np.int64)


def _roots(op: OnnxOperator, tree: Ints, children: Ints) -> Ints:
    above = np.zeros(len(tree), np.bool_)
    above[children] = True
    roots = np.flatnonzero(~above)
    if len(np.unique(tree[roots])) != len(roots) or len(roots) != len(np.unique(tree)):
        raise op.damaged("has a tree without a root, or with two")
    return roots


def _modes(op: OnnxOperator, modes: list[str]) -> Ints:
    known = {mode: i for i, mode in enumerate((*MODES[:-1], "LEAF"))}
    for mode in {*modes} - {*known}:
        raise op.refuse("nodes_modes", mode, f"hbconv handles {', '.join(known)}.")
    found = np.array([known[mode] for mode in modes], np.int64)
    return np.where(found == len(known) - 1, -1, found)


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
    found = _ints(op, name)
    _require_lengths(op, count, {name: found})
    return found


def _require_lengths(op: OnnxOperator, count: int, lists: dict[str, Any]) -> None:
    for name, values in lists.items():
        if len(values) != count:
            raise op.damaged(f"has {len(values)} entries of {name}, where there are {count}")
