"""Columns of bytes: what the splits of a forest compare, for the rows of a tile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hbconv.backends.tvm.tir.kernel import Kernel, beyond
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block

__all__ = ["ByteColumns", "byte_columns"]

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
        self.k.store(self.place, (0,), beyond(self.begin(block, column), row), value)

    def load(self, begin: Any, row: Any) -> Any:
        """Read bytes of the column that begins there."""
        return self.k.load(self.place, (0,), beyond(begin, row))

    def begin(self, block: Block, column: Any) -> Any:
        """Return where a column of a block begins."""
        return block.first * self.count + column * self.k.schedule.block


@contextmanager
def byte_columns(k: Kernel, count: int) -> Iterator[ByteColumns]:
    """Take memory for at least so many columns."""
    allocated = -(-count // COLUMNS_ALLOCATED) * COLUMNS_ALLOCATED
    with k.temporary("uint8", (allocated,)) as place:
        yield ByteColumns(k, place)
