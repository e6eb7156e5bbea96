"""Leaf values as tables that are read by the numbers of leaves in their trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["lay_out_by_number", "lay_out_parts"]


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
