"""A forest as packed nodes of two words.

A node is an integer to compare with, and a step to the children.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.float_keys.tables import KEY_DTYPES, keys_of
from hbconv.trees.category_sets import find_sets
from hbconv.trees.forest import Forest

__all__ = ["PackedNodes", "pack_nodes"]

NODES_PER_LINE = 8
"""Nodes of which each tree has a multiple, so that the top of a tree lies in one cache line."""
MAX_WORD_BITS = 32

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedNodes:
    """A forest over keys: unsigned integers in the order of the values they stand for.

    A row has a key for each column. First come features, in one of the two directions that NaN can
    take. Then comes a column for each category set, 0 where the row goes left and 1 where not. The
    last column is 0.

    A node is the words ``(key, step << shift | column)``. Children lie side by side, so a row goes
    on by ``at += step + (keys[column] > key)``. A leaf is ``(its number, last column)``: no key
    there is greater, and the step is 0, so that it stays.

    Parameters
    ----------
    nodes : int32 or int64 (n, 2)
        The two words, to be read as unsigned.
    roots : int64 (n_trees + 1,)
        Position of each tree's root. The last is a leaf of no tree, whose number is ``n_leaves``.
    depths : int64 (n_trees + 1,)
        Steps within which each tree's leaf is reached.
    shift : int
    feature, nan_left : int32 (n_columns,)
        Of each column before the sets.
    split_position : int64 (n_splits,)
    leaf_position : int64 (n_leaves + 1,)
        The last is that of the leaf of no tree.
    """

    nodes: npt.NDArray[Any]
    roots: Ints
    depths: Ints
    shift: int
    feature: npt.NDArray[np.int32]
    nan_left: npt.NDArray[np.int32]
    split_position: Ints
    leaf_position: Ints

    @property
    def word(self) -> str:
        """Dtype of a word."""
        return self.nodes.dtype.name

    def positions(self, children: Ints) -> Ints:
        """Return the positions of splits and leaves, which are encoded as children are."""
        return _positions(children, self.split_position, self.leaf_position)


def pack_nodes(forest: Forest, dtype: str, stride: int = 1) -> PackedNodes:
    """Lay the trees out for values of the given dtype.

    1. Each tree is laid out breadth-first from its second position on, so that pairs of children
       share a cache line.
    2. A column is named by the position of its first key, where keys of ``stride`` rows stand side
       by side.
    3. Words are of 64 bits where the steps and columns do not fit in 32.
    """
    layout = _lay_out(forest)  # 1
    pairs, columns, n_columns = _find_columns(forest)  # 2
    columns = columns * stride
    last = n_columns * stride
    children = _positions(forest.left.data, layout.split_position, layout.leaf_position)
    step = children - layout.split_position
    shift = last.bit_length()
    wide = int(step.max(initial=0)).bit_length() + shift > MAX_WORD_BITS  # 3
    keys = np.where(forest.on_category, 0, keys_of(forest.less_equal_thresholds(dtype)))
    fields = (step << shift | columns).astype(np.uint64)
    leaves = np.stack([np.arange(forest.n_leaves), np.full(forest.n_leaves, last)], axis=1)
    nodes = np.zeros((layout.size + NODES_PER_LINE, 2), np.uint64)
    nodes[layout.split_position] = np.stack([keys, fields], axis=1)
    nodes[layout.leaf_position] = leaves
    nodes[layout.size] = forest.n_leaves, last
    word = "int64" if wide else KEY_DTYPES[dtype]
    return PackedNodes(
        nodes=nodes.astype(f"u{word}").view(word),
        roots=np.append(layout.roots, layout.size),
        depths=np.append(layout.depths, 0),
        shift=shift,
        feature=(pairs // 2).astype(np.int32),
        nan_left=(pairs % 2).astype(np.int32),
        split_position=layout.split_position,
        leaf_position=np.append(layout.leaf_position, layout.size),
    )


def _positions(children: Ints, split_position: Ints, leaf_position: Ints) -> Ints:
    # The appended 0 is never taken: it stands in for splits where a forest has none.
    splits = np.append(split_position, 0)[np.maximum(children, -1)]
    leaves = leaf_position[~np.minimum(children, -1)]
    return np.where(children >= 0, splits, leaves)


def _find_columns(forest: Forest) -> tuple[Ints, Ints, int]:
    """Return the columns of thresholds, as ``2 * feature + nan_left``; each split's; and all."""
    plain = ~forest.on_category
    direction = forest.feature.data[plain] * 2 + forest.default_left.data[plain]
    pairs, column = np.unique(direction, return_inverse=True)
    sets = find_sets(forest)
    columns = np.zeros(forest.n_tests, np.int64)
    columns[plain] = column
    columns[forest.on_category] = len(pairs) + sets.of_test[forest.on_category]
    return pairs, columns, len(pairs) + sets.count


@dataclass(frozen=True, eq=False)
class _Layout:
    """Positions in a table of so many nodes: of splits, of leaves and of each tree's root."""

    split_position: Ints
    leaf_position: Ints
    roots: Ints
    depths: Ints
    size: int


def _lay_out(forest: Forest) -> _Layout:
    """Give each split and leaf a position, level by level of all trees at once.

    1. Positions are counted in each tree: its root has 1, pairs of children follow from 2 on.
    2. A tree's share of the table is a multiple of a cache line.
    """
    n_trees = forest.n_trees
    split_position = np.zeros(forest.n_tests, np.int64)
    leaf_position = np.zeros(forest.n_leaves, np.int64)
    depths = np.zeros(n_trees, np.int64)
    used = np.full(n_trees, 2, np.int64)
    trees = np.arange(n_trees)
    level = forest.roots.data.astype(np.int64)
    at = np.ones(n_trees, np.int64)
    while len(level):  # 1
        inner = level >= 0
        split_position[level[inner]] = at[inner]
        leaf_position[~level[~inner]] = at[~inner]
        level = level[inner]
        trees = trees[inner]
        depths[trees] += 1
        rank = np.arange(len(trees)) - np.searchsorted(trees, trees)
        first = used[trees] + 2 * rank
        used += 2 * np.bincount(trees, minlength=n_trees)
        children = np.stack([forest.left.data[level], forest.right.data[level]], axis=1)
        level = children.reshape(-1).astype(np.int64)
        trees = np.repeat(trees, 2)
        at = np.stack([first, first + 1], axis=1).reshape(-1)
    sizes = -(-used // NODES_PER_LINE) * NODES_PER_LINE  # 2
    begin = np.cumsum(sizes) - sizes
    owner = np.repeat(np.arange(n_trees), np.diff(forest.first_leaf.data))
    return _Layout(
        split_position + begin[forest.tree_of_tests],
        leaf_position + begin[owner],
        begin + 1,
        depths,
        int(sizes.sum()),
    )
