"""Matrices of inputs and outputs, row after row in the caller's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.memory import storage
from hbconv.backends.tvm.tir.positions import beyond

__all__ = ["RowMajorMatrix"]

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
