"""Schedule: how a program is cut for the machine. It changes the speed of a kernel, never its answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbconv.tensor import Constant, TensorProgram

__all__ = ["Schedule"]

CACHE = 256 << 10
"""Bytes of a tile that should stay in the second-level cache."""


@dataclass(frozen=True)
class Schedule:
    """Sizes of a tile kernel.

    Parameters
    ----------
    tile : int
        Rows held at once; a multiple of ``lanes``.
    lanes : int
        Rows that one vector operation covers; a register or a few.
    """

    tile: int = 256
    lanes: int = 32

    @classmethod
    def construct(cls, program: TensorProgram) -> Schedule:
        """Take the tallest tile whose values fit the cache: tables are read once per tile, so tall tiles read them less."""
        row = sum(_row_bytes(i.type.shape, i.type.dtype) for i in program.instructions if not isinstance(i, Constant))
        tile = next((t for t in (256, 128, 64) if t * row <= CACHE), 32)
        return cls(tile=tile)


def _row_bytes(shape: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize
