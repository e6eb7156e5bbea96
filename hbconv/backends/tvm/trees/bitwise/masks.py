"""Masks: the bit planes that hold the outcomes of all splits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.bitwise.windows import WINDOW_BITS
from hbconv.trees.ranked import EDGES_PER_COLUMN

__all__ = [
    "DIGIT",
    "DIGIT_BITS",
    "ONES_PLANE",
    "PLANE_ROWS",
    "PLANE_WORD",
    "WIDE_PLANE_ROWS",
    "ZEROS_PLANE",
    "ZERO_PLANES",
    "Masks",
    "make_masks",
]

PLANE_ROWS = 256
"""Rows of a plane, and of a block: a bit for each."""
WIDE_PLANE_ROWS = 512
"""Rows of a plane that fills a vector of 64 bytes, where a tile has so many."""
PLANE_WORD = 8
"""What tables count a plane as: addresses are 4 or 8 times a word, as processors fold."""
ZEROS_PLANE = 0
"""The plane of what lies before no split."""
ZERO_PLANES = WINDOW_BITS
"""Planes of zeros one after another, as wide as a missing part of a tree is."""
ONES_PLANE = ZERO_PLANES
"""The plane of what lies before any split."""
DIGIT_BITS = 4
DIGIT = 1 << DIGIT_BITS
"""Columns of more thresholds have as many planes as fill digits of so many."""

Ints = npt.NDArray[np.int64]


class Masks:
    """Where the outcomes of splits lie.

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
        below = np.append(self.start, 0)[column] + bins.threshold_bin + 1
        planes: Ints = np.where(bins.sets.of_test < 0, below, self.first_set + bins.sets.of_test)
        return planes


def make_masks(bins: Bins) -> Masks:
    """Count the bytes that are told apart in each column."""
    feature = np.repeat(np.arange(len(bins.feature)), np.diff(bins.column_start))
    largest = np.minimum(bins.edge_count[feature] - bins.first, EDGES_PER_COLUMN)
    return Masks(largest.astype(np.int64), bins.sets.count)
