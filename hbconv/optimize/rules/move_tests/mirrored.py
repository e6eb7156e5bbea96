"""Swap the children of some tests, and number the leaves from left to right again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.trees.forest import Forest

__all__ = ["swap_children"]


def swap_children(forest: Forest, swapped: npt.NDArray[np.bool_]) -> Forest:
    """Return the forest with the children of some tests exchanged, leaves left to right.

    Every leaf keeps its value and its number in the source library. Linear leaves are not handled.

    1. Walk down level by level, with the first new place of each subtree.
    2. The left child begins where its parent does, the right one after all leaves of the left.
    """
    if not swapped.any():
        return forest
    left = np.where(swapped, forest.right.data, forest.left.data)
    right = np.where(swapped, forest.left.data, forest.right.data)
    counts = _leaves_below(forest)
    renumbered = np.arange(forest.n_leaves)
    inner = forest.roots.data >= 0
    level = forest.roots.data[inner].astype(np.int64)  # 1
    first = forest.first_leaf.data[:-1][inner].astype(np.int64)
    while len(level):
        n_left = np.where(left[level] >= 0, counts[np.maximum(left[level], 0)], 1)
        children = np.concatenate([left[level], right[level]]).astype(np.int64)  # 2
        starts = np.concatenate([first, first + n_left])
        is_leaf = children < 0
        renumbered[~children[is_leaf]] = starts[is_leaf]
        level = children[~is_leaf]
        first = starts[~is_leaf]
    return replace(
        forest,
        left=_with_leaves(left, renumbered),
        right=_with_leaves(right, renumbered),
        roots=_with_leaves(forest.roots.data, renumbered),
        values=_moved(forest.values, renumbered),
        leaf_id=_moved(forest.leaf_id, renumbered),
    )


def _leaves_below(forest: Forest) -> npt.NDArray[np.int64]:
    """Count the leaves below each test: those of a subtree are neighbours."""
    last = forest.right.data.astype(np.int64)
    while (inner := last >= 0).any():
        last[inner] = forest.right.data[last[inner]]
    return ~last - forest.leftmost(forest.left.data) + 1


def _with_leaves(children: npt.NDArray[np.int32], places: npt.NDArray[np.int64]) -> Array:
    return Array.of(np.where(children < 0, ~places[~children], children), np.int32)


def _moved(of_leaves: Array, places: npt.NDArray[np.int64]) -> Array:
    moved = np.empty_like(of_leaves.data)
    moved[places] = of_leaves.data
    return Array(moved)
