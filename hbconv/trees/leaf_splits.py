"""Leaf splits: trees of any shape halved by their leaves, so that few bits name a leaf.

The leaves of a tree are numbered left to right. A range of neighbouring leaves is split in two
between two of them, until single leaves are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = ["LeafSplits", "split_leaves"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LeafSplits:
    """Ranges of neighbouring leaves, each split in two until single leaves are left.

    One test of the tree tells two neighbouring leaves apart: that of the smallest subtree with
    both. A row lies before the split between them if it goes left there. If it turns elsewhere
    above, where it turns decides. If b bits tell the leaves of a range apart, b - 1 bits tell those
    on either side. Among such splits, the one that takes the fewest tests is chosen.

    Parameters
    ----------
    first, split, last : int64 (n_ranges,)
        First leaf of a range, the first one after the split, and the first one past the range. The
        trees' own ranges come first.
    test : int64 (n_ranges,)
        The test at the split.
    left, right : int64 (n_ranges,)
        The ranges before and after the split; -1 for a single leaf.
    bits : int64 (n_ranges,)
        How many bits number its leaves.
    root : int64 (n_trees,)
        Range of a tree; -1 for one of a single leaf.
    step_range, step_test, step_either : int64, int64, bool (n_steps,)
        What decides a split beside the test there, upwards from it, range after range. A row lies
        before the split if it goes left at the step's test and what is decided so far says so; or,
        where ``step_either``, if one of them does.
    """

    first: Ints
    split: Ints
    last: Ints
    test: Ints
    left: Ints
    right: Ints
    bits: Ints
    root: Ints
    step_range: Ints
    step_test: Ints
    step_either: npt.NDArray[np.bool_]

    @cached_property
    def parent(self) -> Ints:
        """The range that each is a side of; -1 for that of a tree."""
        # Sides of a single leaf are -1: they write to the entry behind the last one, which is
        # dropped.
        parent = np.full(len(self.first) + 1, -1)
        parent[self.left] = parent[self.right] = np.arange(len(self.first))
        return parent[:-1]

    def codes(self, n_leaves: int) -> Ints:
        """Return the number of each leaf among those of its tree.

        A bit is set where the leaf lies before a split, the highest for the largest range.
        """
        bit = 1 << (self.bits - 1)
        change = np.zeros(n_leaves + 1, np.int64)
        # A difference array: one cumsum then adds each bit to all leaves from first to split.
        np.add.at(change, self.first, bit)
        np.subtract.at(change, self.split, bit)
        return np.cumsum(change)[:-1]


def split_leaves(forest: Forest) -> LeafSplits:
    """Split all trees of a forest, a level of ranges at a time.

    1. Between leaf ``p - 1`` and leaf p is one test, whose right subtree begins with leaf p.
    2. ``2 ** (b - 1)`` leaves at most may lie on either side, where b bits tell a range apart. Of
       such splits, that at the highest test takes the fewest others to decide.
    3. Sides of one leaf are done.
    """
    position = forest.leftmost(forest.right.data)  # 1
    test_before = np.full(forest.n_leaves + 1, -1)
    test_before[position] = np.arange(forest.n_tests)
    # Positions without a test before them are never the highest.
    depth = np.full(forest.n_leaves + 1, np.iinfo(np.int32).max)
    depth[position] = forest.depth_of_tests
    highest = _Highest(depth)
    bounds = forest.first_leaf.data.astype(np.int64)
    first, last, root = _without_single(bounds[:-1], bounds[1:], 0)
    levels = []
    count = len(first)
    while len(first):  # 2
        # frexp counts the bits of a number exactly, where log2 may round up to the next power.
        half = 1 << (np.frexp(last - first - 1)[1].astype(np.int64) - 1)
        split = highest.between(
            np.maximum(first + 1, last - half), np.minimum(last - 1, first + half)
        )
        starts = np.stack([first, split], axis=1).ravel()  # 3
        ends = np.stack([split, last], axis=1).ravel()
        side_first, side_last, sides = _without_single(starts, ends, count)
        levels.append((first, split, last, *sides.reshape(-1, 2).T))
        first = side_first
        last = side_last
        count += len(first)
    first, split, last, left, right = _join(levels)
    steps = _steps(forest, position, test_before, highest, (first, split, last))
    bits = _bits([len(level[0]) for level in levels], left, right)
    return LeafSplits(first, split, last, test_before[split], left, right, bits, root, *steps)


def _join(levels: list[tuple[Ints, ...]]) -> tuple[Ints, ...]:
    none = (np.zeros(0, np.int64),) * 5
    return tuple(np.concatenate(column) for column in zip(none, *levels, strict=True))


def _without_single(first: Ints, last: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Drop ranges of a single leaf, and number the others from ``count`` on."""
    kept = last - first > 1
    return first[kept], last[kept], np.where(kept, np.cumsum(kept) - 1 + count, -1)


def _bits(levels: list[int], left: Ints, right: Ints) -> Ints:
    """Count a range's bits: one more than the larger side has."""
    bits = np.zeros(len(left) + 1, np.int64)
    end = len(left)
    for size in reversed(levels):
        here = slice(end - size, end)
        # Index -1, a single leaf, reads the zero behind the last range.
        bits[here] = np.maximum(bits[left[here]], bits[right[here]]) + 1
        end -= size
    return bits[:-1]


def _steps(
    forest: Forest,
    position: Ints,
    test_before: Ints,
    highest: _Highest,
    ranges: tuple[Ints, Ints, Ints],
) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Climb from each split to the highest test inside the range.

    Tests outside the range have but one outcome for its leaves.
    """
    first, split, last = ranges
    above, from_left = forest.parents
    top = highest.between(first + 1, last - 1)
    at = split.copy()
    climbing = np.arange(len(split))
    steps = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))]
    while len(climbing := climbing[at[climbing] != top[climbing]]):
        below = test_before[at[climbing]]
        test = above[below]
        at[climbing] = position[test]
        inside = (position[test] > first[climbing]) & (position[test] < last[climbing])
        steps.append((climbing[inside], test[inside], ~from_left[below][inside]))
    of_range, tests, either = (np.concatenate(columns) for columns in zip(*steps, strict=True))
    order = np.argsort(of_range, kind="stable")
    return of_range[order], tests[order], either[order]


class _Highest:
    """Finds the position of least depth in a range, by a sparse table of powers of two."""

    def __init__(self, depth: npt.NDArray[Any]) -> None:
        self.depth = depth
        self.ranges = [np.arange(len(depth))]

    def between(self, low: Ints, high: Ints) -> Ints:
        """Return the position from low to high, both in the range."""
        # Two windows of the largest power of two in the range cover it; they may overlap.
        size = np.frexp(high - low + 1)[1].astype(np.int64) - 1
        while len(self.ranges) <= size.max(initial=0):
            self._double()
        ranges = np.stack(self.ranges)
        return self._higher(ranges[size, low], ranges[size, high + 1 - (1 << size)])

    def _double(self) -> None:
        shorter = self.ranges[-1]
        width = 1 << (len(self.ranges) - 1)
        next_to_it = np.minimum(np.arange(len(shorter)) + width, len(shorter) - 1)
        self.ranges.append(self._higher(shorter, shorter[next_to_it]))

    def _higher(self, some: Ints, others: Ints) -> Ints:
        return np.where(self.depth[others] < self.depth[some], others, some)
