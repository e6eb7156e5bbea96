"""How a source computes what its search for neighbours compares, where rounding decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from hbconv.array import Array

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Formula", "Rows", "is_searched_by_heap"]

Rows = npt.NDArray[Any]


def is_searched_by_heap(dtype: str, points: Array) -> bool:
    """Whether scikit-learn's heap takes rows of a dtype: it takes floats of the points' own."""
    return dtype == points.dtype and dtype in ("float32", "float64")


@dataclass(frozen=True)
class Formula(ABC):
    """Entries of rows: what grows with the distance to each point, as the source rounds it.

    Programs compute entries their own way. Where two differ by no more than the rounding of both
    ways, the host computes them by the formula.

    Parameters
    ----------
    points : Array of floats, shape (n_points, width)
    of : Array of int64, optional
        Positions of the points that are entries, if not all are.
    """

    points: Array
    of: Array | None = None

    def misfit(self, entries: int, width: int) -> str | None:
        """Return why these are not so many entries of so wide rows; None where they are."""
        places = self.of is None or self.of.are_places(len(self.points))
        if places and (len(self.of or self.points), self.points.shape[1]) == (entries, width):
            return None
        return f"distances over {width} columns to {self.points.shape} points"

    def for_dtype(self, dtype: str) -> Formula | None:  # noqa: ARG002
        """Return the formula of rows of a dtype; None where programs compute as the source does."""
        return self

    def rounds(self, rows: Rows) -> bool:  # noqa: ARG002
        """Whether entries of any of these rows may be rounded."""
        return True

    def is_narrow(self, dtype: str) -> bool:
        """Whether rows of a dtype and the points are both float32."""
        return dtype == self.points.dtype == "float32"

    @abstractmethod
    def entries(self, rows: Rows, batch: int) -> Rows:
        """Compute what the source's search compares, of all points.

        Parameters
        ----------
        rows : ndarray, shape (n_rows, width)
        batch : int
            Rows of the whole call.

        Returns
        -------
        ndarray of floats, shape (n_rows, n_points)
            Of the dtype that is compared.
        """

    def scaled(self, b: Builder, entries: Value) -> Value:  # noqa: ARG002
        """Return entries that a program has, in the unit of the margin."""
        return entries

    @abstractmethod
    def margin(self, b: Builder, rows: Value, entries: Value) -> Value:
        """Bound how much entries, so scaled, may come nearer to smaller ones, or farther.

        Parameters
        ----------
        rows : Value, shape (width,)
        entries : Value of float64, shape (listed,)

        Returns
        -------
        Value of float64, shape (1,) or that of the entries
        """
