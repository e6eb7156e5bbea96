"""Emit tops: for one row, the tests at the top of many trees at once, and the ends that the row comes to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.binning import Columns, write_bins
from hbconv.backends.tvm.bins import Bins
from hbconv.backends.tvm.blocks import blocks
from hbconv.backends.tvm.kernel import Kernel, literal
from hbconv.backends.tvm.memory import Place
from hbconv.backends.tvm.tops import Tops

__all__ = ["LANES", "MOST_COLUMNS", "WIDE", "EndFinder"]

LANES = 32
"""Trees that a vector holds a byte of."""
MOST_COLUMNS = 128
"""Columns that are looked up in: each sixteen cost a shuffle a test."""
WIDE = 2
"""Vectors that are worked on in turn, so that one waits for its tests while the other steps."""
HALF = 16
"""Bytes that a shuffle looks up in."""
OUTSIDE = 0x70
"""What makes of a number from 16 on one that a shuffle gives zero for, and leaves the lowest bits of others."""


class EndFinder:
    """Finds the ends that the rows of a tile come to, row after row."""

    def __init__(self, k: Kernel, x: Place, bins: Bins, tops: Tops, columns: Place, row_columns: Place, numbers: Place) -> None:
        self.k, self.tops, self.parts = k, tops, -(-bins.columns // HALF)
        self.columns, self.row_columns, self.numbers = Columns(k, columns), row_columns, numbers
        self.words, self.group_start, self.end_start = (k.constant(t) for t in (tops.words, tops.group_start, tops.end_start))
        with blocks(k) as block:
            write_bins(k, self.columns, block, x, bins)

    @staticmethod
    @contextmanager
    def of(k: Kernel, x: Place, bins: Bins, tops: Tops) -> Iterator[EndFinder]:
        """Bin the rows."""
        parts, trees = -(-bins.columns // HALF), tops.groups * LANES * WIDE
        with (
            k.temporary("uint8", (bins.columns,)) as columns,
            k.temporary("uint8", (parts * HALF // k.tile,)) as row_columns,
            k.temporary("uint8", (trees // k.tile,)) as numbers,
        ):
            yield EndFinder(k, x, bins, tops, columns, row_columns, numbers)

    def find(self, row: Any) -> None:
        """Find the ends of all trees for a row."""
        k = self.k
        with k.over((self.columns.count,)) as (column,):
            k.store(self.row_columns, (0,), column, k.load(self.columns.place, (column,), row))
        tables = [k.bind(self._table(part)) for part in range(self.parts)]
        with k.over((self.tops.groups,)) as (group,):
            at = [k.variable(f"uint8x{LANES}", literal(0, "uint8", LANES)) for _ in range(WIDE)]
            begin = k.bind(k.entry(self.group_start, group))
            with T.serial(k.entry(self.group_start, group + 1) - begin) as i:
                slot = k.bind((begin + i) * (4 * LANES * WIDE))
                for turn, place in enumerate(at):
                    self._pass(tables, slot + turn * LANES, place)
            for turn, place in enumerate(at):
                k.store(self.numbers, (0,), tirx.Ramp((group * WIDE + turn) * LANES, 1, LANES), place.get())

    def end(self, tree: Any) -> Any:
        """Return where the end of a tree stands in the list of all ends."""
        number = self.k.load(self.numbers, (0,), tree)
        return self.k.bind(self.k.entry(self.end_start, tree) + tirx.Cast("int32", number))

    def _pass(self, tables: list[Any], slot: Any, at: Any) -> None:
        """Pass one test of each tree of a vector."""
        k = self.k
        column, place, first, after = (k.bind(k.entries(self.words, slot + word * LANES * WIDE, LANES)) for word in range(4))
        value = _signed(_looked_up(k, tables, column))
        moves = tirx.And(value > _signed(place), tirx.EQ(at.get(), first))
        at.set(tirx.Select(moves, after, at.get()))

    def _table(self, part: int) -> Any:
        """Load the columns of a part, twice: shuffles look up in each half of a vector apart."""
        half = self.k.load(self.row_columns, (0,), tirx.Ramp(part * HALF, 1, HALF))
        return tirx.Shuffle([half, half], [tirx.IntImm("int32", i % LANES) for i in range(LANES)])


def _looked_up(k: Kernel, tables: list[Any], column: Any) -> Any:
    """Look columns up in all parts: a shuffle gives zero for those of other parts."""
    found = literal(0, "uint8", LANES)
    for part, table in enumerate(tables):
        inside = column - literal(part * HALF, "uint8", LANES) if part else column
        index = tirx.call_llvm_pure_intrin(f"uint8x{LANES}", f"llvm.uadd.sat.v{LANES}i8", inside, literal(OUTSIDE, "uint8", LANES))
        found = found | k.bind(tirx.call_llvm_pure_intrin(f"uint8x{LANES}", "llvm.x86.avx2.pshuf.b", table, index))
    return found


def _signed(bytes_: Any) -> Any:
    return tirx.reinterpret(f"int8x{LANES}", bytes_)
