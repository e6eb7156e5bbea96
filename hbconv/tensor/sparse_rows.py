"""SparseRows: a value under construction that holds the nonzeros of its rows alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.tensor.builder import Builder, Value

__all__ = ["SparseRows"]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of ``width`` columns, as the columns of nonzeros (tokens) and their values (weights).

    Parameters
    ----------
    tokens : Value of int32, shape (n_rows, m)
        Column of each nonzero. A row of fewer than m is padded with ``width``, which is no column.
    weights : Value, shape (n_rows, m)
        Zero for padding.
    width : int
        Number of columns.
    """

    tokens: Value
    weights: Value
    width: int

    @property
    def dtype(self) -> str:
        """Dtype of the weights."""
        return self.weights.dtype

    def with_weights(self, weights: Value) -> SparseRows:
        """Return rows with other values in the same columns."""
        return replace(self, weights=weights)

    def at_tokens(
        self, b: Builder, columns: npt.NDArray[Any], none: float, dtype: str | None = None
    ) -> Value:
        """Read one constant for each nonzero from a vector over the columns.

        Padding reads ``none``.
        """
        table = np.append(columns, np.asarray(none, columns.dtype))
        return b.lookup(b.constant(table, dtype), self.tokens)

    def selected(self, b: Builder, columns: npt.NDArray[np.integer[Any]]) -> SparseRows | None:
        """Select columns: renumber their nonzeros, and turn all others into padding.

        Return None if a column is selected twice.
        """
        width = len(columns)
        if len(np.unique(columns)) < width:
            return None
        names = np.full(self.width + 1, width, np.int32)
        names[columns] = np.arange(width)
        tokens = b.lookup(b.constant(names), self.tokens)
        padding = b.op("eq", tokens, b.constant(width, "int32"))
        weights = b.where(padding, b.constant(0, self.dtype), self.weights)
        return SparseRows(tokens, weights, width)

    def written_out(self, b: Builder) -> Value:
        """Return the dense rows."""
        return b.op("scatter", self.tokens, self.weights, width=self.width)
