"""Schedule: the sizes of a kernel's loops, chosen for the machine.

A schedule changes the speed of a kernel, never its outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.tensor import Constant, Op, TensorProgram
from hbconv.tensor.program import last_uses

__all__ = ["FEW", "MAX_TILE_ENTRIES", "ONE_ROW", "TILE_ENTRIES", "Schedule"]

TILES = (256, 128, 64)
"""Rows of tiles, tallest first: tables are read once per tile, so tall tiles read them less."""
MAX_BLOCK = 256
WIDE_VECTOR = 64
# 500 trees of 31 leaves took 127 ns a row with 512 rows and 150 with 256 (Zen 4, AVX-512).
WIDE_TILES = (512, *TILES)
"""Rows of tiles whose bit planes fill vectors of ``WIDE_VECTOR`` bytes: a bit for each row."""
# 100 trees of 2,000 leaves took 2.3 times as long with 256 rows, where others used the outer
# caches.
TALL_TILES = (2048, 1024)
"""Rows of tiles of large forests, whose tables come from the outer caches once per tile."""
NODE_BYTES = 8
"""Bytes of a split, and of a leaf, in the tables of a traversal."""
# No timings of this choice are kept.
TILE_SHARE = 4
"""Part of the second-level cache that a tile may fill; the rest is for tables."""
TALL_SHARE = 2
"""Times the second-level cache that a tile may fill where trees gain more by its height."""
TILE_ENTRIES = 1024
"""Entries of a tile of entries, if the width divides them."""
MAX_TILE_ENTRIES = 4096
MAX_FEW_ROWS = 8
"""Rows of a tile up to which trees are evaluated one row at a time."""


@dataclass(frozen=True)
class Schedule:
    """Sizes of a tile kernel.

    Parameters
    ----------
    tile : int
        Rows whose values are held at once; a multiple of ``block``.
    block : int
        Rows that a group of trees works on at a time; a multiple of ``lanes``. What they read
        should fit the first-level cache.
    lanes : int
        Rows of one vector operation: one register, or a few.
    """

    tile: int = 256
    block: int = 256
    lanes: int = 32

    @property
    def few_rows(self) -> bool:
        """Whether a tile has too few rows for vectors over rows."""
        return self.tile <= MAX_FEW_ROWS

    @classmethod
    def construct(cls, program: TensorProgram, machine: Machine) -> Schedule:
        """Choose the sizes for a program.

        The tile is the tallest one that fits its share of the second-level cache. It is taller if
        trees gain more by it than they lose by slower memory.
        """
        lanes = max(32, machine.vector)
        row_bytes = _row_bytes(program)
        room = machine.level2 // TILE_SHARE
        # Where not even the lowest tile fits, one vector of rows is the least that works.
        tile = next((t for t in TILES if t * row_bytes <= room), lanes)
        taller = _tall_tiles(program, machine)
        tile = next((t for t in taller if t * row_bytes <= TALL_SHARE * machine.level2), tile)
        return cls(tile, min(tile, MAX_BLOCK), lanes)


def _tall_tiles(program: TensorProgram, machine: Machine) -> tuple[int, ...]:
    """Return the heights that trees gain by; select needs tall tiles for its bit planes."""
    if _table_bytes(program, traversed=True) > machine.level2:
        return TALL_TILES
    selected = _table_bytes(program, traversed=False)
    if not selected:
        return ()
    # 2,000 trees of 31 leaves took 1,236 ns a row with 256 rows, and 1,071 with 1,024 (Zen 3).
    tiles = WIDE_TILES if machine.vector >= WIDE_VECTOR else TILES
    return (TALL_TILES[-1], *tiles) if selected > machine.level2 else tiles


def _row_bytes(program: TensorProgram) -> int:
    """Return the most bytes of one row that are alive at once: what dies gives its scratch back."""
    alive = most = 0
    ending: dict[int, int] = {}
    # Scratch is given back after the last use, so only values alive at once count.
    last = last_uses(program)
    for position, instruction in enumerate(program.instructions):
        if not isinstance(instruction, Constant):
            size = math.prod(instruction.type.shape) * np.dtype(instruction.type.dtype).itemsize
            end = last.get(position, position)
            ending[end] = ending.get(end, 0) + size
            alive += size
            most = max(most, alive)
        alive -= ending.pop(position, 0)
    return most


def _table_bytes(program: TensorProgram, *, traversed: bool) -> int:
    """Return the bytes of the trees that rows traverse, or of those whose splits all are decided.

    The latter run by the strategy ``select``.
    """
    forests = [
        i.attributes["forest"]
        for i in program.instructions
        if isinstance(i, Op)
        and "strategy" in i.attributes
        and (i.attributes["strategy"] != "select") is traversed
    ]
    return sum(NODE_BYTES * (forest.n_tests + forest.n_leaves) for forest in forests)


FEW = Schedule(tile=8, block=8, lanes=8)
"""The schedule for few rows: the smallest tile whose vectors fill a register."""
ONE_ROW = Schedule(tile=1, block=1, lanes=1)
"""A tile of one row: a thread of a CUDA device takes one, and on the CPU few rows take turns."""
