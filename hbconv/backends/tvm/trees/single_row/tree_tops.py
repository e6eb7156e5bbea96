"""Emit tops: for one row, the tests at the top of many trees at once, and the ends that the row comes to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.shuffles import HALF, find_bytes, index_of, twice
from hbconv.backends.tvm.trees.single_row.row_bins import RowWriter
from hbconv.backends.tvm.trees.single_row.row_columns import RowColumns
from hbconv.backends.tvm.trees.single_row.tables import LANES, WIDE, Tops

__all__ = ["EndFinder", "ends_of"]


@contextmanager
def ends_of(k: Kernel, tops: Tops, arranged: RowColumns) -> Iterator[EndFinder]:
    """Take memory for the bytes of a row, and for the ends it comes to."""
    bytes_, trees = -(-len(arranged.order) // HALF) * HALF, tops.groups * LANES * WIDE
    with (
        k.temporary("uint8", (bytes_ // k.tile,)) as columns,
        k.temporary("uint8", (trees // k.tile,)) as numbers,
    ):
        yield EndFinder(k, tops, arranged, columns, numbers)


class EndFinder:
    """Finds the ends that a row comes to."""

    def __init__(
        self, k: Kernel, tops: Tops, arranged: RowColumns, bytes_: Place, numbers: Place
    ) -> None:
        self.k, self.tops, self.arranged, self.bytes, self.numbers = (
            k,
            tops,
            arranged,
            bytes_,
            numbers,
        )
        self.words, self.columns = k.constant(tops.words), k.constant(tops.columns)
        self.group_start, self.end_start = k.constant(tops.group_start), k.constant(tops.end_start)

    def find(self, row: Any, x: Place) -> None:
        """Find the ends of all trees for a row."""
        writer, columns = (
            RowWriter(self.k, self.bytes, row, x, self.arranged),
            len(self.arranged.order),
        )
        plain = writer.write()
        if columns == self.arranged.n_plain:
            self._pass_all(columns, self.words, 4)
            return
        with T.If(plain):
            with T.Then():
                self._pass_all(self.arranged.n_plain, self.words, 4)
            with T.Else():
                writer.write_twins()
                self._pass_all(columns, self.columns, 1)

    def end(self, tree: Any) -> Any:
        """Return where the end of a tree stands in the list of all ends."""
        number = self.k.load(self.numbers, (0,), tree)
        return self.k.bind(self.k.entry(self.end_start, tree) + tirx.Cast("int32", number))

    def _pass_all(self, count: int, columns: Place, stride: int) -> None:
        """Pass the tests of all groups; their columns, so many of them, are told by every ``stride``-th word."""
        k, width = self.k, LANES * WIDE
        tables = [k.bind(self._table(part)) for part in range(-(-count // HALF))]
        with k.over((self.tops.groups,)) as (group,):
            at = [k.variable(f"uint8x{LANES}", literal(0, "uint8", LANES)) for _ in range(WIDE)]
            begin = k.bind(k.entry(self.group_start, group))
            with T.serial(k.entry(self.group_start, group + 1) - begin) as i:
                for turn, place in enumerate(at):
                    slot = k.bind(begin + i)
                    column = k.bind(
                        k.entries(columns, slot * (stride * width) + turn * LANES, LANES)
                    )
                    self._pass(
                        _looked_up(k, tables, column), slot * (4 * width) + turn * LANES, place
                    )
            for turn, place in enumerate(at):
                k.store(
                    self.numbers,
                    (0,),
                    tirx.Ramp(group * width + turn * LANES, 1, LANES),
                    place.get(),
                )

    def _pass(self, value: Any, slot: Any, at: Any) -> None:
        """Pass one test of each tree of a vector."""
        k = self.k
        place, first, after = (
            k.bind(k.entries(self.words, slot + word * LANES * WIDE, LANES)) for word in (1, 2, 3)
        )
        moves = tirx.And(_signed(value) > _signed(place), tirx.EQ(at.get(), first))
        at.set(tirx.Select(moves, after, at.get()))

    def _table(self, part: int) -> Any:
        """Load the columns of a part."""
        return twice(self.k, self.k.load(self.bytes, (0,), tirx.Ramp(part * HALF, 1, HALF)))


def _looked_up(k: Kernel, tables: list[Any], column: Any) -> Any:
    """Look columns up in all parts: a shuffle gives zero for those of other parts."""
    found = literal(0, "uint8", LANES)
    for part, table in enumerate(tables):
        found = found | k.bind(find_bytes(table, index_of(column, part)))
    return found


def _signed(bytes_: Any) -> Any:
    return tirx.reinterpret(f"int8x{LANES}", bytes_)
