"""Cuts: trees of any shape halved by their leaves, so that few bits tell the leaves of one apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.forest import Forest

__all__ = ["Cuts", "cut_trees"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cuts:
    """Windows of neighbouring leaves, each cut in two until single leaves are left.

    Two neighbouring leaves are told apart by one test, that of the smallest subtree with both. A row lies before the cut between them if it goes left
    there, unless it turns elsewhere above: then where it turns decides. A window is cut where it takes the fewest tests to decide, in such a way
    that of its leaves, of which b bits tell at most 2^b apart, b - 1 bits tell those on either side.

    Parameters
    ----------
    first, cut, last : int64 (n,)
        First leaf of a window, the first one after the cut, and the first one past the window. The trees' own windows come first.
    test : int64 (n,)
        The test at the cut.
    left, right : int64 (n,)
        The windows before and after the cut; -1 for a single leaf.
    bits : int64 (n,)
        How many tell its leaves apart.
    root : int64 (n_trees,)
        Window of a tree; -1 for one of a single leaf.
    step_window, step_test, step_either : int64, int64, bool (n_steps,)
        What decides a cut beside the test there, upwards from it, window after window: a row lies before the cut if it goes left at
        the step's test and what is decided so far says so, or, where ``step_either``, if one of them does.
    """

    first: Ints
    cut: Ints
    last: Ints
    test: Ints
    left: Ints
    right: Ints
    bits: Ints
    root: Ints
    step_window: Ints
    step_test: Ints
    step_either: npt.NDArray[np.bool_]

    @cached_property
    def parent(self) -> Ints:
        """The window that each is a side of; -1 for that of a tree."""
        parent = np.full(len(self.first) + 1, -1)
        parent[self.left] = parent[self.right] = np.arange(len(self.first))
        return parent[:-1]

    def codes(self, leaves: int) -> Ints:
        """Return the number of each leaf among those of its tree: a bit is set where it lies before a cut, the highest for the largest window."""
        bit, change = 1 << (self.bits - 1), np.zeros(leaves + 1, np.int64)
        np.add.at(change, self.first, bit)
        np.subtract.at(change, self.cut, bit)
        return np.cumsum(change)[:-1]


def cut_trees(forest: Forest) -> Cuts:
    """Cut all trees of a forest, a level of windows at a time."""
    place = forest.leftmost(forest.right.data)
    between, depth = (
        np.full(forest.n_leaves + 1, -1),
        np.full(forest.n_leaves + 1, np.iinfo(np.int32).max),
    )
    between[place], depth[place] = np.arange(forest.n_tests), forest.depth_of_tests
    highest = _Highest(depth)
    bounds = forest.first_leaf.data.astype(np.int64)
    first, last, root = _kept(bounds[:-1], bounds[1:], 0)
    levels, count = [], len(first)
    while len(first):
        half = 1 << (np.frexp(last - first - 1)[1].astype(np.int64) - 1)
        cut = highest.between(
            np.maximum(first + 1, last - half), np.minimum(last - 1, first + half)
        )
        sides = _kept(np.stack([first, cut], 1).ravel(), np.stack([cut, last], 1).ravel(), count)
        levels.append((first, cut, last, *sides[2].reshape(-1, 2).T))
        first, last = sides[:2]
        count += len(first)
    first, cut, last, left, right = (
        (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in zip(*levels, strict=True))
        if levels
        else _NONE
    )
    bits = _bits([len(level[0]) for level in levels], left, right)
    steps = _steps(forest, place, between, highest, (first, cut, last))
    return Cuts(first, cut, last, between[cut], left, right, bits, root, *steps)


_NONE = (np.zeros(0, np.int64),) * 5


def _kept(first: Ints, last: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Drop single leaves, and number the others from ``count`` on."""
    kept = last - first > 1
    return first[kept], last[kept], np.where(kept, np.cumsum(kept) - 1 + count, -1)


def _bits(levels: list[int], left: Ints, right: Ints) -> Ints:
    """Count a window's bits: one more than the larger side has."""
    bits = np.zeros(len(left) + 1, np.int64)
    end = len(left)
    for size in reversed(levels):
        here = slice(end - size, end)
        bits[here] = np.maximum(bits[left[here]], bits[right[here]]) + 1
        end -= size
    return bits[:-1]


def _steps(
    forest: Forest, place: Ints, between: Ints, highest: _Highest, windows: tuple[Ints, Ints, Ints]
) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Climb from each cut to the highest test inside the window; tests outside it have but one outcome for its leaves."""
    (first, cut, last), (above, from_left) = windows, _parents(forest)
    top, at, climbing = highest.between(first + 1, last - 1), cut.copy(), np.arange(len(cut))
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))]
    while len(climbing := climbing[at[climbing] != top[climbing]]):
        below = between[at[climbing]]
        test = above[below]
        at[climbing] = place[test]
        inside = (place[test] > first[climbing]) & (place[test] < last[climbing])
        found.append((climbing[inside], test[inside], ~from_left[below][inside]))
    window, tests, either = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(window, kind="stable")
    return window[order], tests[order], either[order]


def _parents(forest: Forest) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the test above each test, and whether it hangs left of that."""
    above, from_left = np.full(forest.n_tests, -1), np.zeros(forest.n_tests, bool)
    for children, is_left in ((forest.left.data, True), (forest.right.data, False)):
        inner = np.flatnonzero(children >= 0)
        above[children[inner]], from_left[children[inner]] = inner, is_left
    return above, from_left


class _Highest:
    """Finds the place of least depth in a range, by ranges of a power of two that begin anywhere."""

    def __init__(self, depth: npt.NDArray[Any]) -> None:
        self.depth, self.ranges = depth, [np.arange(len(depth))]

    def between(self, low: Ints, high: Ints) -> Ints:
        """Return the place from low to high, both in the range."""
        size = np.frexp(high - low + 1)[1].astype(np.int64) - 1
        while len(self.ranges) <= size.max(initial=0):
            shorter, width = self.ranges[-1], 1 << (len(self.ranges) - 1)
            self.ranges.append(
                self._higher(
                    shorter, shorter[np.minimum(np.arange(len(shorter)) + width, len(shorter) - 1)]
                )
            )
        ranges = np.stack(self.ranges)
        return self._higher(ranges[size, low], ranges[size, high + 1 - (1 << size)])

    def _higher(self, some: Ints, others: Ints) -> Ints:
        return np.where(self.depth[others] < self.depth[some], others, some)
