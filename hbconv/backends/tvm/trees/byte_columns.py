"""Columns of bytes: what the splits of a forest compare, for the rows of a tile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block

__all__ = ["ByteColumns", "byte_columns", "shifted"]

COLUMNS_ALLOCATED = 64
"""Memory is for a multiple of so many columns: models that differ by a few share a kernel."""


class ByteColumns:
    """The columns of bytes of a tile, those of a block side by side."""

    def __init__(self, k: Kernel, place: Place) -> None:
        self.k = k
        self.place = place
        self.count = place.shape[0]

    def store(self, block: Block, column: Any, row: Any, value: Any) -> None:
        """Write bytes of a column for a row of a block, or a vector of rows."""
        self.k.store(self.place, (0,), _beyond(self.begin(block, column), row), value)

    def load(self, begin: Any, row: Any) -> Any:
        """Read bytes of the column that begins there."""
        return self.k.load(self.place, (0,), _beyond(begin, row))

    def begin(self, block: Block, column: Any) -> Any:
        """Return where a column of a block begins."""
        return block.first * self.count + column * self.k.schedule.block


@contextmanager
def byte_columns(k: Kernel, count: int) -> Iterator[ByteColumns]:
    """Take memory for at least so many columns."""
    allocated = -(-count // COLUMNS_ALLOCATED) * COLUMNS_ALLOCATED
    with k.temporary("uint8", (allocated,)) as place:
        yield ByteColumns(k, place)


def _beyond(begin: Any, row: Any) -> Any:
    """Return the entries of a row, or a vector of rows, of the column that begins there."""
    if isinstance(row, tirx.Ramp):
        return tirx.Ramp(begin + row.base, row.stride, row.lanes)
    return begin + row


def shifted(row: Any, by: Any) -> Any:
    """Return a row, or a vector of rows, some rows on."""
    if isinstance(row, tirx.Ramp):
        return tirx.Ramp(row.base + by, row.stride, row.lanes)
    return row + by
