"""Symmetric trees by the bits of their leaves, as core operators of ONNX.

A symmetric tree asks one split on each level, so its answers are the bits of the leaf's place. All
rows stand side by side: a split is one comparison of vectors, and a level one sum of bytes. Splits
that trees share are decided once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.symmetric_forest import find_level_splits, find_levels

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor
    from hbconv.trees.forest import Forest

__all__ = ["LEAST_ROWS", "add_symmetric_trees", "adds_symmetric_trees"]

MAX_DEPTH = 8
"""Levels whose answers are a byte."""

LEAST_TREES = 16
"""Trees from which on sums of bytes beat TreeEnsemble."""

LEAST_ROWS = 4
"""Rows from which on they beat it: 1,000 trees of depth 6 take 368 us for one row and 876 for ten,
by TreeEnsemble 236 and 1,417."""

_Array = npt.NDArray[Any]


def adds_symmetric_trees(forest: Forest, dtype: str) -> bool:
    """Whether all trees are symmetric and not deep, and add to one sum of the dtype of the rows."""
    if forest.tables or forest.slopes or dtype != forest.accumulate:
        return False
    is_sum = forest.n_outputs == forest.values.shape[1] == 1
    if not is_sum or forest.n_trees < LEAST_TREES or not 0 < forest.depth <= MAX_DEPTH:
        return False
    # A split that no number passes has no comparison that is its opposite.
    if np.isnan(forest.less_equal_thresholds(dtype)).any() or (forest.roots.data < 0).any():
        return False
    return find_level_splits(forest) is not None


def add_symmetric_trees(w: GraphWriter, x: Tensor, forest: Forest) -> str:
    """Write the sum of each row.

    1. Decide each split once, for all rows: (splits, rows), 1 where a row goes right.
    2. Number the leaves: twice the place so far, and the answer of the next level.
    3. Look up the leaves, of which the first tree's hold the start value, and add tree by tree.
    """
    levels, splits = _levels(forest)
    answers = _answers(w, x, forest, splits)  # 1
    place = w.node("Gather", answers, w.constant(levels[0], "int64"), axis=0)  # 2
    for level in levels[1:]:
        answer = w.node("Gather", answers, w.constant(level, "int64"), axis=0)
        place = w.node("Add", w.node("Add", place, place), answer)
    tables = _tables(forest)  # 3
    first = np.arange(forest.n_trees, dtype=np.int32)[:, None] * tables.shape[1]
    index = w.node("Add", w.cast(place, "int32"), w.constant(first, "int32"))
    leaves = w.node("Gather", w.constant(tables.ravel()), index, axis=0)
    sums = w.node("CumSum", leaves, w.constant(0, "int64"))
    last = w.node("Gather", sums, w.constant([forest.n_trees - 1], "int64"), axis=0)
    return w.node("Transpose", last, perm=[1, 0])


def _levels(forest: Forest) -> tuple[_Array, _Array]:
    """Return for each level the distinct split of each tree, and a test of each distinct split.

    Trees that are less deep ask their first split again.
    """
    tests = find_levels(forest)
    assert tests is not None  # noqa: S101
    first = tests[tests >= 0]
    tests = np.where(tests < 0, tests[0], tests)
    kinds = np.rec.fromarrays(
        [forest.feature.data, forest.default_left.data, forest.threshold.data]
    )
    order = np.argsort(kinds[first], order=("f0", "f1", "f2"), kind="stable")
    ordered = kinds[first][order]
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    number = np.zeros(forest.n_tests, np.int64)
    number[first[order]] = np.cumsum(fresh) - 1
    return number[tests], first[order][fresh]


def _answers(w: GraphWriter, x: Tensor, forest: Forest, splits: _Array) -> str:
    """Write a byte for each split and row: features, and in each the splits NaN goes left at."""
    by_feature = w.node("Transpose", x.name, perm=[1, 0])
    thresholds = forest.less_equal_thresholds(x.dtype)
    keys = np.stack([forest.feature.data[splits], forest.default_left.data[splits]], axis=1)
    parts = []
    for feature, left in np.unique(keys, axis=0):
        chosen = splits[(keys == [feature, left]).all(axis=1)]
        column = w.node("Gather", by_feature, w.constant([feature], "int64"), axis=0)
        edges = w.constant(thresholds[chosen][:, None], x.dtype)
        right = w.node("Greater", column, edges)
        if not left:
            right = w.node("Not", w.node("LessOrEqual", column, edges))
        parts.append(w.cast(right, "uint8"))
    return parts[0] if len(parts) == 1 else w.node("Concat", *parts, axis=0)


def _tables(forest: Forest) -> _Array:
    """Lay out the leaves of each tree by the answers: (trees, 2 ** depth)."""
    sizes = np.diff(forest.first_leaf.data)
    places = np.arange(2**forest.depth) // (2**forest.depth // sizes[:, None])
    tables: _Array = forest.values.data[:, 0][forest.first_leaf.data[:-1, None] + places]
    tables[0] += forest.start.data
    return tables
