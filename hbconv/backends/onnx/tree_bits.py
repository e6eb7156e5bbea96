"""Sums of trees by the bits of their splits, in core operators.

A leaf of a symmetric tree is numbered by one answer of each level, and a leaf of few by the answers
to all splits of its tree. So no row walks: each answer is computed once for all rows, a number is
put together of bytes, and the leaf is read from a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.symmetric_forest import find_levels

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor
    from hbconv.trees.forest import Forest

__all__ = [
    "LEAST_ROWS",
    "LEAST_ROWS_OF_ALL",
    "SYMMETRIC_VISITS",
    "TreeBits",
    "add_leaves_of_bits",
    "find_tree_bits",
]

_Array = npt.NDArray[Any]

MAX_BITS = 8
"""Answers of a tree that a byte holds."""

MAX_TABLE_BITS = 7
"""Answers of a tree that is not symmetric: its table has a leaf for all combinations."""

LEAST_TREES = 16
"""Trees from which on sums of bytes beat TreeEnsemble."""

LEAST_ROWS = 4
"""Rows from which on they beat it: 1,000 trees of depth 6 take 368 us for one row and 876 for ten,
by TreeEnsemble 236 and 1,417."""

LEAST_ROWS_OF_ALL = 128
"""Rows from which on answers to all splits beat it, where there are several sums.

Three classes of 100 trees of 8 leaves take 53 us a row for 16 rows, 8.1 for 128 and 5.5 for 1,000,
by TreeEnsemble 27, 8.2 and 7.4. With one sum TreeEnsemble takes half, and nothing was gained: 500
trees of 8 leaves took 1.1 to 1.6 times as long for 100 rows, and 0.8 to 1.3 times for 10,000.
"""

SYMMETRIC_VISITS = 0.35
ALL_VISITS = 0.75
"""Visits of TreeEnsemble that a visit costs, by answers of levels and by those to all splits.

