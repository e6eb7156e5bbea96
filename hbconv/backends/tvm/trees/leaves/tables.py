"""Leaf values as tables that are read by the numbers of leaves in their trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import number_rows
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = [
    "MIN_WIDTH",
    "lay_out_by_number",
    "lay_out_parts",
    "lay_out_values",
    "number_leaves",
    "sparse_cost",
]

# 12,644 leaves of single rows: 4.3 us a row with one number for the leaves of a training row, and
# 5.1 with one for each leaf; 7,625 pure leaves: 2.8 and 4.7 (100 trees, Zen 3).
TREES_OF_VALUES = 2
"""Trees that have as many leaves as there may be distinct values, for them to be numbered."""
# 50 trees of depth 8 took 175 ns a row instead of 154 with 2 outputs, 201 instead of 217 with 3,
# and 498 instead of 850 with 30 (Zen 4).
MIN_WIDTH = 3
"""Outputs of a leaf from which on batches add them to the sums of a row, which lie side by side."""
LEAF_COST = 8
"""Cost of a leaf whose zeros are left out, in terms of a value that all leaves have."""
# 300 classes, of which leaves have 12: 1,290 ns a row by all, and 2,900 by entries. 100 classes, of
# which they have one: 3,200 and 1,500.
ENTRY_COST = 32
"""Cost of each of its values, which is added alone, where all are added in vectors."""


def sparse_cost(forest: Forest) -> float | None:
    """Return what a leaf costs without its zeros; None where all values are better added.

    A zero changes no sum but one of -0.0, which begins as one.
    """
    values, start = forest.values.data, forest.start.data
    cost = LEAF_COST + ENTRY_COST * np.count_nonzero(values) / max(1, len(values))
    is_cheaper = cost < values.shape[1] and not np.any(np.signbit(start) & (start == 0))
    return float(cost) if is_cheaper else None


def lay_out_by_number(
    forest: Forest, trees: Trees, leaves: npt.NDArray[Any], none: float
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Lay out what belongs to each leaf by the leaf's number, tree after tree.

    Parameters
    ----------
    leaves : array (n_leaves, ...)
    none : float
        What a place without a tree has.

    Returns
    -------
    tuple
        The table; and int32 (n_places,), where the tree at each place of the order begins.
    """
    first = forest.first_leaf.data[:-1]
    # A kernel may skip numbers, so the largest one sizes the table of a tree.
    sizes = np.maximum.reduceat(trees.numbers, first) + 1 if len(first) else np.zeros(0, np.int64)
    start = np.append(0, np.cumsum(sizes))
    # One entry more, for places of the order without a tree.
    table = np.full((start[-1] + 1, *leaves.shape[1:]), none, leaves.dtype)
    table[np.repeat(start[:-1], np.diff(forest.first_leaf.data)) + trees.numbers] = leaves
    return table, start[trees.order].astype(np.int32)


def lay_out_parts(
    forest: Forest, trees: Trees, width: int, dtype: type[np.generic]
) -> npt.NDArray[Any]:
    """Lay out the values cut into parts: (n_places, n_parts, width), by leaf number.

    A place without a leaf has -0.0. The parts are bytes or words of the values, the lowest first.
    """
    # A place without a tree adds -0.0, which changes no sum.
    table = np.full((forest.n_trees + 1, width), -0.0, forest.accumulate)
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.first_leaf.data))
    table[tree, trees.numbers] = forest.values.data[:, 0]
    n_parts = table.itemsize // np.dtype(dtype).itemsize
    parts = table[trees.order].view(dtype).reshape(len(trees.order), width, n_parts)
    return np.ascontiguousarray(parts.transpose(0, 2, 1))


def number_leaves(forest: Forest) -> npt.NDArray[np.int64]:
    """Give leaves of equal values one number where few values are distinct, else each its own."""
    numbers = number_rows(forest.values.data)
    distinct = int(numbers.max(initial=0)) + 1
    few = distinct * forest.n_trees <= TREES_OF_VALUES * forest.n_leaves
    return numbers if few else np.arange(forest.n_leaves)


def lay_out_values(forest: Forest, trees: Trees) -> npt.NDArray[Any]:
    """Lay out the values by the numbers of the leaves."""
    values = forest.values.data
    table = np.zeros((int(trees.numbers.max(initial=-1)) + 1, values.shape[1]), values.dtype)
    # Leaves of one number have the same values, so the order of writing does not matter.
    table[trees.numbers] = values
    return table
