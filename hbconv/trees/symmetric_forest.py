"""Symmetric trees, and their contributions: functions of the leaf that a row reaches."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.trees.covered_forest import CoveredForest
from hbconv.trees.forest import Forest, keep_trees

__all__ = ["find_level_splits", "find_levels", "sum_as_leaves"]

MAX_DECISIONS = 1 << 22
"""Tests times leaves of the trees whose contributions are computed at once."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def find_level_splits(forest: Forest) -> Ints | None:
    """Return one split of each level of each tree, tree after tree.

    None where a tree is not symmetric: where a level lacks a split, or has two different ones.
    """
    leaves = np.diff(forest.first_leaf.data)
    # Most other forests are told by this, without sorting their tests.
    if not forest.n_tests or (leaves & (leaves - 1)).any():
        return None
    level = forest.tree_of_tests.astype(np.int64) * forest.depth + forest.depth_of_tests
    levels, first, level_of_test, counts = np.unique(
        level, return_index=True, return_inverse=True, return_counts=True
    )
    arrays = [forest.feature, forest.threshold, forest.default_left]
    if forest.tables:
        arrays.append(forest.tables.of_test)
    alike = all((of_split.data == of_split.data[first][level_of_test]).all() for of_split in arrays)
    # A level that lacks a split has a leaf above it, and the tree is not symmetric.
    full = (counts == 2 ** (levels % forest.depth)).all()
    return first if alike and full else None


def find_levels(forest: Forest) -> Ints | None:
    """Return a split of each level of each tree: (depth, n_trees), -1 below the last level.

    None where a tree is not symmetric.
    """
    first = find_level_splits(forest)
    if first is None:
        return None
    levels = np.full((forest.depth, forest.n_trees), -1)
    levels[forest.depth_of_tests[first], forest.tree_of_tests[first]] = first
    return levels


@lru_cache(maxsize=2)
def sum_as_leaves(covered: CoveredForest) -> Forest | None:
    """Return a forest whose sums are the contributions; None unless all trees are symmetric.

    A leaf of a symmetric tree determines the outcome of all its tests. So each tree becomes a tree
    for each feature that it tests, and for each value of a leaf. They differ by their leaves.
    """
    forest = covered.forest
    if find_level_splits(forest) is None:
        return None
    size = 2**forest.depth
    # A tree of so many leaves has about as many tests, each of which is decided for every leaf.
    trees = max(1, MAX_DECISIONS // (size * size))
    parts = [
        _part(covered, np.arange(first, min(first + trees, forest.n_trees)), size)
        for first in range(0, forest.n_trees, trees)
    ]
    tree, column, leaves = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return _repeat_trees(forest, tree, column, leaves, covered.start)


def _part(covered: CoveredForest, trees: Ints, size: int) -> tuple[Ints, Ints, Floats]:
    """Compute the contributions of some trees.

    Returns the tree and the column of each new tree, and the values of its leaves, padded.
    """
    forest = keep_trees(covered.forest, trees)
    tests = np.isin(covered.forest.tree_of_tests, trees)
    part = replace(
        covered,
        forest=forest,
        left_share=Array(covered.left_share.data[tests]),
        right_share=Array(covered.right_share.data[tests]),
        feature=Array(covered.feature.data[tests]),
    )
    depth = np.log2(np.diff(forest.first_leaf.data)).astype(np.int64)
    below = depth[forest.tree_of_tests] - 1 - forest.depth_of_tests
    # The bits of a leaf's number spell its path: 0 where the row went left.
    sums = part.of_decisions(np.arange(size)[:, None] >> below & 1 == 0)
    width = sums.shape[0]
    key = forest.tree_of_tests[:, None] * (part.start.size) + part.columns
    keys, place = np.unique(key.T, return_inverse=True)
    leaves = np.zeros((len(keys), size))
    np.add.at(leaves, place.ravel(), sums.reshape(width * forest.n_tests, size))
    return trees[keys // part.start.size], keys % part.start.size, leaves


def _repeat_trees(
    forest: Forest, tree: Ints, column: Ints, leaves: Floats, start: Floats
) -> Forest:
    """Write the given trees, some of them several times, with leaves and columns of their own."""
    first_leaf = forest.first_leaf.data.astype(np.int64)
    sizes = np.diff(first_leaf)
    order = np.argsort(forest.tree_of_tests, kind="stable")
    rank = np.empty(forest.n_tests, np.int64)
    first_test = np.cumsum(sizes - 1) - (sizes - 1)
    rank[order] = np.arange(forest.n_tests) - np.repeat(first_test, sizes - 1)
    new_test = np.cumsum(sizes[tree] - 1) - (sizes[tree] - 1)
    new_leaf = np.append(0, np.cumsum(sizes[tree]))
    copy = np.repeat(np.arange(len(tree)), sizes[tree] - 1)
    test = order[first_test[tree][copy] + np.arange(len(copy)) - new_test[copy]]

    def move(children: npt.NDArray[np.int32]) -> Array:
        places = children[test]
        inner = places >= 0
        # Leaves are negative places: times 0 they read entry 0, which np.where drops.
        tests = new_test[copy] + rank[places * inner]
        ends = new_leaf[copy] + ~places - first_leaf[tree[copy]]
        return Array.of(np.where(inner, tests, ~ends), np.int32)

    roots = np.where(sizes[tree] > 1, new_test, ~new_leaf[:-1])
    held = np.arange(leaves.shape[1]) < sizes[tree][:, None]
    tables = forest.tables and replace(
        forest.tables, of_test=Array(forest.tables.of_test.data[test])
    )
    return replace(
        forest,
        feature=Array(forest.feature.data[test]),
        threshold=Array(forest.threshold.data[test]),
        default_left=Array(forest.default_left.data[test]),
        left=move(forest.left.data),
        right=move(forest.right.data),
        roots=Array.of(roots, np.int32),
        first_leaf=Array.of(new_leaf, np.int32),
        values=Array(leaves[held][:, None]),
        target=Array.of(column, np.int32),
        start=Array(start),
        leaf_id=Array(np.arange(new_leaf[-1], dtype=np.int32)),
        tables=tables,
    )
