"""Forests for traversal: packed nodes of two words, and nodes with category tables.

A packed node is an integer to compare with, and a step to the children. Its integer is a key: keys
are unsigned integers in the order of their floats, and compare in fewer
instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.tir.memory import LINE
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.category_sets import CategorySets, find_sets
from hbconv.trees.forest import CategoryTables, Forest

__all__ = [
    "ROWS_WALKING",
    "CategoryLookUps",
    "CategoryWalkTables",
    "PackedNodes",
    "WalkTables",
    "make_category_walk_tables",
    "make_walk_tables",
    "pack_nodes",
]

NODES_PER_LINE = 8
"""Each tree has a multiple of so many nodes, so that its top is in one cache line of 64 bytes."""
ROWS_WALKING = 16
"""Rows that walk at once, so that one waits for memory while others step.

Their keys of a column fill a cache line.
"""
MAX_WORD_BITS = 32
KEY_DTYPES = {"float32": "int32", "float64": "int64"}
"""Dtype in which the key of a float is stored."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedNodes:
    """A forest over keys: unsigned integers in the order of their values.

    A row has a key for each column. First come features, in one of the two directions that NaN can
    take. Then comes a column for each category set, 0 where the row goes left and 1 where not. The
    last column is 0.

    A node is the words ``(key, step << shift | column)``. Children are neighbours, so a row goes
    on by ``at += step + (keys[column] > key)``. A leaf is ``(its number, last column)``: no key
    there is greater, and the step is 0, so that it stays.

    Parameters
    ----------
    nodes : int32 or int64 (n, 2)
        The two words, to be read as unsigned. A column is named by the position of its first key
        where keys of ``ROWS_WALKING`` rows stand side by side.
    roots : int64 (n_trees + 1,)
        Position of each tree's root. The last is a leaf of no tree, numbered after all others.
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

    @property
    def nodes_per_line(self) -> int:
        """Nodes of a cache line."""
        return LINE // (2 * self.nodes.itemsize)

    def positions(self, children: Ints) -> Ints:
        """Return the positions of splits and leaves, which are encoded as children are."""
        return _positions(children, self.split_position, self.leaf_position)


def pack_nodes(forest: Forest, dtype: str, numbers: Ints) -> PackedNodes:
    """Lay the trees out for values of the given dtype, with leaves named by the given numbers.

    1. Each tree is laid out breadth-first from its second position on, so that pairs of children
       share a cache line.
    2. The loops for many rows and for few name columns alike, so a file holds one table for both.
    3. Words are of 64 bits where the steps and columns do not fit in 32.
    """
    layout = _lay_out(forest)  # 1
    pairs, columns, n_columns = _find_columns(forest)  # 2
    columns = columns * ROWS_WALKING
    last = n_columns * ROWS_WALKING
    children = _positions(forest.left.data, layout.split_position, layout.leaf_position)
    step = children - layout.split_position
    shift = last.bit_length()
    # Step and column share a word.
    wide = int(step.max(initial=0)).bit_length() + shift > MAX_WORD_BITS  # 3
    keys = np.where(forest.on_category, 0, keys_of(forest.less_equal_thresholds(dtype)))
    fields = (step << shift | columns).astype(np.uint64)
    leaves = np.stack([numbers, np.full(forest.n_leaves, last)], axis=1)
    nodes = np.zeros((layout.size + NODES_PER_LINE, 2), np.uint64)
    nodes[layout.split_position] = np.stack([keys, fields], axis=1)
    nodes[layout.leaf_position] = leaves
    nodes[layout.size] = numbers.max(initial=-1) + 1, last
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
    # The appended 0 is never taken: it replaces splits where a forest has none.
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
    """Positions in a table of ``size`` nodes: of splits, of leaves and of each tree's root."""

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
    # Position 0 stays empty: with the root at 1, pairs of children begin at even positions.
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
    # Trees begin on a line, so that pairs of children share one.
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


