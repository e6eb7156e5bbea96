"""The columns of one row: bytes that the splits ask for, arranged for few look-ups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.ops.edge_search import Cells, find_cells
from hbconv.backends.tvm.trees.bins.tables import SIGNED_BYTE_BIAS, Bins
from hbconv.trees.ranked import EDGES_PER_COLUMN

__all__ = ["RowColumns"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowColumns:
    """The columns of a row: plain ones, then twins.

    A twin is like a plain column but for the side that NaN takes, so that a row without NaN needs
    no twins.

    Parameters
    ----------
    bins : Bins
    order : int64 (n_columns,)
        Columns of the bins, in the order in which they stand in a row.
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
        is_twin[1 : len(feature)] = (np.diff(feature) == 0) & (np.diff(bins.first) == 0)
        return RowColumns(bins, np.argsort(is_twin, kind="stable"), int((~is_twin).sum()))

    @property
    def place(self) -> Ints:
        """Where each column of the bins stands."""
        return np.argsort(self.order)

    @property
    def plain(self) -> Ints:
        """Where each column of the bins stands, or the one whose twin it is."""
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
