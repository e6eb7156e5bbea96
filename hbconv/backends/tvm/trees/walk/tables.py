"""Packed nodes: a forest as two words a node, a whole number compared and a step to the children, for walks without a branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.categories.tables import find_sets
from hbconv.forest import Forest

__all__ = ["WORDS", "PackedNodes", "keys_of", "pack_nodes"]

LINE = 8
"""Nodes that a tree's share of the table is a multiple of, so that the top of a tree lies in one line of the cache."""
WORDS = {"float32": "int32", "float64": "int64"}
"""Dtype of a key by that of its value."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedNodes:
    """A forest over keys: unsigned numbers in the order of the values they stand for.

    A row has a key for each column: a feature in one of the two directions that NaN can take, then one for each set of
    categories (0 where it goes left, 1 where not), then 0. A node is the words ``(key, step << shift | column)``, and
    ``at += step + (keys[column] > key)`` goes on to a child, since children lie side by side. A leaf is
    ``(its number, last column)``: no key there is greater, and the step is 0, so that it stays.

    Parameters
    ----------
    nodes : int32 or int64 (n, 2)
        The two words, to be read as unsigned.
    roots : int64 (n_trees + 1,)
        The last is a leaf that is no tree's.
    depths : int64 (n_trees + 1,)
        Steps within which each tree's leaf is reached.
    shift : int
    feature : int32 (c,)
        Of each column before the sets.
    nan_left : int32 (c,)
    place, leaf_place : int64 (n_tests,), (n_leaves + 1,)
        Of each test and each leaf; the last is that of no tree's leaf.
    """

    nodes: npt.NDArray[Any]
    roots: Ints
    depths: Ints
    shift: int
    feature: npt.NDArray[np.int32]
    nan_left: npt.NDArray[np.int32]
    place: Ints
    leaf_place: Ints

    def places(self, codes: Ints) -> Ints:
        """Return the places of tests and leaves, encoded as children are."""
        return np.where(
            codes >= 0,
            np.append(self.place, 0)[np.maximum(codes, -1)],
            self.leaf_place[~np.minimum(codes, -1)],
        )

    @property
    def word(self) -> str:
        """Dtype of a word."""
        return self.nodes.dtype.name


def pack_nodes(forest: Forest, dtype: str, stride: int = 1) -> PackedNodes:
    """Lay the trees out for values of the given dtype, each breadth-first from its second place on: pairs of children share a line.

    Columns are told by the place of their first key, where keys of ``stride`` rows stand side by side.
    """
    place, leaf_place, roots, sizes, depths = _places(forest)
    pairs, column = np.unique(
        forest.feature.data[~forest.on_category] * 2
        + forest.default_left.data[~forest.on_category],
        return_inverse=True,
    )
    columns = np.zeros(forest.n_tests, np.int64)
    columns[~forest.on_category] = column
    sets = find_sets(forest)
    columns[forest.on_category] = len(pairs) + sets.of_test[forest.on_category]
    children = np.where(
        forest.left.data >= 0,
        np.append(place, 0)[np.maximum(forest.left.data, 0)],
        leaf_place[~np.minimum(forest.left.data, -1)],
    )
    step, columns, last = children - place, columns * stride, (len(pairs) + sets.count) * stride
    shift = last.bit_length()
    word = "int64" if int(step.max(initial=0)).bit_length() + shift > 32 else WORDS[dtype]
    nodes = np.zeros((int(sizes.sum()) + LINE, 2), np.uint64)
    keys = np.where(forest.on_category, 0, keys_of(forest.less_equal_thresholds(dtype)))
    nodes[place] = np.stack([keys, (step << shift | columns).astype(np.uint64)], axis=1)
    nodes[leaf_place] = np.stack(
        [np.arange(forest.n_leaves), np.full(forest.n_leaves, last)], axis=1
    )
    nodes[-LINE] = forest.n_leaves, last
    none, unsigned = len(nodes) - LINE, nodes.astype(f"u{word}")
    return PackedNodes(
        nodes=unsigned.view(word),
        roots=np.append(roots, none),
        depths=np.append(depths, 0),
        shift=shift,
        feature=(pairs // 2).astype(np.int32),
        nan_left=(pairs % 2).astype(np.int32),
        place=place,
        leaf_place=np.append(leaf_place, none),
    )


def _places(forest: Forest) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Give each test and leaf a place, level by level; and each tree its root, its share of the table and its depth."""
    place, leaf_place = np.zeros(forest.n_tests, np.int64), np.zeros(forest.n_leaves, np.int64)
    trees, level = np.arange(forest.n_trees), forest.roots.data.astype(np.int64)
    used, depths, at = (
        np.full(forest.n_trees, 2, np.int64),
        np.zeros(forest.n_trees, np.int64),
        np.ones(forest.n_trees, np.int64),
    )
    owner = np.repeat(np.arange(forest.n_trees), np.diff(forest.first_leaf.data))
    while len(level):
        inner = level >= 0
        place[level[inner]], leaf_place[~level[~inner]] = at[inner], at[~inner]
        level, trees = level[inner], trees[inner]
        depths[trees] += 1
        rank = np.arange(len(trees)) - np.searchsorted(trees, trees)
        first = used[trees] + 2 * rank
        used += 2 * np.bincount(trees, minlength=forest.n_trees)
        level = (
            np.stack([forest.left.data[level], forest.right.data[level]], axis=1)
            .reshape(-1)
            .astype(np.int64)
        )
        trees, at = np.repeat(trees, 2), np.stack([first, first + 1], axis=1).reshape(-1)
    sizes = -(-used // LINE) * LINE
    begin = np.cumsum(sizes) - sizes
    return place + begin[forest.tree_of_tests], leaf_place + begin[owner], begin + 1, sizes, depths


def keys_of(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return numbers in the order of floats: both zeros alike, NaN, which nothing is below, least."""
    unsigned, bits = f"u{values.dtype.itemsize}", 8 * values.dtype.itemsize
    raw = np.where(values == 0, np.zeros((), values.dtype), values).view(unsigned).astype(np.uint64)
    sign, all_bits = np.uint64(1 << (bits - 1)), np.uint64((1 << bits) - 1)
    keys = np.where(raw & sign, raw ^ all_bits, raw | sign)
    return np.where(np.isnan(values), np.uint64(0), keys)
