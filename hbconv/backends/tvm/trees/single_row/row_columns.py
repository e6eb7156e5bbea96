"""The columns of one row: bytes that the tests ask for, arranged so that as few as can be are looked up in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import Bins

__all__ = ["RowColumns", "owners"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowColumns:
    """The columns of a row: first those that differ where no value is NaN, then twins, each like one of these but for the direction of NaN.

    Parameters
    ----------
    bins : Bins
    order : int64 (n_columns,)
        Columns of the bins, in the order in which they stand in a row.
    n_plain : int
        How many are no twins.
    """

    bins: Bins
    order: Ints
    n_plain: int

    @staticmethod
    def of(bins: Bins) -> RowColumns:
        """Put twins last."""
        owner = owners(bins)
        twin = np.zeros(bins.columns, bool)
        twin[1 : len(owner)] = (np.diff(owner) == 0) & (np.diff(bins.first) == 0)
        return RowColumns(bins, np.argsort(twin, kind="stable"), int((~twin).sum()))

    @property
    def place(self) -> Ints:
        """Where each column of the bins stands."""
        return np.argsort(self.order)

    @property
    def plain(self) -> Ints:
        """Where each column of the bins stands, or the one whose twin it is."""
        return np.where(self.place < self.n_plain, self.place, np.roll(self.place, 1))


def owners(bins: Bins) -> Ints:
    """Return the feature, by its place among those binned, of each column but those of tables."""
    return np.repeat(np.arange(len(bins.feature)), np.diff(bins.column_start))