Measured on CatBoost, 1,000 trees of depth 6: 15 to 17 us a row for 256 to 3,000 rows, by
TreeEnsemble 45 to 53 us.
"""


@dataclass(frozen=True, eq=False)
class TreeBits:
    """Trees whose leaves are numbered by answers.

    Parameters
    ----------
    tests : ndarray, shape (n_bits, n_trees)
        Splits of each tree, whose answers are the bits of a place, the highest first: 1 goes right.
    leaves : ndarray, shape (n_trees, 2 ** n_bits)
        The leaf at each place.
    least_rows : int
        Fewer rows are answered sooner by TreeEnsemble, whose leaves are numbers.
    cost : float
        Time, as a share of that of TreeEnsemble.
    """

    tests: _Array
    leaves: _Array
    least_rows: int
    cost: float


def find_tree_bits(forest: Forest, dtype: str) -> TreeBits | None:
    """Return the bits of trees that are added faster by these than by TreeEnsemble, or None."""
    if forest.tables or forest.slopes or dtype != forest.accumulate:
        return None
    if forest.n_trees < LEAST_TREES or not forest.n_tests:
        return None
    # A split that no number passes has no comparison that is its opposite.
    if np.isnan(forest.less_equal_thresholds(dtype)).any():
        return None
    levels = find_levels(forest) if forest.depth <= MAX_BITS else None
    if levels is not None and (forest.roots.data >= 0).all():
        leaves = _leaves(forest, forest.depth_of_tests, len(levels))
        return TreeBits(levels, leaves, LEAST_ROWS, SYMMETRIC_VISITS)
    # Vectors of all combinations take 2 to 3 times as long for few rows, and ten times the bytes.
    if forest.n_outputs == 1 or forest.values.shape[1] > 1:
        return None
    return _find_all(forest)


def _find_all(forest: Forest) -> TreeBits | None:
    """Return a bit for each split of each tree; None if a tree has many."""
    counts = np.diff(forest.first_leaf.data) - 1
    most = int(counts.max())
    if most > MAX_TABLE_BITS:
        return None
    order = np.argsort(forest.tree_of_tests, kind="stable")
    trees = forest.tree_of_tests[order]
    bit = np.arange(forest.n_tests) - (np.cumsum(counts) - counts)[trees]
    tests = np.full((most, forest.n_trees), -1)
    tests[bit, trees] = order
    bit_of_test = np.empty(forest.n_tests, np.int64)
    bit_of_test[order] = bit
    return TreeBits(tests, _leaves(forest, bit_of_test, most), LEAST_ROWS_OF_ALL, ALL_VISITS)


def _leaves(forest: Forest, bit_of_test: _Array, bits: int) -> _Array:
    """Walk down each tree by all combinations of answers at once."""
    shift = bits - 1 - bit_of_test.astype(np.int64)
    place = np.arange(2**bits)
    node = np.repeat(forest.roots.data.astype(np.int64)[:, None], 2**bits, axis=1)
    for _ in range(forest.depth):
        inner = np.maximum(node, 0)
        below = np.where(
            place >> shift[inner] & 1, forest.right.data[inner], forest.left.data[inner]
        )
        node = np.where(node < 0, node, below)
    return ~node


def add_leaves_of_bits(w: GraphWriter, x: Tensor, forest: Forest, bits: TreeBits) -> str:
    """Write the sums of each row.

    1. Lay the trees of each sum side by side: (sums, trees), or (trees,) of vectors.
    2. Decide each split once, for all rows: (splits, rows), 1 where a row goes right.
    3. Number the leaves: twice the place so far, and the next answer.
    4. Look up the leaves.
    5. Add tree by tree.
    """
    order = _order(forest)  # 1
    number, splits = _distinct_splits(forest, bits.tests)
    answers = _answers(w, x, forest, splits)  # 2
    of_bit = [w.constant(each[order].ravel(), "int64") for each in number]
    place = w.node("Gather", answers, of_bit[0], axis=0)  # 3
    for numbers in of_bit[1:]:
        place = w.node("Add", w.node("Add", place, place), w.node("Gather", answers, numbers))
    tables = _tables(forest, bits, order)  # 4
    size = bits.leaves.shape[1]
    first = np.arange(order.size, dtype=np.int32)[:, None] * size
    index = w.node("Add", w.cast(place, "int32"), w.constant(first, "int32"))
    if order.ndim == 2:
        shape = w.node("Concat", w.constant(order.shape, "int64"), w.rows(x.name), axis=0)
        index = w.node("Reshape", index, shape)
    leaves = w.node("Gather", w.constant(tables), index, axis=0)
    axis = order.ndim - 1  # 5
    sums = w.node("CumSum", leaves, w.constant(axis, "int64"))
    last = w.node("Gather", sums, w.constant(order.shape[-1] - 1, "int64"), axis=axis)
    return w.node("Transpose", last, perm=[1, 0]) if order.ndim == 2 else last


def _order(forest: Forest) -> _Array:
    """Return the trees of each sum, in their order: (sums, most trees), -1 behind the last.

    Trees whose leaves are vectors add to all sums: (trees,).
    """
    if forest.values.shape[1] > 1:
        return np.arange(forest.n_trees)
    trees = [np.flatnonzero(forest.target.data == k) for k in range(forest.n_outputs)]
    order = np.full((len(trees), max(map(len, trees))), -1)
    for row, some in zip(order, trees, strict=True):
        row[: len(some)] = some
    return order


def _distinct_splits(forest: Forest, tests: _Array) -> tuple[_Array, _Array]:
    """Return for each bit the distinct split of each tree, and a test of each distinct split.

    Trees that have fewer bits ask any split again: their leaves are alike for both answers.
    """
    first = tests[tests >= 0]
    tests = np.where(tests < 0, first[0], tests)
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


def _tables(forest: Forest, bits: TreeBits, order: _Array) -> _Array:
    """Lay out the leaves by place, a row each where they are vectors.

    The first tree of each sum holds its start value. What fills a sum up adds -0.0, which changes
    no bit.
    """
    values = forest.values.data[bits.leaves]
    if order.ndim == 1:
        values[0] = forest.start.data + values[0]
        return values.reshape(-1, values.shape[2])
    tables = np.where((order < 0)[:, :, None], values.dtype.type(-0.0), values[order, :, 0])
    tables[:, 0] = forest.start.data[:, None] + tables[:, 0]
    return tables.ravel()
