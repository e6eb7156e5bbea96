"""Masks: the bit planes that hold the outcomes of all splits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import THRESHOLDS_PER_COLUMN, Bins

__all__ = ["PLANE_BYTES", "PLANE_ROWS", "Masks", "make_masks"]

PLANE_ROWS = 256
"""Rows of a plane, and of a block: a bit for each."""
PLANE_BYTES = 32
"""Bytes of a plane.

Bit q of byte j is that of row ``32 q + j``. So eight planes, transposed bit by bit, are the rows'
bytes in order.
"""

Ints = npt.NDArray[np.int64]


class Masks:
    """Where the outcomes of splits lie.

    A column of ``bits`` bits has ``2 ** bits`` planes: ``start + t`` holds whether its byte is
    below t.

    Parameters
    ----------
    bits : int64 (n_columns,)
    n_sets : int
        Number of category sets.

    Attributes
    ----------
    start : int64 (n_columns + 1,)
        The first plane of each column. It is all zeros, as plane 0 is where there are no columns.
    first_set : int
        The first plane of those of the sets.
    """

    def __init__(self, bits: Ints, n_sets: int) -> None:
        self.bits = bits
        self.start = np.cumsum(np.append(0, 1 << bits))
        self.first_set = max(1, int(self.start[-1]))
        self.count = self.first_set + n_sets

    def of_tests(self, bins: Bins) -> Ints:
        """Return the plane of each split."""
        column = np.minimum(bins.column, len(self.bits))
        below = np.append(self.start, 0)[column] + bins.threshold_bin + 1
        planes: Ints = np.where(bins.sets.of_test < 0, below, self.first_set + bins.sets.of_test)
        return planes


def make_masks(bins: Bins) -> Masks:
    """Count the bits of the largest byte in each column."""
    feature = np.repeat(np.arange(len(bins.feature)), np.diff(bins.column_start))
    largest = np.minimum(bins.edge_count[feature] - bins.first, THRESHOLDS_PER_COLUMN)
    return Masks(np.frexp(largest)[1].astype(np.int64), bins.sets.count)
