"""Blocks: rows of a tile that a group of trees works on at a time, in the nearest cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, fitting

__all__ = ["Block", "blocks"]


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
