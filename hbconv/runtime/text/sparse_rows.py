"""Sparse rows on the host: entries alone, row after row, padded as programs take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["EntryRows", "as_csr", "groups", "padded_size"]

Ints = npt.NDArray[np.integer[Any]]
SMALLEST, GROWTH = 16, 4
"""Rows are padded to 16 entries, or 64, or 256...: few programs, and few entries that only pad."""
FEW_ENTRIES = 1 << 14
"""Entries, padded, up to which rows are one group: they take 0.04 ms, and another group 0.5."""


@dataclass(frozen=True)
class EntryRows:
    """Sparse rows of ``width`` columns.

    Row i has the nonzeros from ``starts[i]`` to ``starts[i + 1]``: a token (column) and a weight.
    """

    starts: Ints
    tokens: Ints
    weights: npt.NDArray[Any]
    width: int

    @staticmethod
    def of_matrix(matrix: Any) -> EntryRows:
        """Read a scipy CSR matrix; entries that stand twice are added up."""
        if not matrix.has_canonical_format:
            # The user's matrix must stay as it is.
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return EntryRows(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1])

    @property
    def sizes(self) -> Ints:
        """Number of entries of each row."""
        return np.diff(self.starts)

    def part(self, rows: slice | Ints) -> EntryRows:
        """Return some of the rows."""
        first, sizes = self.starts[:-1][rows], self.sizes[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        # Entry by entry: where its row begins among all, less where it begins here.
        places = np.repeat(first - starts[:-1], sizes) + np.arange(starts[-1])
        return EntryRows(starts, self.tokens[places], self.weights[places], self.width)

    def padded(self, size: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
        """Return tokens and weights of shape (rows, size), padded with the token ``width``.

        Examples
        --------
        >>> rows = EntryRows(np.array([0, 2, 2]), np.array([1, 3]), np.array([0.5, 2.0]), 4)
        >>> rows.padded(3)[0].tolist()
        [[1, 3, 4], [4, 4, 4]]
        """
        if len(self.starts) == 2:
            return self._padded_row(size)
        # Padding has the token ``width``, one beyond the last column, and the weight 0.
        used = np.arange(size) < self.sizes[:, None]
        tokens, weights = (
            np.full(used.shape, self.width, np.int32),
            np.zeros(used.shape, self.weights.dtype),
        )
        tokens[used], weights[used] = self.tokens, self.weights
        return tokens, weights

    def csr(self) -> Any:
        """Return a scipy CSR matrix."""
        from scipy.sparse import csr_matrix

        return csr_matrix(
            (self.weights, self.tokens, self.starts), shape=(len(self.starts) - 1, self.width)
        )

    def dense(self) -> npt.NDArray[Any]:
        """Return an array of shape (rows, width)."""
        rows = len(self.starts) - 1
        values = np.zeros((rows, self.width), self.weights.dtype)
        values[np.repeat(np.arange(rows), self.sizes), self.tokens] = self.weights
        return values

    def _padded_row(self, size: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
        """Pad the one row, which needs no mask."""
        first, last = self.starts.tolist()
        tokens = np.full((1, size), self.width, np.int32)
        tokens[0, : last - first] = self.tokens[first:last]
        weights = np.zeros((1, size), self.weights.dtype)
        weights[0, : last - first] = self.weights[first:last]
        return tokens, weights


def padded_size(entries: int) -> int:
    """Return the size that a row of so many entries is padded to.

    Examples
    --------
    >>> padded_size(0), padded_size(16), padded_size(17)
    (16, 16, 64)
    """
    size = SMALLEST
    while size < entries:
        size *= GROWTH
    return size


def groups(sizes: Ints) -> Iterator[tuple[Ints, int]]:
    """Yield groups of rows of similar size, each with the size that its rows are padded to.

    No rows make one empty group, and few rows one, of the size of the longest.

    Examples
    --------
    >>> [(len(rows), size) for rows, size in groups(np.array([3, 40, 16]))]
    [(3, 64)]
    >>> [(len(rows), size) for rows, size in groups(np.array([3, 40, 16] * 999))]
    [(1998, 16), (999, 64)]
    """
    if not len(sizes):
        yield np.zeros(0, np.int64), SMALLEST
        return
    size = SMALLEST
    # Rows without entries are in the first group too.
    below = -1
    most = int(sizes.max())
    if len(sizes) * padded_size(most) <= FEW_ENTRIES:
        yield np.arange(len(sizes)), padded_size(most)
        return
    while below < most:
        rows = ((sizes > below) & (sizes <= size)).nonzero()[0]
        if len(rows):
            yield rows, size
        below = size
        size *= GROWTH


def as_csr(tokens: npt.NDArray[np.int32], weights: npt.NDArray[Any], width: int) -> Any:
    """Return padded rows as a scipy CSR matrix, tokens ascending."""
    from scipy.sparse import csr_matrix

    used = tokens < width
    starts = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    matrix = csr_matrix((weights[used], tokens[used], starts), shape=(len(tokens), width))
    # Programs write the tokens of a row in any order.
    matrix.sort_indices()
    return matrix
