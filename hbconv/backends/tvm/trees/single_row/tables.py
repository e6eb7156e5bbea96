"""What one row reads: its columns, the tops of many trees, then packed nodes below them.

Columns are bytes that the splits compare, arranged for few look-ups. Tops are the first splits of
each tree, those of many trees side by side as bytes. A row passes them without a branch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.ops.edge_search import Cells, find_cells
from hbconv.backends.tvm.trees.bins.tables import SIGNED_BYTE_BIAS, Bins
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.backends.tvm.trees.walk.tables import PackedNodes, pack_nodes
from hbconv.trees.category_sets import CategorySets, find_sets
from hbconv.trees.forest import Forest
from hbconv.trees.ranked import EDGES_PER_COLUMN

__all__ = [
    "MAX_COLUMNS_SHUFFLED",
    "RowColumns",
    "RowWalkTables",
    "SingleRowTables",
    "TreeTops",
    "group_vectors",
    "make_single_row_tables",
    "max_top_splits",
]

Ints = npt.NDArray[np.int64]
# No timings of this choice are kept.
MAX_COLUMNS_SHUFFLED = 128
"""Columns up to which splits look them up in registers: each sixteen cost a shuffle a split."""
# Whole trees need no keys and no walk, so they may have more splits than tops.
MAX_SPLITS_WHOLE_TREE = 63
"""Splits of the largest tree up to which tops are whole trees."""
MAX_SPLITS_OF_TOP = 31
"""Splits of a top where they are not.

