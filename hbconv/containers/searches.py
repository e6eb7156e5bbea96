"""How a source chooses among fitted rows that are equally near: its search.

Each search is deterministic, so its choice follows from its steps alone. Programs order such rows
by position; ``hbconv.runtime.tied_rows`` calls these for the rows in which that matters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hbconv.array import Array

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "HeapSearch",
    "NearestSearch",
    "PartitionSearch",
    "TreeSearch",
    "WrittenSearch",
    "are_often_tied",
]

Entries = npt.NDArray[np.floating]
Positions = npt.NDArray[np.int32]

CHUNK = 256
"""Fitted rows that scikit-learn compares at once."""


def are_often_tied(points: npt.NDArray[np.floating]) -> bool:
    """Whether points repeat the values of their columns, so that rows are as far from several.

    A column does if it has half as many values as points. Where values are missing, all but one
    need to: rows that lack that one are compared by the others.

    Examples
    --------
    >>> are_often_tied(np.array([[1.0, 0.5], [2.0, 0.25], [1.0, 0.125], [2.0, 1.0]]))
    False
    >>> are_often_tied(np.array([[1.0, 0.5], [2.0, 0.25], [1.0, 0.25], [2.0, 0.5]]))
    True
    """
    present = [column[~np.isnan(column)] for column in points.T]
    # A single value repeats nothing; two rows of one value are a tie in that column.
    repeats = [1 < len(values) >= 2 * len(np.unique(values)) for values in present]
    return any(repeats) and repeats.count(False) <= int(np.isnan(points).any())


class NearestSearch:
    """What finds the nearest of the fitted rows."""

    def for_dtype(self, dtype: str) -> NearestSearch:  # noqa: ARG002
        """Return the search that rows of a dtype get."""
        return self

    def misfit(self, width: int, bounds: Sequence[int]) -> str | None:  # noqa: ARG002
        """Return why it does not fit that many rows and bounds that wide; None where it does."""
        return None


@dataclass(frozen=True)
class PartitionSearch(NearestSearch):
    """numpy's ``argpartition``, whose choice depends on the processor, then its ``argsort``."""

    def choose(self, entries: Entries, count: int) -> Positions:
        """Choose the nearest fitted rows of each row, the nearest first.

        Parameters
        ----------
        entries : ndarray, shape (n_rows, n_fitted)
            What grows with the distance.
        count : int
            How many are chosen.
        """
        # argpartition alone leaves the chosen unordered, and
        # its choice among equal entries is the source's.
        chosen = np.argpartition(entries, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(entries, chosen, axis=1))
        return np.take_along_axis(chosen, order, axis=1).astype(np.int32)


class WrittenSearch(NearestSearch, ABC):
    """A search that programs make."""

    def is_shared(self, width: int, batch: int) -> bool:  # noqa: ARG002
        """Whether threads share ``width`` fitted rows out in a call of ``batch`` rows."""
        return False

    @abstractmethod
    def write(
        self, b: Builder, entries: Value, bounds: Sequence[Value], count: int, *, shared: bool
    ) -> Value:
        """Write the positions of the nearest fitted rows of each row, the nearest first.

        Parameters
        ----------
        entries : Value, shape (n_fitted,)
            What grows with the distance.
        bounds : sequence of Value
            What else the search reads of each row.
        count : int
            How many are chosen.
        shared : bool
            Threads share the fitted rows out.
        """


@dataclass(frozen=True)
class HeapSearch(WrittenSearch):
    """scikit-learn's ArgKmin: a heap takes the fitted rows in their order.

    Parameters
    ----------
    dtype : str
        Of the fitted rows: it partitions the distances of rows of another dtype. ``"float"`` stands
        for float32 and float64, where the source makes one dtype of both sides.
    threads : int
        If the rows of a call are few, each thread takes a part of the fitted rows, and a heap takes
        what theirs hold.
    """

    dtype: str
    threads: int

    def for_dtype(self, dtype: str) -> NearestSearch:
        return self if self.dtype in (dtype, "float") else PartitionSearch()

    def misfit(self, width: int, bounds: Sequence[int]) -> str | None:  # noqa: ARG002
        return None if self.threads > 0 else f"{self.threads} threads"

    def is_shared(self, width: int, batch: int) -> bool:
        # scikit-learn's heuristic of ``parallel_on_Y``: few rows, fewer than fitted ones, leave
        # threads to the fitted rows.
        return batch <= min(width, 4 * CHUNK * self.threads)

    def write(
        self,
        b: Builder,
        entries: Value,
        bounds: Sequence[Value],  # noqa: ARG002
        count: int,
        *,
        shared: bool,
    ) -> Value:
        parts = self._parts(entries.shape[0]) if shared else ()
        return b.op("heap_search", entries, k=count, parts=parts)

    def _parts(self, width: int) -> tuple[tuple[int, int], ...]:
        """Share the chunks out among threads as OpenMP does: the first get one more."""
        chunks = -(-width // CHUNK)
        threads = min(self.threads, chunks)
        least, more = divmod(chunks, threads)
        # OpenMP's static schedule: the first threads take one chunk more each.
        ends = np.cumsum([least + (thread < more) for thread in range(threads)]) * CHUNK
        starts = [0, *ends[:-1].tolist()]
        return tuple(zip(starts, np.minimum(ends, width).tolist(), strict=True))


@dataclass(frozen=True)
class TreeSearch(WrittenSearch):
    """scikit-learn's trees: a heap takes the leaves depth first, the nearer side first.

    The bounds are the least entry that each node may hold. Node i has the sides 2 i + 1 and
    2 i + 2, and all leaves are on the last level.

    Parameters
    ----------
    order : Array of int64, shape (n_fitted,)
        The fitted rows as the leaves hold them, from left to right.
    starts : Array of int64, shape (n_leaves + 1,)
        Where each leaf begins, and the end of the last.
    prunes : bool
        Bounds have the unit of entries, so that a node beyond all that the heap holds is left out.
    """

    order: Array
    starts: Array
    prunes: bool

    def misfit(self, width: int, bounds: Sequence[int]) -> str | None:
        leaves = len(self.starts) - 1
        # A full tree has a power of two of leaves, and one node less above them.
        if leaves < 1 or leaves & (leaves - 1) or tuple(bounds) != (2 * leaves - 1,):
            return f"{leaves} leaves, and bounds of {tuple(bounds)} nodes"
        # The compiled search reads entries at these positions without a check of its own.
        if not np.array_equal(np.sort(self.order.data), np.arange(width)):
            return f"leaves that do not hold each of {width} rows once"
        starts = self.starts
        if starts[0] != 0 or starts[-1] != width or not starts.ascends:
            return "leaves that do not follow one another"
        return None

    def write(
        self,
        b: Builder,
        entries: Value,
        bounds: Sequence[Value],
        count: int,
        *,
        shared: bool,  # noqa: ARG002
    ) -> Value:
        (nearest,) = bounds
        order, starts = (b.constant(of, "int32") for of in (self.order, self.starts))
        nearest = b.cast(nearest, entries.dtype)
        return b.op("tree_search", entries, nearest, order, starts, k=count, prunes=self.prunes)
