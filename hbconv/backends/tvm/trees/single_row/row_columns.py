"""The bytes that one row becomes, in columns arranged for few look-ups.

Splits look their columns up in registers: a byte for each of many trees. A table of a look-up has
16 columns, or 64 with wide vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.ops.edge_search import Cells, find_cells
from hbconv.backends.tvm.trees.bins.tables import SIGNED_BYTE_BIAS, Bins
from hbconv.trees.ranked import EDGES_PER_COLUMN

__all__ = ["TO_SECOND", "RowColumns", "columns_of_table", "look_up_indices", "trees_per_vector"]

Ints = npt.NDArray[np.int64]
COLUMNS_OF_SHUFFLE = 16
TO_SECOND = 16
"""Added to an index of a pair of tables, it gives that of the second one."""
OF_FIRST = 0x70
OF_SECOND = 0xF0
OF_NEITHER = 0x80
"""Highest bits of such an index. A shuffle looks up by the lowest four, but gives zero where the
highest is set: of the first table those of the second, and after the addition those of the first.
"""


def trees_per_vector(machine: Machine) -> int:
    """Return how many trees a vector holds a byte of: as many as a shuffle looks up."""
    return 64 if machine.wide_byte_shuffles else 32


def columns_of_table(machine: Machine) -> int:
    """Return how many columns of a row are one table of a look-up."""
    return 64 if machine.wide_byte_shuffles else COLUMNS_OF_SHUFFLE


def look_up_indices(columns: Ints, n_columns: int, machine: Machine) -> npt.NDArray[np.uint8]:
    """Return where each look-up finds some of a row's columns: uint8 (n_slots, n_indices, n_trees).

    A wide shuffle searches all tables by one index. Others search one table each, a pair of them
    by one index, and give zero where the column is in another.
    """
    if machine.wide_byte_shuffles:
        return columns[:, np.newaxis].astype(np.uint8)
    # Tables of 500 trees come from the second-level cache, so an index for each would cost more
    # than the addition.
    half, index = np.divmod(columns, COLUMNS_OF_SHUFFLE)
    pairs = np.arange(-(-n_columns // (2 * COLUMNS_OF_SHUFFLE)))[:, np.newaxis]
    half = half[:, np.newaxis] - 2 * pairs
    bits = np.select([half == 0, half == 1], [OF_FIRST, OF_SECOND], OF_NEITHER)
    return (bits + index[:, np.newaxis]).astype(np.uint8)


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
