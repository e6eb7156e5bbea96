"""Masks: the bit planes that hold the outcomes of all splits.

Those of thresholds are computed from bytes. Those of category sets are a program over planes: a
group has a plane for each class of codes, and each set is another one with a few classes more or
less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.trees.category_sets import CategorySets, SetGroup
from hbconv.trees.ranked import EDGES_PER_COLUMN

__all__ = [
    "DIGIT",
    "DIGIT_BITS",
    "ONES_PLANE",
    "PLANE_ROWS",
    "PLANE_WORD",
    "WIDE_PLANE_ROWS",
    "WINDOW_BITS",
    "WORDS_PER_STEP",
    "ZEROS_PLANE",
    "ZERO_PLANES",
    "Masks",
    "SetTables",
    "make_masks",
    "make_set_tables",
]

PLANE_ROWS = 256
"""Rows of a plane, and of a block: a bit for each."""
WIDE_PLANE_ROWS = 512
"""Rows of a plane that fills a vector of 64 bytes, where the tile has as many."""
# Counted so, words of 16 bits reach 8,191 planes.
PLANE_WORD = 8
"""What tables count a plane as: addresses are 4 or 8 times a word, as processors fold."""
ZEROS_PLANE = 0
"""The plane of what lies before no split."""
WINDOW_BITS = 5
"""Bits of a window up to which its planes stay in registers."""
ZERO_PLANES = WINDOW_BITS
"""Planes of zeros one after another, as wide as a missing part of a tree is."""
ONES_PLANE = ZERO_PLANES
"""The plane of what lies before any split."""
DIGIT_BITS = 4
DIGIT = 1 << DIGIT_BITS
"""Planes of a digit: columns of more thresholds have planes for whole digits."""

Ints = npt.NDArray[np.int64]
CLASSES_PER_STEP = 3
"""Classes that one step adds to a set or takes from it."""
WORDS_PER_STEP = 2 + CLASSES_PER_STEP


class Masks:
    """Where the outcomes of splits are.

    A plane has a bit for each row of a block. Bit q of byte j is that of row ``j + q * n``, where n
    is the bytes of a plane. So eight planes, transposed bit by bit, are the rows' bytes in order.
    Plane ``start + t`` of a column holds whether its byte is below t.

    Parameters
    ----------
    largest : int64 (n_columns,)
        The largest byte that is told apart.
    n_sets : int
        Number of category sets.

    Attributes
    ----------
    bits : int64 (n_columns,)
        Of the largest byte.
    start : int64 (n_columns + 1,)
        The first plane of each column, which is all zeros.
    first_set : int
        The first plane of those of the sets.
    """

    def __init__(self, largest: Ints, n_sets: int) -> None:
        self.bits = np.frexp(largest)[1].astype(np.int64)
        digits = largest // DIGIT + 1
        # Few bits are doubled bit by bit; more are joined of two digits, whose planes come in whole
        # digits.
        planes = np.where(self.bits > DIGIT_BITS, digits * DIGIT, 1 << self.bits)
        self.start = np.cumsum(np.append(ONES_PLANE + 1, planes))
        self.first_set = int(self.start[-1])
        self.count = self.first_set + n_sets

    @property
    def digits(self) -> Ints:
        """Number of digits that the planes of each column fill."""
        return np.diff(self.start) // DIGIT

    def of_tests(self, bins: Bins) -> Ints:
        """Return the plane of each split."""
        column = np.minimum(bins.column, len(self.bits))
        # Plane t holds "below t", and a row goes left where its byte does not exceed the threshold.
        below = np.append(self.start, 0)[column] + bins.threshold_bin + 1
        planes: Ints = np.where(bins.sets.of_test < 0, below, self.first_set + bins.sets.of_test)
        return planes


def make_masks(bins: Bins) -> Masks:
    """Count the bytes that are told apart in each column."""
    feature = np.repeat(np.arange(len(bins.feature)), np.diff(bins.column_start))
    # A column tells 255 edges apart, the last column of a feature those that are left.
    largest = np.minimum(bins.edge_count[feature] - bins.first, EDGES_PER_COLUMN)
    return Masks(largest.astype(np.int64), bins.sets.count)


@dataclass(frozen=True, eq=False)
class SetTables:
    """Sets as a program over planes.

    Parameters
    ----------
    bits : int32 (n_groups,)
        How many tell the classes of a group apart.
    words : int32 (n_steps, WORDS_PER_STEP)
        The result's plane, then what is combined by exclusive or: a plane that has been written,
        and planes of classes. Words count planes by ``PLANE_WORD``.
    step_start : int32 (n_groups + 1,)
        First step of each group.
    classes : int
        The word of the first plane of a group's classes; they replace those of the group before.
    """

    bits: npt.NDArray[np.int32]
    words: npt.NDArray[np.int32]
    step_start: npt.NDArray[np.int32]
    classes: int

    @property
    def max_class_planes(self) -> int:
        """Planes of classes that memory is needed for."""
        return 1 << int(self.bits.max(initial=0)) if len(self.bits) else 0


def make_set_tables(sets: CategorySets, first: int) -> SetTables:
    """Write the program of sets whose planes begin at plane ``first``.

    Plane 0 is zeros, and classes come after the sets.
    """
    classes = first + sets.count
    steps = [
        _steps(group, int(start) + first, classes)
        for group, start in zip(sets.groups, sets.start[:-1], strict=True)
    ]
    words = np.concatenate([np.zeros((0, WORDS_PER_STEP), np.int64), *steps])
    return SetTables(
        bits=np.array([(len(group.goes_left) - 1).bit_length() for group in sets.groups], np.int32),
        words=(words * PLANE_WORD).astype(np.int32),
        step_start=np.cumsum([0, *map(len, steps)], dtype=np.int32),
        classes=classes * PLANE_WORD,
    )


def _steps(group: SetGroup, first: int, classes: int) -> Ints:
    """Write the steps of a group.

    1. Each set begins as the one that differs from it by the fewest classes, or as the empty one.
    2. Those classes are its terms, a few for each step; a set that differs by none takes one step.
    3. The first step of a set reads the set that it begins as; later steps read its own plane.
    """
    order, nearest = _span(group.goes_left)  # 1
    empty = np.zeros((len(group.goes_left), 1), bool)
    goes_left = np.concatenate([group.goes_left, empty], axis=1)
    rows, terms = np.nonzero((goes_left[:, order] ^ goes_left[:, nearest]).T)
    count = np.bincount(rows, minlength=len(order))  # 2
    turn = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    # A set equal to another one is still a plane of its own, so it takes a step.
    needed = np.maximum(1, -(-count // CLASSES_PER_STEP))
    begin = np.cumsum(needed) - needed
    words = np.zeros((int(needed.sum()), WORDS_PER_STEP), np.int64)  # 3
    words[:, :2] = np.repeat(first + order, needed)[:, None]
    words[begin, 1] = np.where(nearest < len(order), first + nearest, 0)
    words[begin[rows] + turn // CLASSES_PER_STEP, 2 + turn % CLASSES_PER_STEP] = classes + terms
    return words


def _span(goes_left: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return an order of the sets, and for each the one before it that it differs from least.

    The number of sets denotes the empty set. This is a shortest spanning tree (Prim, 1957).

    1. Sets a and b differ by ``|a| + |b| - 2 |a and b|`` classes.
    2. Each turn adds the waiting set that is nearest to one in the tree.
    3. The others may be nearer to the one that was added.
    """
    size = goes_left.sum(axis=0)
    # BLAS multiplies floats only; counts below 2**24 are exact in float32.
    members = goes_left.astype(np.float32)
    n_sets = goes_left.shape[1]
    apart = size[:, None] + size - 2 * (members.T @ members).astype(np.int64)  # 1
    distance = size.astype(np.float64)
    nearest = np.full(n_sets, n_sets)
    waiting = np.ones(n_sets, bool)
    order = np.empty(n_sets, np.int64)
    for turn in range(n_sets):
        added = int(np.argmin(distance))  # 2
        order[turn] = added
        waiting[added] = False
        # Sets in the tree are never the nearest again.
        distance[added] = np.inf
        closer = waiting & (apart[added] < distance)  # 3
        distance[closer] = apart[added][closer]
        nearest[closer] = added
    return order, nearest[order]
