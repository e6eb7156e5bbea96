"""Leaf values as tables that are read by the numbers of leaves in their trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.forest import Forest

__all__ = ["lay_out_by_number", "lay_out_padded"]


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
    sizes = np.maximum.reduceat(trees.numbers, first) + 1 if len(first) else np.zeros(0, np.int64)
    start = np.append(0, np.cumsum(sizes))
    table = np.full((start[-1] + 1, *leaves.shape[1:]), none, leaves.dtype)
    table[np.repeat(start[:-1], np.diff(forest.first_leaf.data)) + trees.numbers] = leaves
    return table, start[trees.order].astype(np.int32)


def lay_out_padded(forest: Forest, trees: Trees, width: int) -> npt.NDArray[Any]:
    """Lay out the values as (n_places, width), by leaf number; -0.0 where there is no leaf."""
    table = np.full((forest.n_trees + 1, width), -0.0, forest.accumulate)
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.first_leaf.data))
    table[tree, trees.numbers] = forest.values.data[:, 0]
    return table[trees.order]