That is five levels of a full tree. After them a step down each tree costs less than one more level.
"""
NEVER_RIGHT = 127
"""Threshold, as a signed byte, that no column is above."""


@dataclass(frozen=True, eq=False)
class RowWalkTables:
    """Trees that one row walks down.

    Parameters
    ----------
    packed : PackedNodes
    sets : CategorySets
    starts : int64
        Positions where a walk may begin: of each tree's root, or of each exit of the tops.
    steps : int
        Most steps from there to a leaf.
    n_places : int
        Places in the order of the trees.
    """

    packed: PackedNodes
    sets: CategorySets
    starts: Ints
    steps: int
    n_places: int


@dataclass(frozen=True, eq=False)
class SingleRowTables:
    """Tops, and the trees below them; either may be missing, but not both.

    Parameters
    ----------
    n_places : int
        Places in the order of the trees.
    columns : RowColumns
        The bytes that the tops compare.
    tops : TreeTops or None
        None where the columns cannot be looked up in registers: rows walk from the roots.
    walk : RowWalkTables or None
        None where the tops are whole trees.
    """

    n_places: int
    columns: RowColumns
    tops: TreeTops | None
    walk: RowWalkTables | None


def make_single_row_tables(
    forest: Forest, dtype: str, bins: Bins, trees: Trees, machine: Machine
) -> SingleRowTables:
    """Cut the trees at their tops, where shuffles can look the columns up."""
    columns = RowColumns.of(bins)
    places = len(trees.order)
    if not machine.shuffles or bins.columns > MAX_COLUMNS_SHUFFLED:
        # A place without a tree starts on the leaf of no tree.
        roots = np.append(forest.roots.data, ~forest.n_leaves)[trees.order]
        return SingleRowTables(places, columns, None, _walk_from(forest, dtype, roots, places))
    tops = make_tree_tops(forest, columns, trees.order, machine)
    walk = None if tops.are_whole else _walk_from(forest, dtype, tops.exits, places)
    return SingleRowTables(places, columns, tops, walk)


def _walk_from(forest: Forest, dtype: str, children: Ints, places: int) -> RowWalkTables:
    """Pack the trees to be walked down from some splits and leaves."""
    packed = pack_nodes(forest, dtype)
    steps = forest.depth_below(children)
    return RowWalkTables(packed, find_sets(forest), packed.positions(children), steps, places)


@dataclass(frozen=True, eq=False)
class TreeTops:
    """The top of each tree: splits that hold its root, and their exits, numbered left to right.

    An exit is a leaf or a further split. A row is at an exit, at first at the leftmost. Splits
    take their turn after those above them. Where a row goes right, a split moves it from the first
    exit below the split to the first below its right child. It moves the row from no other exit,
    for only a row that is at the first has come to the split. So the exits of all trees are
    found by going through the splits once, whatever the shapes of the trees.

    Parameters
    ----------
    words : uint8 (n_slots, 4, n_trees_of_group)
        A split of each tree of a group: column in a row without NaN, threshold (a signed byte),
        first exit, first exit of the right child.
    columns : uint8 (n_slots, n_trees_of_group)
        Column in any row.
    group_start : int32 (n_groups + 1,)
        First slot of each group of trees.
    exits : int64 (n_exits,)
        What is there, as a child is encoded: a split, or ``~leaf``.
    exit_start : int32 (n_places,)
        First exit of the tree at each place of the order.
    """

    words: npt.NDArray[np.uint8]
    columns: npt.NDArray[np.uint8]
    group_start: npt.NDArray[np.int32]
    exits: Ints
    exit_start: npt.NDArray[np.int32]

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1

    @property
    def group(self) -> int:
        """Number of trees of a group."""
        return int(self.columns.shape[1])

    @property
    def are_whole(self) -> bool:
        """Whether all exits are leaves."""
        return bool((self.exits < 0).all())


def max_top_splits(largest: int) -> int:
    """Return how many splits of a tree its top may hold, by the splits of the largest tree."""
    return MAX_SPLITS_WHOLE_TREE if largest <= MAX_SPLITS_WHOLE_TREE else MAX_SPLITS_OF_TOP


def group_vectors(n_trees: int, machine: Machine) -> tuple[int, int]:
    """Return the number of groups that trees form, and of vectors of each.

    Vectors of a group are worked on in turn, so that one waits for its splits while others step.

    Examples
    --------
    >>> machine = Machine("x86-64-v4", frozenset({"avx512vbmi"}))
    >>> [group_vectors(n_trees, machine) for n_trees in (500, 100, 300)]
    [(2, 4), (1, 2), (2, 3)]
    """
    # With 64 bytes, four in turn, 500 trees of 31 leaves took 0.81 us a row, and 0.85 before (Zen
    # 5).
    in_turn = 4 if machine.wide_byte_shuffles else 2
    vectors = max(1, -(-n_trees // trees_per_vector(machine)))
    groups = -(-vectors // in_turn)
    return groups, -(-vectors // groups)


def trees_per_vector(machine: Machine) -> int:
    """Return how many trees a vector holds a byte of: as many as a shuffle looks up."""
    return 64 if machine.wide_byte_shuffles else 32


def make_tree_tops(forest: Forest, columns: RowColumns, order: Ints, machine: Machine) -> TreeTops:
    """Take the splits of each tree, or the first of them level by level.

    1. A tree's splits are ranked level by level; the top takes the first ranks.
    2. The tree at a place of the order has a lane of a group. A group has a slot for each split of
       its largest top.
    """
    rank, counts = _rank_splits(forest)  # 1
    most = max_top_splits(int(counts.max(initial=0)))
    splits = np.flatnonzero(rank < most)
    exits = _number_exits(forest, rank < most)
    n_groups, vectors = group_vectors(len(order), machine)  # 2
    per_group = vectors * trees_per_vector(machine)
    group, lane = np.divmod(_places(forest.n_trees, order), per_group)
    n_slots = np.zeros(n_groups, np.int64)
    np.maximum.at(n_slots, group, np.minimum(counts, most))
    group_start = np.append(0, np.cumsum(n_slots))
    tree = forest.tree_of_tests[splits]
    at = group_start[group[tree]] + rank[splits], lane[tree]
    shape = int(group_start[-1]), per_group
    words, any_row = _write_slots(shape, at, splits, columns, exits)
    exit_start = exits.exit_start[order].astype(np.int32)
    return TreeTops(words, any_row, group_start.astype(np.int32), exits.exits, exit_start)


def _places(n_trees: int, order: Ints) -> Ints:
    """Return the place of each tree in the order."""
    places = np.flatnonzero(order >= 0)
    place = np.empty(n_trees, np.int64)
    place[order[places]] = places
    return place


def _write_slots(
    shape: tuple[int, int], at: tuple[Ints, Ints], splits: Ints, columns: RowColumns, exits: _Exits
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Write the words of splits, and their columns in any row, to slots and lanes.

    Slots without a split keep a threshold that moves no row.
    """
    n_slots, group = shape
    words = np.zeros((n_slots, 4, group), np.uint8)
    # No signed byte is above 127, so an empty slot moves no row.
    words[:, 1] = NEVER_RIGHT
    any_row = np.zeros((n_slots, group), np.uint8)
    slot, lane = at
    column = columns.bins.column[splits]
    threshold = (columns.bins.threshold_bin[splits] - SIGNED_BYTE_BIAS) % 256
    words[slot, 0, lane] = columns.plain[column]
    words[slot, 1, lane] = threshold
    words[slot, 2, lane] = exits.first[splits]
    words[slot, 3, lane] = exits.right[splits]
    any_row[slot, lane] = columns.place[column]
    return words, any_row


def _rank_splits(forest: Forest) -> tuple[Ints, Ints]:
    """Return the rank of each split in its tree, level by level, and the splits of each tree."""
    # Level by level, so that a split comes after those above it.
    order = np.lexsort((forest.depth_of_tests, forest.tree_of_tests))
    counts = np.bincount(forest.tree_of_tests, minlength=forest.n_trees)
    rank = np.empty(forest.n_tests, np.int64)
    rank[order] = np.arange(forest.n_tests) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank, counts


