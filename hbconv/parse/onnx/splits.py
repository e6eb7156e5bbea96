"""The splits of tree operators, whatever version they are of, and the forest they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Cast, Concat, FindCode, Map, Multiply, Node, Recode, Select
from hbconv.parse.common.node_tables import FlatTrees, assemble
from hbconv.trees.forest import CategoryTables, Forest

__all__ = ["MODES", "TreeSplits", "code_sets", "grow", "truncate_members"]

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
         "BRANCH_MEMBER")  # fmt: skip
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(len(MODES))

LARGEST_MASKED = 30
"""Largest member of the sets that onnxruntime holds as masks of bits."""

Numbers = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TreeSplits:
    """Splits of all trees, and the weights of their leaves.

    Parameters
    ----------
    feature, threshold, mode, missing_true : array, shape (n_splits,)
        ``mode`` is a position in ``MODES``; NaN takes the true branch where ``missing_true`` holds.
    true, false, roots : array of int
        A split (``>= 0``) or a leaf (``~leaf``).
    weights : array, shape (n_leaves, n_targets)
    weighs : array of bool, shape (n_leaves, n_targets)
        Whether the file has a weight there.
    members : tuple of array
        Values of each set that some split asks for.
    member_of : array of int, shape (n_splits,)
        Set of each split, -1 where it has none.
    """

    feature: Ints
    threshold: Numbers
    mode: Ints
    missing_true: npt.NDArray[np.bool_]
    true: Ints
    false: Ints
    roots: Ints
    weights: Numbers
    weighs: npt.NDArray[np.bool_]
    members: tuple[Numbers, ...]
    member_of: Ints


def grow(splits: TreeSplits, x: Node) -> tuple[Node, Forest]:
    """Return the node that the trees read, and their forest, which sums from zero.

    1. A split on equality or membership reads a code of the known values of its feature.
    2. Comparisons from above are those from below with the branches swapped.
    3. ``x < t`` is ``x <= t'`` for the number below t, unless all are of that kind.
    """
    read, splits, tables = code_sets(splits, x)  # 1
    swapped = np.isin(splits.mode, (GTE, GT))  # 2
    left = np.where(swapped, splits.false, splits.true)
    right = np.where(swapped, splits.true, splits.false)
    default_left = splits.missing_true ^ swapped
    below = np.isin(splits.mode, (LT, GTE))
    compared = splits.mode < EQ
    # A forest has one comparison; thresholds of the others move by one float.
    strict = bool(compared.any() and below[compared].all())
    threshold = splits.threshold if strict else _inclusive(splits.threshold, below)  # 3
    target, values = _find_targets(splits)
    trees = FlatTrees(
        splits.feature,
        threshold,
        default_left,
        left,
        right,
        splits.roots,
        values,
        np.arange(len(values)),
        tables,
    )
    start = np.zeros(splits.weights.shape[1], values.dtype)
    width = read.type.width
    forest = assemble(trees, start, strict=strict, n_features=width, target=target)
    return read, forest


def _inclusive(threshold: Numbers, below: npt.NDArray[np.bool_]) -> Numbers:
    """Return thresholds of ``<=``; NaN, which nothing is below, where nothing is less."""
    down = np.nextafter(threshold, np.array(-np.inf, threshold.dtype))
    # Nothing is below minus infinity, and no number is at most NaN.
    least = np.where(threshold == -np.inf, np.array(np.nan, threshold.dtype), down)
    return np.where(below, least, threshold)


def _find_targets(splits: TreeSplits) -> tuple[Ints | None, Numbers]:
    """Return the target of each tree and plain leaf values, where each tree adds to one target."""
    targets = splits.weights.shape[1]
    if targets == 1:
        return np.zeros(len(splits.roots), np.int64), splits.weights
    tree = tree_of_leaves(splits)
    adds = np.zeros((len(splits.roots), targets), np.bool_)
    leaf, target = np.nonzero(splits.weighs)
    adds[tree[leaf], target] = True
    if np.any(adds.sum(axis=1) > 1):
        return None, splits.weights
    target_of = adds.argmax(axis=1)
    return target_of, splits.weights[np.arange(len(tree)), target_of[tree]][:, None]


def tree_of_leaves(splits: TreeSplits) -> Ints:
    """Return the tree of each leaf; 0 for a leaf that nothing reaches."""
    tree = np.zeros(len(splits.weights), np.int64)
    at = splits.roots
    owner = np.arange(len(at))
    # A damaged file may have a circle; no tree is deeper than it has splits.
    for _ in range(len(splits.feature) + 1):
        leaf = at < 0
        tree[~at[leaf]] = owner[leaf]
        at = at[~leaf]
        if not len(at) or len(at) > len(splits.feature):
            return tree
        owner = np.tile(owner[~leaf], 2)
        at = np.concatenate([splits.true[at], splits.false[at]])
    return tree


def code_sets(splits: TreeSplits, x: Node) -> tuple[Node, TreeSplits, CategoryTables | None]:
    """Give splits on equality and membership a column of codes, and a table each."""
    listed = np.flatnonzero(splits.mode >= EQ)
    if not len(listed):
        return x, splits, None
    features = np.unique(splits.feature[listed])
    values = [_list_values(splits, listed[splits.feature[listed] == f]) for f in features]
    place = np.searchsorted(features, splits.feature[listed])
    tables = [_table(splits, i, values[p]) for i, p in zip(listed.tolist(), place, strict=True)]
    of_test = np.full(len(splits.feature), -1, np.int32)
    of_test[listed] = np.arange(len(listed))
    start = np.concatenate([[0], np.cumsum([len(table) for table in tables])])
    category_tables = CategoryTables(
        Array(of_test), Array.of(start, np.int32), Array(np.concatenate(tables))
    )
    feature = splits.feature.copy()
    feature[listed] = x.type.width + place
    return _with_codes(x, features, values), replace(splits, feature=feature), category_tables


def truncate_members(splits: TreeSplits, x: Node) -> tuple[Node, TreeSplits]:
    """Give splits on sets that no mask of bits holds a column of whole numbers.

    onnxruntime compares members of 0 to 30 exactly, and cuts off the fraction for all other sets of
    whole numbers. It refuses members that are none; the standard compares those exactly.
    """
    # Found by damaged files: onnxruntime cuts fractions off where a member is beyond its mask.
    exact = [bool(np.all((s >= 0) & (s <= LARGEST_MASKED)) | np.any(s % 1)) for s in splits.members]
    cut = (splits.mode == MEMBER) & ~np.array([*exact, True])[splits.member_of]
    if not cut.any():
        return x, splits
    features = np.unique(splits.feature[cut])
    columns = Select(x, Array.of(features, np.int32))
    whole = Multiply((Map(columns, "sign"), Map(Map(columns, "abs"), "floor")))
    feature = splits.feature.copy()
    feature[cut] = x.type.width + np.searchsorted(features, splits.feature[cut])
    return Concat((x, whole)), replace(splits, feature=feature)


def _with_codes(x: Node, features: Ints, listed: Sequence[Numbers]) -> Node:
    """Put the codes beside x: 0 for a value that no split knows, then the known ones."""
    values = tuple(Array(v) for v in listed)
    codes = FindCode(Select(x, Array.of(features, np.int32)), values)
    whole = tuple(Array(np.arange(len(v) + 1, dtype=np.int32)) for v in listed)
    return Concat((x, Cast(Recode(codes, whole), x.type.dtype)))


def _list_values(splits: TreeSplits, listed: Ints) -> Numbers:
    """Return the values that splits of one feature compare with, and NaN."""
    asked = np.concatenate([_members_of(splits, i) for i in listed.tolist()])
    return np.append(np.unique(asked[~np.isnan(asked)]), np.array(np.nan, asked.dtype))


def _members_of(splits: TreeSplits, split: int) -> Numbers:
    if splits.mode[split] == MEMBER:
        members: Numbers = splits.members[int(splits.member_of[split])]
        return members
    threshold: Numbers = splits.threshold[split : split + 1]
    return threshold


def _table(splits: TreeSplits, split: int, values: Numbers) -> npt.NDArray[np.bool_]:
    """Decide each code: of a value unknown, of the known ones, and of NaN, which stands last."""
    goes: npt.NDArray[np.bool_] = np.zeros(len(values) + 1, np.bool_)
    other = bool(splits.mode[split] == NEQ)
    goes[1:] = np.isin(values, _members_of(splits, split))
    if other:
        np.logical_not(goes, out=goes)
    goes[-1] = bool(splits.missing_true[split]) or other
    return goes
