"""Big batches in chunks of rows, so that a call stays within the memory it may take."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hbconv.tensor import Op, TensorProgram

__all__ = ["bytes_per_row", "chunks", "rows_per_chunk"]

_LEAST_ROWS = 64
"""Rows of the smallest chunk: under this, calls cost more than they save."""


def bytes_per_row(program: TensorProgram) -> int:
    """Bytes that one row takes in all values of a program: an upper bound, as if none were freed early.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> bytes_per_row(b.program({"y": x + x}))
    48
    """
    sizes = (np.dtype(i.type.dtype).itemsize * int(np.prod(i.type.shape)) for i in program.instructions if i.type.rows)
    return int(sum(sizes)) + sum(_tree_bytes(i) for i in program.instructions if isinstance(i, Op) and "forest" in i.attributes)


def rows_per_chunk(program: TensorProgram, memory: int) -> int:
    """Rows of which the values fit in memory."""
    return max(_LEAST_ROWS, memory // max(1, bytes_per_row(program)))


def chunks(rows: int, size: int) -> Iterator[slice]:
    """Slices that cover the rows; one empty slice where there are none."""
    yield slice(0, min(rows, size))
    for start in range(size, rows, size):
        yield slice(start, min(start + size, rows))


def _tree_bytes(op: Op) -> int:
    """Count a leaf number and a value for each tree: what a native kernel holds at most."""
    return 16 * int(op.attributes["forest"].n_trees)
