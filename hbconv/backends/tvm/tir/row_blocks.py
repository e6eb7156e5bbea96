"""Blocks: rows of a tile that a group of trees works on at a time, in the nearest cache.

Matrices of inputs and outputs, row after row in the caller's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, beyond, fitting
from hbconv.backends.tvm.tir.memory import storage

__all__ = ["Block", "RowMajorMatrix", "blocks"]


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
        step = fitting(lanes * together, self.k.schedule.block)
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


ANY = 2**31 - 1
"""Declared size of a buffer whose size is unknown."""


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
        address = tirx.address_of(self.entries[position])
        pointer = T.Bind(tirx.reinterpret(T.ptr(self.dtype).ty, address))
        return T.decl_buffer((ANY,), self.dtype, data=pointer, align=np.dtype(self.dtype).itemsize)

    def _position(self, row: Any, column: Any) -> Any:
        return beyond(row * self.width, column)