@dataclass(frozen=True, eq=False)
class _Exits:
    """The exits of all trees.

    Parameters
    ----------
    first, right : int64 (n_splits,)
        First exit below a split, and below its right child, counted in the tree.
    exits : int64 (n_exits + 1,)
        What is there; at last the leaf of no tree.
    exit_start : int64 (n_trees + 1,)
        First exit of each tree.
    """

    first: Ints
    right: Ints
    exits: Ints
    exit_start: Ints


def _number_exits(forest: Forest, taken: npt.NDArray[np.bool_]) -> _Exits:
    """Give a number to each exit of the splits that are taken.

    1. Bottom-up, count the exits below each split; a child that is not taken is one exit.
    2. Top-down, number the first exit below each split and below its right child.
    3. Write what is at each exit: a root that is a leaf, or a child that is not taken.
    """
    children = np.stack([forest.left.data, forest.right.data], axis=1).astype(np.int64)
    roots = forest.roots.data.astype(np.int64)
    depth = forest.depth_of_tests
    levels = [np.flatnonzero(taken & (depth == d)) for d in range(forest.depth)]
    below = np.ones(forest.n_tests, np.int64)

    def count(codes: Ints) -> Ints:
        return np.where(codes >= 0, np.append(below, 1)[np.maximum(codes, 0)], 1)

    for level in reversed(levels):  # 1
        below[level] = count(children[level]).sum(axis=1)
    first = np.zeros(forest.n_tests, np.int64)
    right = np.zeros(forest.n_tests, np.int64)
    for level in levels:  # 2
        right[level] = first[level] + count(children[level, 0])
        for side, start in enumerate((first, right)):
            inner = children[level, side] >= 0
            first[children[level[inner], side]] = start[level[inner]]
    exit_start = np.cumsum(np.append(0, count(roots)))  # 3
    # The exit after the last is the leaf of no tree, for places without one.
    exits = np.full(exit_start[-1] + 1, ~forest.n_leaves)
    exits[exit_start[:-1]] = roots
    begin = exit_start[forest.tree_of_tests]
    for side, start in enumerate((first, right)):
        child = children[:, side]
        goes_on = (child >= 0) & np.append(taken, False)[np.maximum(child, -1)]
        stops = taken & ~goes_on
        exits[(begin + start)[stops]] = child[stops]
    return _Exits(first, right, exits, exit_start)


@dataclass(frozen=True, eq=False)
class RowColumns:
    """The columns of a row: plain ones, then twins.

    A twin is like a plain column but for the side that NaN takes, so that a row without NaN needs
    no twins.

    Parameters
    ----------
    bins : Bins
    order : int64 (n_columns,)
        Columns of the bins, in the order in which a row has them.
    n_plain : int
    """

    bins: Bins
    order: Ints
    n_plain: int

    @staticmethod
    def of(bins: Bins) -> RowColumns:
        """Put twins last."""
        feature = _feature_of_columns(bins)
        is_twin = np.zeros(bins.columns, bool)
        # Columns of one feature and one first edge differ in the side of NaN alone.
        is_twin[1 : len(feature)] = (np.diff(feature) == 0) & (np.diff(bins.first) == 0)
        return RowColumns(bins, np.argsort(is_twin, kind="stable"), int((~is_twin).sum()))

    @property
    def place(self) -> Ints:
        """Position of each column of the bins in the row."""
        return np.argsort(self.order)

    @property
    def plain(self) -> Ints:
        """The same; for twins, the position of the column whose twin it is."""
        # A twin follows its plain column in the bins, so the entry before is that one.
        return np.where(self.place < self.n_plain, self.place, np.roll(self.place, 1))

    @property
    def feature_index(self) -> Ints:
        """Feature of each column but those of category sets, by its position in the bins."""
        return _feature_of_columns(self.bins)

    @property
    def twins(self) -> Ints:
        """Columns of the bins that are twins."""
        return self.order[self.n_plain :]

    @property
    def plain_thresholds(self) -> Ints:
        """Columns of thresholds that are no twins: all plain ones but those of category sets."""
        thresholds = self.order[self.order < len(self.bins.first)]
        return thresholds[: self.n_plain - self.bins.sets.count]

    @property
    def missing(self) -> npt.NDArray[np.uint8]:
        """What each column of thresholds holds for NaN."""
        bins = self.bins
        inside = np.clip(bins.missing - bins.first, 0, EDGES_PER_COLUMN)
        byte = np.where(bins.missing < 0, EDGES_PER_COLUMN, inside)
        return (byte ^ SIGNED_BYTE_BIAS).astype(np.uint8)

    def cells(self, feature: int) -> Cells | None:
        """Cut a feature's edges to cells, few edges too: for one value that beats counting."""
        bins = self.bins
        edges = bins.edges[bins.edge_start[feature] :][: bins.edge_count[feature]]
        return bins.cells[feature] or (None if np.isnan(edges[0]) else find_cells(edges))


def _feature_of_columns(bins: Bins) -> Ints:
    return np.repeat(np.arange(len(bins.feature)), np.diff(bins.column_start))
