"""Schedule: how a program is cut for the machine. It changes the speed of a kernel, never its answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbconv.backends.tvm.target.machine import Machine
from hbconv.tensor import Constant, Op, TensorProgram

__all__ = ["Schedule"]

TILES = (256, 128, 64)
"""Heights of tiles, tallest first: tables are read once per tile, so tall tiles read them less."""
BLOCK = 256
TALL = (2048, 1024)
"""Heights of tiles that walk down large trees: what a tree's tables take is read from memory once per tile."""
NODE = 8
"""Bytes of a test, and of a leaf, in the tables of a walk."""


@dataclass(frozen=True)
class Schedule:
    """Sizes of a tile kernel.

    Parameters
    ----------
    tile : int
        Rows whose values are held at once; a multiple of ``block``.
    block : int
        Rows that a group of trees works on at a time; a multiple of ``lanes``. Their bytes and slots should fit the nearest cache.
    lanes : int
        Rows that one vector operation covers; a register or a few.
    """

    tile: int = 256
    block: int = 256
    lanes: int = 32

    @classmethod
    def construct(cls, program: TensorProgram, machine: Machine) -> Schedule:
        """Take the tallest tile whose values fit a quarter of the second-level cache; a taller one where trees gain more by it than what lies farther costs."""
        lanes = max(32, machine.vector)
        row = sum(
            _row_bytes(i.type.shape, i.type.dtype)
            for i in program.instructions
            if not isinstance(i, Constant)
        )
        tile = next((t for t in TILES if t * row <= machine.level2 // 4), lanes)
        taller = TALL if _walked(program) > machine.level2 else TILES if _selected(program) else ()
        tile = next((t for t in taller if t * row <= 2 * machine.level2), tile)
        return cls(tile, min(tile, BLOCK), lanes)


def _row_bytes(shape: tuple[int, ...], dtype: str) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize


def _selected(program: TensorProgram) -> bool:
    """Whether all tests of some trees are decided: on bit planes, if tiles are tall enough."""
    return any(
        isinstance(i, Op) and i.attributes.get("strategy") == "select" for i in program.instructions
    )


def _walked(program: TensorProgram) -> int:
    """Bytes of the trees that rows walk down."""
    walks = [
        i.attributes["forest"]
        for i in program.instructions
        if isinstance(i, Op) and i.attributes.get("strategy", "select") != "select"
    ]
    return sum(NODE * (forest.n_tests + forest.n_leaves) for forest in walks)
