"""Chunks: trees in runs that read no more columns than a block has room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ColumnChunks", "chunk_columns"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ColumnChunks:
    """Chunks of trees, in the trees' order, so that sums are added in theirs.

    A block reads the columns of a chunk once, then goes through its trees.

    Parameters
    ----------
    end : int32 (n_chunks,)
        The tree behind each chunk.
    first : int32 (n_chunks + 1,)
        Place in ``column`` of the first of each.
    column : int32 (n_picked,)
        Columns of one chunk after another.
    place : int64 (n_reads,)
        Each read's column, counted within its chunk.
    """

    end: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    column: npt.NDArray[np.int32]
    place: Ints

    @property
    def widest(self) -> int:
        """The most columns of a chunk."""
        return int(np.diff(self.first).max())

    def tables(self) -> dict[str, npt.NDArray[Any]]:
        """Return the tables that kernels read."""
        return {"chunk_end": self.end, "first_picked": self.first, "picked": self.column}


def chunk_columns(
    tree: Ints, column: Ints, n_trees: int, n_columns: int, room: int
) -> ColumnChunks | None:
    """Make as few chunks as possible; None if a tree alone reads more columns than there is room.

    Parameters
    ----------
    tree, column : int64 (n_reads,)
        What is read, tree after tree.
    n_trees, n_columns, room : int

    Examples
    --------
    >>> found = chunk_columns(np.array([0, 1, 1, 2]), np.array([7, 7, 3, 5]), 3, 9, 2)
    >>> found.end.tolist(), found.first.tolist(), found.column.tolist(), found.place.tolist()
    ([2, 3], [0, 2, 3], [3, 7, 5], [1, 1, 0, 0])
    """
    if n_columns <= room:
        every = np.arange(n_columns, dtype=np.int32)
        return ColumnChunks(
            np.array([n_trees], np.int32), np.array([0, n_columns], np.int32), every, column
        )
    end = _ends(tree, column, n_trees, n_columns, room)
    if end is None:
        return None
    chunk = np.searchsorted(end, tree, side="right")
    picked, place = np.unique(chunk * n_columns + column, return_inverse=True)
    first = np.searchsorted(picked, np.arange(len(end) + 1) * n_columns)
    return ColumnChunks(
        end, first.astype(np.int32), (picked % n_columns).astype(np.int32), place - first[chunk]
    )


def _ends(
    tree: Ints, column: Ints, n_trees: int, n_columns: int, room: int
) -> npt.NDArray[np.int32] | None:
    """Let a chunk go on for as long as there is room for the columns of one more tree."""
    pairs = np.unique(tree * n_columns + column)
    starts = np.searchsorted(pairs, np.arange(1, n_trees) * n_columns)
    ends: list[int] = []
    held: set[int] = set()
    for number, own in enumerate(np.split(pairs % n_columns, starts)):
        held = held.union(own.tolist())
        if len(held) > room:
            if len(own) > room:
                return None
            ends.append(number)
            held = set(own.tolist())
    return np.array([*ends, n_trees], np.int32)
