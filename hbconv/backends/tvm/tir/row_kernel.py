"""RowKernel: writes the function of one row, for the emitters of the tile compiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx

from hbconv.backends.tvm.target.calling_convention import SYMBOL
from hbconv.backends.tvm.target.machine import Machine
from hbconv.backends.tvm.target.schedule import ONE_ROW
from hbconv.backends.tvm.tir.kernel import Kernel

__all__ = ["RowKernel"]


class RowKernel(Kernel):
    """The function of one row under construction: a tile is one row, and a vector one entry.

    So the entries of a value lie one after another, which ``EntryLoop`` makes vectors of.
    """

    calls_subroutines = False

    def __init__(self, machine: Machine, symbol: str = SYMBOL) -> None:
        super().__init__(ONE_ROW, machine, symbol)
        self.rows_live = tirx.IntImm("int32", 1)

    @contextmanager
    def rows(self) -> Iterator[Any]:
        """Take the row."""
        yield tirx.IntImm("int32", 0)

    @contextmanager
    def vectors(self, lanes: int = 0) -> Iterator[Any]:  # noqa: ARG002
        """Take the row."""
        yield tirx.IntImm("int32", 0)
