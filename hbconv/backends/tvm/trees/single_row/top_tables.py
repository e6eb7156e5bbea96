"""The tops of many trees side by side as bytes, which a row passes without a branch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.trees.bins.tables import SIGNED_BYTE_BIAS
from hbconv.backends.tvm.trees.single_row.row_columns import (
    RowColumns,
    look_up_indices,
    trees_per_vector,
)
from hbconv.trees.forest import Forest

__all__ = [
    "Levels",
    "Merges",
    "Moves",
    "TreeTops",
    "count_slots",
    "count_vectors",
    "make_tree_tops",
]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
# No timings of this choice are kept.
# Whole trees need no keys and no walk, so they may have more splits than tops.
MAX_SPLITS_WHOLE_TREE = 63
"""Splits of the largest tree up to which tops are whole trees."""
MAX_SPLITS_OF_TOP = 31
"""Splits of a top where they are not.

That is five levels of a full tree. After them a step down each tree costs less than one more level.
"""
MAX_LEVELS = 8
"""Levels of a symmetric tree up to which its leaves are numbered by a byte."""
MAX_DEPTH_MERGED = 6
"""Levels up to which sides are merged: their code is written out for every split."""
MOVES_PER_MERGE = 1.4
"""Splits that are passed by moves in the time of one by a merge."""
NEVER_RIGHT = 127
"""Threshold, as a signed byte, that no column is above."""


@dataclass(frozen=True, eq=False)
class Moves:
    """How a row passes trees of any shapes: splits move it from one exit to another.

    A row is at an exit, at first at the leftmost. Splits take their turn after those above them.
    Where a row goes right, a split moves it from the first exit below the split to the first below
    its right child. It moves the row from no other exit, for only a row that is at the first has
    come to the split. So the exits of all trees are found by going through the splits once.

    Parameters
    ----------
    first, right : uint8 (n_slots, n_trees_of_group)
        First exit below the split, and below its right child.
    """

    first: Bytes
    right: Bytes


@dataclass(frozen=True)
class Levels:
    """How a row passes symmetric trees: the outcomes of the levels, bit by bit, number the exit.

    A slot is a level. A tree of fewer levels than others of its group has the last slots: before
    them its bits are 0.
    """


@dataclass(frozen=True, eq=False)
class Merges:
    """How a row passes trees that are nearly full: a split takes the exit of one of its sides.

    A slot is a place of the full tree, counted level by level. A split of the last level has two
    exits that follow each other. At a place without a split a row goes left, to the exit above it.

    Parameters
    ----------
    depth : int
        Levels of the full tree.
    first : uint8 (n_groups, 2 ** (depth - 1), n_trees_of_group)
        The left exit at each place of the last level.
    """

    depth: int
    first: Bytes


@dataclass(frozen=True, eq=False)
class TreeTops:
    """The top of each tree: splits that hold its root, and their exits, numbered left to right.

    An exit is a leaf or a further split. The tree at a place of the order has a lane of a group,
    and its splits have slots of the group.

    Parameters
    ----------
    plain, every : uint8 (n_slots, n_indices, n_trees_of_group)
        Where look-ups find the column of a split: in a row without NaN, and in any.
    threshold : uint8 (n_slots, n_trees_of_group)
        Signed bytes.
    group_start : int32 (n_groups + 1,)
        First slot of each group of trees.
    form : Moves, Levels or Merges
        How a row passes the splits.
    exits : int64 (n_exits,)
        What is there, as a child is encoded: a split, or ``~leaf``.
    exit_start : int32 (n_places,)
        First exit of the tree at each place of the order.
    """

    plain: Bytes
    every: Bytes
    threshold: Bytes
    group_start: npt.NDArray[np.int32]
    form: Moves | Levels | Merges
    exits: Ints
    exit_start: npt.NDArray[np.int32]

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1

    @property
    def group(self) -> int:
        """Number of trees of a group."""
        return int(self.threshold.shape[1])

    @property
    def are_whole(self) -> bool:
        """Whether all exits are leaves."""
        return bool((self.exits < 0).all())


def make_tree_tops(
    forest: Forest, columns: RowColumns, order: Ints, level_splits: Ints | None, machine: Machine
) -> TreeTops:
    """Choose how the trees are passed, and lay out their splits so.

    Parameters
    ----------
    order : int64 (n_places,)
        Tree at each place.
    level_splits : int64 or None
        One split of each level of each tree, where all trees are symmetric.
    """
    layout = _Layout(forest, columns, order, machine)
    if level_splits is not None and forest.depth <= MAX_LEVELS:
        return layout.by_levels(level_splits)
    if _are_merged(forest):
        return layout.by_merges()
    return layout.by_moves()


def count_slots(forest: Forest, level_splits: Ints | None) -> tuple[int, int]:
    """Return the slots of the largest top, counted in moves, and the levels that all of it passes.

    Levels of whole trees are all there are.
    """
    if level_splits is not None and forest.depth <= MAX_LEVELS:
        return forest.depth, forest.depth
    if _are_merged(forest):
        return int((2**forest.depth - 1) / MOVES_PER_MERGE), forest.depth
    largest = int(_count_splits(forest).max(initial=0))
    slots = min(largest, _max_top_splits(largest))
    return slots, forest.depth if slots == largest else slots.bit_length()


def _are_merged(forest: Forest) -> bool:
    """Whether trees are so full that places without a split cost less than moves."""
    if not 1 <= forest.depth <= MAX_DEPTH_MERGED:
        return False
    places = 2**forest.depth - 1
    return bool(places * forest.n_trees <= MOVES_PER_MERGE * forest.n_tests)


def _count_splits(forest: Forest) -> Ints:
    return np.bincount(forest.tree_of_tests, minlength=forest.n_trees)


def _max_top_splits(largest: int) -> int:
    """Return how many splits of a tree its top may hold, by the splits of the largest tree."""
    return MAX_SPLITS_WHOLE_TREE if largest <= MAX_SPLITS_WHOLE_TREE else MAX_SPLITS_OF_TOP


def group_vectors(n_trees: int, machine: Machine) -> tuple[int, int]:
    """Return the number of groups that trees form, and of vectors of each, where they are moved.

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
    vectors = count_vectors(n_trees, machine)
    groups = -(-vectors // in_turn)
    return groups, -(-vectors // groups)


def count_vectors(n_trees: int, machine: Machine) -> int:
    """Return how many vectors hold a byte of each tree."""
    return max(1, -(-n_trees // trees_per_vector(machine)))


class _Layout:
    """Lays out the tops of a forest.

    Parameters
    ----------
    forest : Forest
    columns : RowColumns
    order : int64 (n_places,)
        Tree at each place.
    machine : Machine
    """

    def __init__(self, forest: Forest, columns: RowColumns, order: Ints, machine: Machine) -> None:
        self.forest = forest
        self.columns = columns
        self.order = order
        self.machine = machine

    def by_moves(self) -> TreeTops:
        """Take the splits of each tree, or the first of them level by level.

        1. A tree's splits are ranked level by level; the top takes the first ranks.
        2. A group has a slot for each split of its largest top.
        """
        rank, counts = _rank_splits(self.forest)  # 1
        most = _max_top_splits(int(counts.max(initial=0)))
        splits = np.flatnonzero(rank < most)
        exits = _number_exits(self.forest, rank < most)
        n_groups, vectors = group_vectors(len(self.order), self.machine)  # 2
        lanes = vectors * trees_per_vector(self.machine)
        group, lane = np.divmod(self._place_of_tree, lanes)
        tree = self.forest.tree_of_tests[splits]
        start = _group_start(n_groups, group, np.minimum(counts, most))
        at = start[group[tree]] + rank[splits], lane[tree]
        first, right = np.zeros((2, start[-1], lanes), np.uint8)
        first[at] = exits.first[splits]
        right[at] = exits.right[splits]
        return self._tops(start, lanes, at, splits, Moves(first, right), exits)

    def by_levels(self, splits: Ints) -> TreeTops:
        """Take one split a level. A group is a vector, whose exits are added one by one next."""
        forest = self.forest
        n_groups, lanes, group, lane = self._single_vectors()
        tree = forest.tree_of_tests[splits]
        levels = np.bincount(tree, minlength=forest.n_trees)
        start = _group_start(n_groups, group, levels)
        slot = start[group[tree] + 1] - levels[tree] + forest.depth_of_tests[splits]
        exits = _number_exits(forest, np.ones(forest.n_tests, np.bool_))
        return self._tops(start, lanes, (slot, lane[tree]), splits, Levels(), exits)

    def by_merges(self) -> TreeTops:
        """Take the places of full trees, level by level, and go on below leaves as on the left.

        1. At first each tree is at its root, above its first exit.
        2. A level has the children of the one above; below a leaf both are the leaf.
        """
        forest = self.forest
        n_groups, lanes, group, lane = self._single_vectors()
        exits = _number_exits(forest, np.ones(forest.n_tests, np.bool_))
        start = np.arange(n_groups + 1) * (2**forest.depth - 1)
        codes = forest.roots.data.astype(np.int64)[:, np.newaxis]  # 1
        first = np.zeros_like(codes)
        found = []
        for level in range(forest.depth):
            tree, place = np.nonzero(codes >= 0)
            split = codes[tree, place]
            found.append((start[group[tree]] + 2**level - 1 + place, lane[tree], split))
            if level == forest.depth - 1:
                break
            below = np.repeat(codes, 2, axis=1)  # 2
            first = np.repeat(first, 2, axis=1)
            below[tree, 2 * place] = forest.left.data[split]
            below[tree, 2 * place + 1] = forest.right.data[split]
            first[tree, 2 * place + 1] = exits.right[split]
            codes = below
        slots, lanes_, splits = (np.concatenate(parts) for parts in zip(*found, strict=True))
        last = np.zeros((n_groups, 2 ** (forest.depth - 1), lanes), np.uint8)
        last[group, :, lane] = first
        form = Merges(forest.depth, last)
        return self._tops(start, lanes, (slots, lanes_), splits, form, exits)

    def _single_vectors(self) -> tuple[int, int, Ints, Ints]:
        """Return groups of one vector: their number, their lanes, and the group and lane of trees.

        Groups so short overlap: one is passed while the leaves of the one before are added.
        """
        lanes = trees_per_vector(self.machine)
        group, lane = np.divmod(self._place_of_tree, lanes)
        return count_vectors(len(self.order), self.machine), lanes, group, lane

    @property
    def _place_of_tree(self) -> Ints:
        """The place of each tree in the order."""
        places = np.flatnonzero(self.order >= 0)
        place = np.empty(self.forest.n_trees, np.int64)
        place[self.order[places]] = places
        return place

    def _tops(
        self,
        group_start: Ints,
        lanes: int,
        at: tuple[Ints, Ints],
        splits: Ints,
        form: Moves | Levels | Merges,
        exits: _Exits,
    ) -> TreeTops:
        """Write splits to their slots and lanes. At others no row goes right."""
        columns = self.columns
        shape = int(group_start[-1]), lanes
        plain, every = np.zeros((2, *shape), np.int64)
        threshold = np.full(shape, NEVER_RIGHT, np.uint8)
        column = columns.bins.column[splits]
        plain[at] = columns.plain[column]
        every[at] = columns.place[column]
        threshold[at] = (columns.bins.threshold_bin[splits] - SIGNED_BYTE_BIAS) % 256
        return TreeTops(
            plain=look_up_indices(plain, columns.n_plain, self.machine),
            every=look_up_indices(every, len(columns.order), self.machine),
            threshold=threshold,
            group_start=group_start.astype(np.int32),
            form=form,
            exits=exits.exits,
            exit_start=exits.exit_start[self.order].astype(np.int32),
        )


def _group_start(n_groups: int, group: Ints, slots: Ints) -> Ints:
    """Return the first slot of each group, which has as many as its largest tree."""
    most = np.zeros(n_groups, np.int64)
    np.maximum.at(most, group, slots)
    return np.append(0, np.cumsum(most))


def _rank_splits(forest: Forest) -> tuple[Ints, Ints]:
    """Return the rank of each split in its tree, level by level, and the splits of each tree."""
    # Level by level, so that a split comes after those above it.
    order = np.lexsort((forest.depth_of_tests, forest.tree_of_tests))
    counts = _count_splits(forest)
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
