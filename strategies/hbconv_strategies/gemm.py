"""GEMM: decide every split, then find the leaf whose path was taken by a matrix product.

The path matrix of a tree has a row for each split and a column for each leaf: +1 where the leaf
lies to the left, -1 to the right, 0 where the split is not above it. ``decisions @ paths`` minus
the number of lefts on the path is 0 for the leaf reached, and negative for all others. So its
argmax is the leaf.

Work grows with trees x splits x leaves: for shallow trees, and where matrix products are cheap.
Source: Nakandala et al., "A Tensor Compiler for Unified Machine Learning Prediction Serving", 2020.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.cost_model import Work
from hbconv.target import Target
from hbconv.tensor import Builder, Value
from hbconv.trees.forest import Forest
from hbconv.trees.splits import prepare_splits
from hbconv.trees.strategy import Refusal
from hbconv_strategies._splits import VALUE_BYTES, fixed_leaves, refuse_memory, splits_work

__all__ = ["check", "lower", "work"]

MAX_COUNT_FLOAT32 = 2**24
"""Counts below this are exact in float32."""


def check(forest: Forest, target: Target) -> Refusal | None:
    """Refuse large trees: their path matrices, or the products of a chunk, do not fit."""
    if forest.depth >= MAX_COUNT_FLOAT32:
        return Refusal(f"paths of {forest.depth} tests cannot be counted in float32")
    return refuse_memory(
        forest, work(forest), target, "its path matrices", "the decisions and matches"
    )


def work(forest: Forest) -> Work:
    """Count for trees padded to the splits and leaves of the largest."""
    trees, tests, leaves = _padded(forest)
    prepared = splits_work(forest)
    if not tests:
        return Work(operators=1, elementwise=trees, temporaries=4 * trees)
    return Work(
        operators=prepared.operators + 7,
        elementwise=prepared.elementwise + trees * (2 * tests + 2 * leaves + 1),
        takes=trees * tests,
        multiplications=trees * tests * leaves,
        visits=trees * tests * leaves,
        tables=prepared.tables
        + 4 * trees * (tests * leaves + tests + leaves)
        + trees * tests * VALUE_BYTES,
        temporaries=prepared.temporaries
        + trees * max(tests * (VALUE_BYTES + 1), 5 * tests, 4 * (tests + leaves), 8 * leaves),
    )


def lower(forest: Forest, x: Value, b: Builder) -> Value:
    """Write the decisions, the product, and the argmax."""
    trees, tests, leaves = _padded(forest)
    if not tests:
        return fixed_leaves(forest, x, b)
    prepared = prepare_splits(forest, x, b)
    slots = _slots(forest, tests)
    filled = slots >= 0
    column = np.where(filled, prepared.column[slots], 0)
    threshold = np.where(filled, prepared.threshold[slots], 0)
    paths, lefts = _paths(forest, slots, leaves)

    left = b.take(prepared.x, column.ravel()) <= b.constant(threshold.ravel())
    decisions = b.reshape(b.cast(left, "float32"), trees, tests)
    matches = b.matmul(decisions, b.constant(paths)) - b.constant(lefts)
    return b.reduce("argmax", matches, axis=1) + b.constant(forest.first_leaf.data[:-1])


def _padded(forest: Forest) -> tuple[int, int, int]:
    """Return the number of trees, and the numbers of splits and leaves of the largest tree."""
    leaves = int(np.diff(forest.first_leaf.data).max(initial=0))
    return forest.n_trees, max(leaves - 1, 0), leaves


def _slots(forest: Forest, tests: int) -> npt.NDArray[np.intp]:
    """Return the split in each slot of each tree, -1 in spare slots: (n_trees, splits)."""
    order = np.argsort(forest.tree_of_tests, kind="stable")
    tree = forest.tree_of_tests[order]
    first = np.searchsorted(tree, np.arange(forest.n_trees))
    slots = np.full((forest.n_trees, tests), -1, np.intp)
    slots[tree, np.arange(len(order)) - first[tree]] = order
    return slots


def _paths(
    forest: Forest, slots: npt.NDArray[np.intp], leaves: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the path matrices, and the number of lefts on the path to each leaf.

    Returns
    -------
    paths : float32 array, shape (n_trees, splits, leaves)
    lefts : float32 array, shape (n_trees, leaves)
        More than there can be for a spare leaf, so that no row reaches it.
    """
    first, middle, last = (
        np.where(slots >= 0, bound[slots] - forest.first_leaf.data[:-1, None], 0)[..., None]
        for bound in _spans(forest)
    )
    leaf = np.arange(leaves)
    to_left = (first <= leaf) & (leaf < middle)
    to_right = (middle <= leaf) & (leaf < last)
    spare = leaf >= np.diff(forest.first_leaf.data)[:, None]
    paths = to_left.astype(np.float32) - to_right
    return paths, np.where(spare, np.float32(leaves), to_left.sum(axis=1, dtype=np.float32))


def _spans(forest: Forest) -> tuple[npt.NDArray[np.int32], ...]:
    """Return, for each split, the first leaf below, the first to the right, and one past the last.

    The leaves of a tree are numbered from left to right.
    """
    first, middle, last = (np.zeros(forest.n_tests, np.int32) for _ in range(3))
    for depth in reversed(range(forest.depth)):
        level = np.flatnonzero(forest.depth_of_tests == depth)
        left, right = forest.left.data[level], forest.right.data[level]
        first[level] = np.where(left >= 0, first[np.maximum(left, 0)], ~left)
        middle[level] = np.where(right >= 0, first[np.maximum(right, 0)], ~right)
        last[level] = np.where(right >= 0, last[np.maximum(right, 0)], ~right + 1)
    return first, middle, last
