"""Rows of a tile as kernels of trees and matrices of callers lay them out.

A block holds the rows that a group of trees works on at a time, in the nearest cache. Its columns
of bytes are what the splits of a forest compare. Matrices of inputs and outputs are in the caller's
memory, row after row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import ANY, Kernel, beyond, require_fit
from hbconv.backends.tvm.tir.memory import Place, storage

__all__ = ["Block", "ByteColumns", "RowMajorMatrix", "blocks", "byte_columns"]

COLUMNS_ALLOCATED = 64
"""Memory is for a multiple of so many columns: models that differ by a few share a kernel."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a tile: ``live`` of them from row ``first`` on."""

    k: Kernel
    first: Any
    live: Any

    @contextmanager
    def rows(self) -> Iterator[Any]:
        """Loop over the live rows, counted from the block's first."""
        with T.serial(self.live) as row:
            yield row

    @contextmanager
    def vectors(self, lanes: int = 0, together: int = 1) -> Iterator[Any]:
        """Loop over the block by ``together`` vectors, and yield the first of them.

        A block is never empty, so one step needs no loop.
        """
        lanes = lanes or self.k.lanes
        step = require_fit(lanes * together, self.k.schedule.block)
        if step == self.k.schedule.block:
            yield tirx.Ramp(tirx.IntImm("int32", 0), 1, lanes)
            return
        with T.serial((self.live + (step - 1)) // step) as group:
            yield tirx.Ramp(group * step, 1, lanes)

    def in_tile(self, row: Any) -> Any:
        """Return a row of the block, or a vector of rows, as a position in the tile."""
        if isinstance(row, tirx.Ramp):
            return tirx.Ramp(self.first + row.base, row.stride, row.lanes)
        return self.first + row


@contextmanager
def blocks(k: Kernel) -> Iterator[Block]:
    """Loop over the blocks of a tile."""
    size = k.schedule.block
    with T.serial((k.rows_live + (size - 1)) // size) as number:
        first = k.bind(number * size)
        yield Block(k, first, k.bind(tirx.min(k.rows_live - first, tirx.IntImm("int32", size))))


@dataclass(frozen=True, eq=False)
class RowMajorMatrix:
    """A row-major matrix of any height and alignment.

    Positions are computed here. TVM's own pass for that writes vectors of 64 bytes byte by byte,
    and takes longer than all the rest of the compiler.

    Parameters
    ----------
    entries : Buffer of shape (n_rows * width,)
    width : int
    """

    entries: Any
    width: int

    @classmethod
    def at(cls, pointer: Any, dtype: str, width: int) -> RowMajorMatrix:
        """Declare the matrix at a pointer."""
        stored = storage(dtype)
        # Callers promise the alignment of an entry and no more.
        align = np.dtype(dtype).itemsize
        return cls(T.decl_buffer((ANY,), stored, data=pointer, align=align), width)

    @property
    def dtype(self) -> str:
        """The dtype in memory."""
        return str(self.entries.dtype)

    def load(self, row: Any, column: Any) -> Any:
        """Read an entry of a row, or neighbouring ones."""
        return self.entries[self._position(row, column)]

    def store(self, row: Any, column: Any, value: Any) -> None:
        """Write an entry of a row, or neighbouring ones."""
        T.buffer_store(self.entries, value, [self._position(row, column)])

    def entries_from(self, position: Any) -> Any:
        """Declare the entries from one on as a buffer of their own."""
        # A buffer that begins there can be a place, whose positions count from 0.
        address = tirx.address_of(self.entries[position])
        pointer = T.Bind(tirx.reinterpret(T.ptr(self.dtype).ty, address))
        return T.decl_buffer((ANY,), self.dtype, data=pointer, align=np.dtype(self.dtype).itemsize)

    def _position(self, row: Any, column: Any) -> Any:
        return beyond(row * self.width, column)


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
