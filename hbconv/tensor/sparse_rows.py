"""SparseRows: a value under construction of which most entries are zero, given by the others alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.tensor.builder import Builder, Value

__all__ = ["SparseRows"]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of ``width`` columns: in each, the columns that hold something (tokens), beside what they hold (weights).

    Parameters
    ----------
    tokens : Value of int32, shape (rows, m)
        ``width`` names no column: rows of fewer entries than m are padded with it.
    weights : Value, shape (rows, m)
        Zero where the token names no column.
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
        """Return rows with other weights at the same places."""
        return replace(self, weights=weights)

    def at_tokens(
        self, b: Builder, columns: npt.NDArray[Any], none: float, dtype: str | None = None
    ) -> Value:
        """Read a vector of one constant a column at the tokens; ``none`` for what names no column."""
        return b.lookup(
            b.constant(np.append(columns, np.asarray(none, columns.dtype)), dtype), self.tokens
        )

    def selected(self, b: Builder, columns: npt.NDArray[np.integer[Any]]) -> SparseRows | None:
        """Rename the tokens of some columns, and make those of others none; None where a column is wanted twice."""
        width = len(columns)
        if len(np.unique(columns)) < width:
            return None
        names = np.full(self.width + 1, width, np.int32)
        names[columns] = np.arange(width)
        tokens = b.lookup(b.constant(names), self.tokens)
        kept = b.where(
            b.op("eq", tokens, b.constant(width, "int32")), b.constant(0, self.dtype), self.weights
        )
        return SparseRows(tokens, kept, width)

    def written_out(self, b: Builder) -> Value:
        """Return the rows with their zeros, for what needs them whole."""
        return b.op("scatter", self.tokens, self.weights, width=self.width)
