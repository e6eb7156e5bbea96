"""Tops: the first tests of each tree, those of many trees side by side, as bytes. A row passes them without a branch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import BIAS
from hbconv.backends.tvm.trees.single_row.row_columns import RowColumns
from hbconv.forest import Forest

__all__ = ["LANES", "MOST_COLUMNS", "WIDE", "Tops", "make_tops", "most_tests"]

LANES = 32
"""Trees that a vector holds a byte of."""
MOST_COLUMNS = 128
"""Columns that are looked up in: each sixteen cost a shuffle a test."""
WIDE = 2
"""Vectors that are worked on in turn, so that one waits for its tests while the other steps."""
WHOLE = 63
"""Tests of the largest tree up to which tops are whole trees."""
TOP = 31
"""Tests of a top where they are not: five levels of a full tree, after which a step down each tree is cheaper than one more level."""
NEVER = 127
"""Place, as a signed byte, that no column is above."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tops:
    """The top of each tree: tests that hold its root, and their ends, which are leaves or further tests, numbered left to right.

    A row stands at an end, at first at the leftmost. A test after all those above it moves the row from the first end below it to the first
    below its right child, where it goes right: from no other end, for whoever stands there has come to the test. So the ends that all trees
    come to are found by going through the tests once, whatever the shapes of the trees.

    Parameters
    ----------
    words : uint8 (n_slots, 4, lanes)
        A test of each tree of a group: column in a row without NaN, place (a signed byte), first end, first end of the right child.
    columns : uint8 (n_slots, lanes)
        Column in any row.
    group_start : int32 (n_groups + 1,)
        First slot of each group of trees.
    ends : int64 (n_ends,)
        What stands there, as a child is encoded: a test, or ``~leaf``.
    end_start : int32 (groups * lanes,)
        First end of each tree.
    """

    words: npt.NDArray[np.uint8]
    columns: npt.NDArray[np.uint8]
    group_start: npt.NDArray[np.int32]
    ends: Ints
    end_start: npt.NDArray[np.int32]

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1

    @property
    def whole(self) -> bool:
        """Whether all ends are leaves."""
        return bool((self.ends < 0).all())


def most_tests(largest: int) -> int:
    """Return how many tests of a tree its top may hold, where the largest tree has so many."""
    return WHOLE if largest <= WHOLE else TOP


def make_tops(forest: Forest, arranged: RowColumns, trees: Ints) -> Tops:
    """Take the tests of each tree, or the first of them level by level; trees stand in the given order, ``n_trees`` for one that is none."""
    bins, lanes, (rank, counts) = arranged.bins, LANES * WIDE, _ranked(forest)
    most = most_tests(int(counts.max(initial=0)))
    taken = rank < most
    first, after, ends, end_start = _numbered(forest, taken)
    seat, real = np.empty(forest.n_trees, np.int64), np.flatnonzero(trees < forest.n_trees)
    seat[trees[real]] = real
    group, lane = np.divmod(seat, lanes)
    tallest = np.zeros(-(-len(trees) // lanes), np.int64)
    np.maximum.at(tallest, group, np.minimum(counts, most))
    group_start = np.append(0, np.cumsum(tallest))
    words, columns = (
        np.zeros((group_start[-1], 4, lanes), np.uint8),
        np.zeros((group_start[-1], lanes), np.uint8),
    )
    words[:, 1] = NEVER
    tests = np.flatnonzero(taken)
    tree, column = forest.tree_of_tests[tests], bins.column[tests]
    slot, lane = group_start[group[tree]] + rank[tests], lane[tree]
    place = (bins.place[tests] - BIAS) % 256
    words[slot, :, lane] = np.stack(
        [arranged.plain[column], place, first[tests], after[tests]], axis=1
    )
    columns[slot, lane] = arranged.place[column]
    return Tops(
        words, columns, group_start.astype(np.int32), ends, end_start[trees].astype(np.int32)
    )


def _ranked(forest: Forest) -> tuple[Ints, Ints]:
    """Return the place of each test in its tree, level by level, and how many there are."""
    order = np.lexsort((forest.depth_of_tests, forest.tree_of_tests))
    counts = np.bincount(forest.tree_of_tests, minlength=forest.n_trees)
    rank = np.empty(forest.n_tests, np.int64)
    rank[order] = np.arange(forest.n_tests) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank, counts


def _numbered(forest: Forest, taken: npt.NDArray[np.bool_]) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the first end below each test and below its right child, what stands at the ends of all trees, and where each tree's begin."""
    children = np.stack([forest.left.data, forest.right.data], axis=1).astype(np.int64)
    roots, levels = (
        forest.roots.data.astype(np.int64),
        [np.flatnonzero(taken & (forest.depth_of_tests == d)) for d in range(forest.depth)],
    )
    below, first = np.ones(forest.n_tests, np.int64), np.zeros(forest.n_tests, np.int64)

    def count(codes: Ints) -> Ints:
        return np.where(codes >= 0, np.append(below, 1)[np.maximum(codes, 0)], 1)

    for level in reversed(levels):
        below[level] = count(children[level]).sum(axis=1)
    after = first.copy()
    for level in levels:
        after[level] = first[level] + count(children[level, 0])
        for side, start in enumerate((first, after)):
            inner = children[level, side] >= 0
            first[children[level[inner], side]] = start[level[inner]]
    end_start = np.cumsum(np.append(0, count(roots)))
    ends = np.full(end_start[-1] + 1, ~forest.n_leaves)
    ends[end_start[:-1]] = roots
    begin = end_start[forest.tree_of_tests]
    for side, start in enumerate((first, after)):
        stop = taken & ~(
            (children[:, side] >= 0) & np.append(taken, False)[np.maximum(children[:, side], -1)]
        )
        ends[(begin + start)[stop]] = children[stop, side]
    return first, after, ends, end_start