def keys_of(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return integers in the order of floats: both zeros alike, NaN least.

    The bits of a positive float ascend with it, those of a negative one descend. So a positive
    one's sign bit is set, and of a negative one all bits are flipped.
    """
    unsigned = f"u{values.dtype.itemsize}"
    n_bits = 8 * values.dtype.itemsize
    raw = np.where(values == 0, np.zeros((), values.dtype), values).view(unsigned).astype(np.uint64)
    sign = np.uint64(1 << (n_bits - 1))
    all_bits = np.uint64((1 << n_bits) - 1)
    keys = np.where(raw & sign, raw ^ all_bits, raw | sign)
    # No value is below a threshold of NaN, and no key is below 0.
    return np.where(np.isnan(values), np.uint64(0), keys)


@dataclass(frozen=True, eq=False)
class WalkTables:
    """Packed nodes, the category sets they read, and where to begin and stop in each tree.

    Parameters
    ----------
    packed : PackedNodes
    sets : CategorySets
    roots : int64 (n_trees,)
        Position of the root.
    usual_depths : int64 (n_trees,)
        Mean depth of the leaves, rounded up: most rows go no further. Depth of the deepest leaf
        where paths are even.
    even : bool
        Whether all paths of a tree are about as long: no row has many more steps.
    ahead : int64 (n_trees, 2)
        First cache line of the tree that comes next, and how many lines to fetch.
    """

    packed: PackedNodes
    sets: CategorySets
    roots: Ints
    usual_depths: Ints
    even: bool
    ahead: Ints

    @property
    def n_keys(self) -> int:
        """Keys of a row: of thresholds, of sets, and the one that leaves compare with."""
        return len(self.packed.feature) + self.sets.count + 1


def make_walk_tables(forest: Forest, dtype: str, trees: Trees, machine: Machine) -> WalkTables:
    """Pack the nodes, and find what comes to the cache ahead of each tree."""
    packed = pack_nodes(forest, dtype, trees.numbers)
    depths = packed.depths[trees.order]
    usual = _mean_depths(forest)[trees.order]
    # One step more for some rows is less work than a list of them.
    even = bool((depths <= usual + 1).all())
    return WalkTables(
        packed=packed,
        sets=find_sets(forest),
        roots=packed.roots[trees.order],
        usual_depths=depths if even else usual,
        even=even,
        ahead=_lines_ahead(packed, trees, machine),
    )


def _lines_ahead(packed: PackedNodes, trees: Trees, machine: Machine) -> Ints:
    """Return the first cache line of the tree after each, and how many lines to fetch of it.

    After the last tree comes the first, for the next tile. Nothing is fetched of a forest that
    stays in the second-level cache.
    """
    after = np.roll(trees.order, -1)
    # A tree begins on a line, before its root; after the last begins the leaf of no tree.
    begin = packed.roots // packed.nodes_per_line
    lines = (begin[after + 1] - begin[after]) * (packed.nodes.nbytes > machine.level2)
    return np.stack([begin[after], lines], axis=1)


def _mean_depths(forest: Forest) -> Ints:
    leaves_below = (forest.left.data < 0).astype(np.int64) + (forest.right.data < 0)
    # The leaves below a test are one step deeper than it.
    depths = (forest.depth_of_tests + 1) * leaves_below
    total = np.bincount(forest.tree_of_tests, depths, minlength=forest.n_trees)
    return np.ceil(total / np.diff(forest.first_leaf.data)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class CategoryLookUps:
    """The table of each split: those of splits on thresholds have one entry, which never holds.

    Parameters
    ----------
    start : int32 (n_splits,)
        First entry of a split's table.
    last : float (n_splits,)
        Last code of it, in the dtype of the values.
    goes_left : uint8 (n_entries,)
    """

    start: npt.NDArray[np.int32]
    last: npt.NDArray[Any]
    goes_left: npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class CategoryWalkTables:
    """Splits that send a row to their first child where ``value <= threshold``.

    NaN is never ``<=``. So a split that sends NaN left tests ``-x`` instead, in a column of
    its own: ``-x <= (largest value below -t)``, that is ``x > t``. Its first child is the right
    one. The threshold of a categorical split never holds: its table decides.

    Parameters
    ----------
    roots : int32 (n_trees,)
        In the order of evaluation.
    threshold : float (n_splits,)
    fields : int32 (n_splits, 3)
        Column, of x and then of -x; child where the split does not hold; child where it does.
    look_ups : CategoryLookUps or None
    n_features : int
    """

    roots: npt.NDArray[np.int32]
    threshold: npt.NDArray[Any]
    fields: npt.NDArray[np.int32]
    look_ups: CategoryLookUps | None
    n_features: int


def make_category_walk_tables(forest: Forest, dtype: str, trees: Trees) -> CategoryWalkTables:
    """Write the fields of the splits, for values of the given dtype."""
    mirrored = forest.default_left.data & ~forest.on_category
    below = forest.less_equal_thresholds(dtype)
    left = forest.left.data
    right = forest.right.data
    column = forest.feature.data + mirrored * forest.n_features
    children = np.where(mirrored, [right, left], [left, right])
    return CategoryWalkTables(
        roots=forest.roots.data[trees.order],
        threshold=np.where(mirrored, _mirror_thresholds(below), below),
        fields=np.stack([column, children[1], children[0]], axis=1).astype(np.int32),
        look_ups=_look_ups(dtype, forest.tables) if forest.tables else None,
        n_features=forest.n_features,
    )


def _look_ups(dtype: str, tables: CategoryTables) -> CategoryLookUps:
    table = tables.of_test.data
    return CategoryLookUps(
        # Entry 0 is the table of splits on thresholds, which sends nothing left.
        start=np.where(table >= 0, tables.start.data[table] + 1, 0).astype(np.int32),
        last=np.where(table >= 0, tables.last[table], 0).astype(dtype),
        goes_left=np.concatenate([[0], tables.goes_left.data]).astype(np.uint8),
    )


def _mirror_thresholds(thresholds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return thresholds u such that ``-x <= u`` where ``x > t``.

    Nothing is below NaN, so it becomes infinity; and infinity becomes NaN.
    """
    infinity = np.array(np.inf, thresholds.dtype)
    nan = np.array(np.nan, thresholds.dtype)
    with np.errstate(over="ignore"):
        # The largest float below -t: ``-x <= u`` is then ``-x < -t``, that is ``x > t``.
        beyond = np.nextafter(-thresholds, -infinity)
    mirrored = np.where(thresholds == infinity, nan, beyond)
    return np.where(np.isnan(thresholds), infinity, mirrored)
