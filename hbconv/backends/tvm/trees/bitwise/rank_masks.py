"""Masks of forests whose planes do not fit the cache: trees in parts, and thresholds by rank.

Trees that test other thresholds than each other need a plane for nearly each split. So the trees
are cut into parts. The splits of a part are decided, its trees add their leaves, and the planes of
the next part replace those of this one.

A column holds the rank of a value among all edges of a feature, in two bytes. A part has a plane
for each threshold that one of its trees tests, and for no other. A rank is read as digits, and
each digit has planes of what lies below each of its values. Those of a threshold's digits make its
plane: below in the highest digit, or not above there and below in the digits that follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import RANKS_PER_COLUMN, Bins
from hbconv.backends.tvm.trees.bitwise.masks import (
    ONES_PLANE,
    PLANE_WORD,
)
from hbconv.backends.tvm.trees.tree_order import NO_TREE, Trees
from hbconv.trees.forest import Forest

__all__ = ["RANK_BYTES", "RankMasks", "cut_trees"]

RANK_BYTES = 2
TWO_DIGITS_BITS = 12
"""Bits of a rank up to which it has two digits; the planes of longer ones take too long."""
MIN_DIGIT_BITS = 4
SPLITS_PER_COLUMN = 10
"""Splits that a part has at least for each column that it reads.

Making the planes of a column's digits takes as long as planes save for so many splits.
"""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RankMasks:
    """Where the outcomes of splits are, part by part.

    A reading is a column and a part that splits on it. Readings ascend by part, then by column.

    Parameters
    ----------
    part_of_group : int64 (n_groups,)
        Part of each group of trees.
    part, column : int64 (n_readings,)
    start : int64 (n_readings + 1,)
        First threshold of each reading, and their number.
    begin : int64 (n_parts + 1,)
        First threshold of each part.
    digit_bits : int
    words : uint16 (n_thresholds, n_digits)
        The planes of each threshold's digits, the highest first, counted by ``PLANE_WORD``.
    plane_of_test : int64 (n_tests,)
    """

    part_of_group: Ints
    part: Ints
    column: Ints
    start: Ints
    begin: Ints
    digit_bits: int
    words: npt.NDArray[np.uint16]
    plane_of_test: Ints

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.begin) - 1

    @property
    def count(self) -> int:
        """Number of planes: those of the largest part, which others replace."""
        return ONES_PLANE + 1 + int(np.diff(self.begin).max(initial=0))

    @property
    def first_set(self) -> int:
        """The plane behind those of thresholds; there are no category sets."""
        return self.count

    @property
    def n_digits(self) -> int:
        """Digits of a rank."""
        return int(self.words.shape[1])

    @property
    def planes_of_digit(self) -> int:
        """Planes of each digit: below each of its values, and below all of them."""
        return (1 << self.digit_bits) + 1

    def of_tests(self, bins: Bins) -> Ints:  # noqa: ARG002
        """Return the plane of each split."""
        return self.plane_of_test


def cut_trees(forest: Forest, trees: Trees, bins: Bins, most: int) -> RankMasks | None:
    """Cut trees into the fewest parts that have at most so many planes each.

    None where parts have few splits for each column, or category sets, which belong to no part.
    """
    n_groups = len(trees.order) // trees.group
    n_parts = max(1, -(-forest.n_tests // most))
    while n_parts <= n_groups and not forest.tables:
        masks = _make_masks(forest, trees, bins, np.arange(n_groups) * n_parts // n_groups)
        if len(masks.part) * SPLITS_PER_COLUMN > forest.n_tests:
            return None
        if masks.count <= most:
            return masks
        n_parts += 1 + n_parts // 8
    return None


def _make_masks(forest: Forest, trees: Trees, bins: Bins, part_of_group: Ints) -> RankMasks:
    """Count the thresholds of each part.

    1. One integer names a part, a column and a threshold, which sorts fast.
    2. A plane is what lies below the number behind a threshold's rank, as digits.
    3. Planes are counted from the first one of a part.
    """
    n_columns = max(1, len(bins.first))
    part = _part_of_trees(trees, part_of_group)[forest.tree_of_tests]
    key = (part * n_columns + bins.column) * (RANKS_PER_COLUMN + 1) + bins.threshold_bin  # 1
    keys, of_test = np.unique(key, return_inverse=True)
    reading, below = keys // (RANKS_PER_COLUMN + 1), keys % (RANKS_PER_COLUMN + 1) + 1
    readings, start = np.unique(reading, return_index=True)
    all_bits = min(int(bins.edge_count.max(initial=1)), RANKS_PER_COLUMN).bit_length()
    n_digits = 2 if all_bits <= TWO_DIGITS_BITS else 3
    bits = max(MIN_DIGIT_BITS, -(-all_bits // n_digits))
    digit = np.arange(n_digits)  # 2
    value = below[:, None] >> (n_digits - 1 - digit) * bits & (1 << bits) - 1
    words = (value + digit * ((1 << bits) + 1)) * PLANE_WORD
    n_parts = int(part_of_group.max(initial=0)) + 1
    begin = np.searchsorted(reading // n_columns, np.arange(n_parts + 1))  # 3
    return RankMasks(
        part_of_group=part_of_group,
        part=readings // n_columns,
        column=readings % n_columns,
        start=np.append(start, len(keys)),
        begin=begin,
        digit_bits=bits,
        words=words.astype(np.uint16),
        plane_of_test=ONES_PLANE + 1 + of_test - begin[part],
    )


def _part_of_trees(trees: Trees, part_of_group: Ints) -> Ints:
    real = trees.order != NO_TREE
    part = np.zeros(int(real.sum()), np.int64)
    part[trees.order[real]] = np.repeat(part_of_group, trees.group)[real]
    return part
