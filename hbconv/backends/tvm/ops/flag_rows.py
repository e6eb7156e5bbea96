"""Flag rows with entries beyond a bound: a tile is flagged as a whole.

Entries are read in vectors from the caller's matrix. A register counts those beyond the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import ANY, Kernel, Register, literal, spread
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import RowMajorMatrix
from hbconv.backends.tvm.tir.transpose import starts
from hbconv.tensor import Op

__all__ = ["ColumnLook", "Look", "flag_entries", "flag_tile"]

# No timings of this choice are kept.
TOGETHER = 4
"""Vectors at a time, each with a counter of its own: counting one waits for no other."""


@dataclass(frozen=True, eq=False)
class Look:
    """A condition on entries, over vectors.

    Parameters
    ----------
    k : Kernel
    dtype : str
        Float dtype of the entries.
    lanes : int
        Entries of a vector.
    bound : float
    allow_nan : bool
        NaN is not beyond the bound.
    """

    k: Kernel
    dtype: str
    lanes: int
    bound: float
    allow_nan: bool

    @staticmethod
    def of(k: Kernel, dtype: str, op: Op, *, vectors: bool = True, most: int = ANY) -> Look:
        """Take the condition of a primitive, in vectors of a register or of one entry."""
        register = k.machine.vector // np.dtype(dtype).itemsize
        # A power of two, since counters are summed by halves; within a row, so that no read leaves
        # it.
        lanes = min(register, 1 << (most.bit_length() - 1)) if vectors else 1
        return Look(k, dtype, lanes, op.attributes["bound"], op.attributes["allow_nan"])

    def counter(self, lanes: int) -> Register:
        """Count nothing yet."""
        return Register(self.dtype, lanes, literal(0, self.dtype, lanes))

    def count(self, counter: Register, entries: Any, lanes: int, mark: Any = None) -> None:
        """Add a mark, or one, in each lane whose entry is beyond the bound."""
        size = self.k.bind(tirx.abs(entries))
        bound = literal(self.bound, self.dtype, lanes)
        total = self.k.bind(counter.get())
        # A float32 counter stops at 2**24, which flags the tile as well as any number above 0.
        more = total + (literal(1, self.dtype, lanes) if mark is None else mark)
        if self.allow_nan:
            counter.set(tirx.Select(size > bound, more, total))
        else:  # no comparison holds for NaN
            counter.set(tirx.Select(size <= bound, total, more))

    def flag(self, counters: list[Register]) -> Any:
        """Return 1 if any counter counted, else 0."""
        total = self.k.bind(sum((c.get() for c in counters[1:]), counters[0].get()))
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            halves = (list(range(first, first + lanes)) for first in (0, lanes))
            low, high = (self.k.bind(tirx.Shuffle([total], half)) for half in halves)
            total = self.k.bind(low + high)
        is_beyond = total > literal(0, self.dtype, 1)
        return self.k.bind(tirx.Select(is_beyond, literal(1, "uint8", 1), literal(0, "uint8", 1)))


def flag_entries(look: Look, matrix: RowMajorMatrix, first: Any, width: int, place: Place) -> None:
    """Write one flag for all rows of a tile of entries.

    Parameters
    ----------
    look : Look
        Over single entries unless all lanes of the tile are live.
    matrix : RowMajorMatrix
        Takes the flags.
    first : int expression
        Row of the tile's first entry.
    width : int
        Entries of a row.
    place : Place
        The entries.
    """
    k = look.k
    counter = look.counter(look.lanes)
    with k.vectors(look.lanes) if look.lanes > 1 else k.rows() as row:
        look.count(counter, k.load(place, (0,), row), look.lanes)
    flag = look.flag([counter])
    with T.serial(k.rows_live // width) as row:
        matrix.store(first + row, 0, flag)


def flag_tile(
    k: Kernel, out: Place, matrix: RowMajorMatrix, first: Any, width: int, op: Op
) -> None:
    """Write one flag for all rows of a tile, from the rows of an input matrix in place.

    Parameters
    ----------
    k : Kernel
    out : Place
        Takes the flags.
    matrix : RowMajorMatrix
    first : int expression
        The tile's first row.
    width : int
    op : Op
        The primitive.
    """
    columns = op.attributes["columns"].data
    reads_all = len(columns) == width  # then vectors may span rows
    look = Look.of(k, matrix.dtype, op, most=ANY if reads_all else width)
    if reads_all:
        counters = _count_all(look, matrix, first, width)
    else:
        counters = _count_columns(look, matrix, first, width, columns.tolist())
    _write_flag(k, out, look.flag(counters))


class ColumnLook:
    """A look at columns as they enter the tile, one after another.

    Parameters
    ----------
    k : Kernel
    columns : sequence of int
        All columns that enter.
    dtype : str
    op : Op
        The primitive.
    lanes : int
        Rows of the vectors that are seen; others are seen one by one.
    """

    def __init__(self, k: Kernel, columns: Sequence[int], dtype: str, op: Op, lanes: int) -> None:
        self.look = Look(k, dtype, lanes, op.attributes["bound"], op.attributes["allow_nan"])
        self._counter = self.look.counter(lanes)
        self._rest = self.look.counter(1)
        marks = np.isin(columns, op.attributes["columns"].data)
        self._marks = None if marks.all() else k.constant(marks.astype(dtype))

    def see(self, number: Any, values: Any, lanes: int) -> None:
        """Count the values of some rows in one of the columns, by its number among them."""
        mark = None
        if self._marks is not None:
            mark = spread(self.look.k.entry(self._marks, number), lanes)
        self.look.count(self._rest if lanes == 1 else self._counter, values, lanes, mark)

    def write(self, out: Place) -> None:
        """Write one flag for all rows of the tile."""
        # Every lane gets the count of the rest: only whether it is 0 matters.
        self._counter.set(self._counter.get() + spread(self._rest.get(), self.look.lanes))
        _write_flag(self.look.k, out, self.look.flag([self._counter]))


def _write_flag(k: Kernel, out: Place, flag: Any) -> None:
    with k.vectors() as row:
        k.store(out, (0,) * len(out.shape), row, spread(flag, k.lanes))


def _count_all(look: Look, matrix: RowMajorMatrix, first: Any, width: int) -> list[Register]:
    """Count in all entries of the tile, which are neighbours in memory.

    1. Several vectors at a time.
    2. The rest one by one.
    """
    k = look.k
    entries = k.bind(k.rows_live * width)
    step = look.lanes * TOGETHER
    counters = [look.counter(look.lanes) for _ in range(TOGETHER)]
    rest = look.counter(1)
    flat = matrix.entries_from(first * width)
    with T.serial(entries // step) as block:  # 1.
        for i, counter in enumerate(counters):
            position = tirx.Ramp(block * step + i * look.lanes, 1, look.lanes)
            look.count(counter, flat[position], look.lanes)
    whole = k.bind(entries // step * step)
    with T.serial(entries - whole) as i:  # 2.
        look.count(rest, flat[whole + i], 1)
    # Every lane gets the count of the rest: only whether it is 0 matters.
    counters[0].set(counters[0].get() + spread(rest.get(), look.lanes))
    return counters


def _count_columns(
    look: Look, matrix: RowMajorMatrix, first: Any, width: int, columns: list[int]
) -> list[Register]:
    """Count in some columns, row by row: a mark selects the columns in a block of neighbours."""
    k = look.k
    block_starts = starts(columns, width, look.lanes)
    marks = np.zeros((len(block_starts), look.lanes), look.dtype)
    for column in columns:
        block = next(
            i for i, start in enumerate(block_starts) if start <= column < start + look.lanes
        )
        marks[block, column - block_starts[block]] = 1
    positions, table = k.constant(np.array(block_starts, np.int32)), k.constant(marks)
    counter = look.counter(look.lanes)
    with k.rows() as row, T.serial(len(block_starts)) as block:
        start = k.bind(k.entry(positions, block))
        entries = matrix.load(first + row, tirx.Ramp(start, 1, look.lanes))
        look.count(counter, entries, look.lanes, k.entries(table, block * look.lanes, look.lanes))
    return [counter]
