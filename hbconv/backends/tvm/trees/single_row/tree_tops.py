"""Emit tree tops: for one row, the splits at the top of many trees at once."""

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
from hbconv.backends.tvm.trees.single_row.top_tables import (
    TREES_PER_GROUP,
    TREES_PER_VECTOR,
    VECTORS_PER_GROUP,
    TreeTops,
)

__all__ = ["ExitFinder", "finding_exits"]

WORDS_PER_SPLIT = 4
"""Bytes of a split in the table of words: column, threshold, first exit, right child's exit."""


@contextmanager
def finding_exits(k: Kernel, tops: TreeTops, columns: RowColumns) -> Iterator[ExitFinder]:
    """Take memory for the bytes of a row, and for the exits it comes to."""
    n_bytes = -(-len(columns.order) // HALF) * HALF
    n_trees = tops.groups * TREES_PER_GROUP
    with (
        k.temporary("uint8", (n_bytes // k.tile,)) as bytes_,
        k.temporary("uint8", (n_trees // k.tile,)) as exits,
    ):
        yield ExitFinder(k, tops, columns, bytes_, exits)


class ExitFinder:
    """Finds the exits that a row comes to."""

    def __init__(
        self, k: Kernel, tops: TreeTops, columns: RowColumns, bytes_: Place, exits: Place
    ) -> None:
        self.k = k
        self.tops = tops
        self.columns = columns
        self.bytes = bytes_
        self.exits = exits
        self.words = k.constant(tops.words)
        self.any_row = k.constant(tops.columns)
        self.group_start = k.constant(tops.group_start)
        self.exit_start = k.constant(tops.exit_start)

    def find(self, row: Any, x: Place) -> None:
        """Find the exits of all trees for a row; only a row with NaN reads the twins."""
        writer = RowWriter(self.k, self.bytes, row, x, self.columns)
        n_columns = len(self.columns.order)
        n_plain = self.columns.n_plain
        no_nan = writer.write()
        if n_columns == n_plain:
            self._pass_all(n_plain, self.words, WORDS_PER_SPLIT)
            return
        with T.If(no_nan):
            with T.Then():
                self._pass_all(n_plain, self.words, WORDS_PER_SPLIT)
            with T.Else():
                writer.write_twins()
                self._pass_all(n_columns, self.any_row, 1)

    def exit(self, place: Any) -> Any:
        """Return where the exit of the tree at a place stands in the list of all exits."""
        number = self.k.load(self.exits, (0,), place)
        return self.k.bind(self.k.entry(self.exit_start, place) + tirx.Cast("int32", number))

    def _pass_all(self, n_columns: int, columns: Place, words_per_split: int) -> None:
        """Pass the splits of all groups, whose columns are the first of so many words a split."""
        k = self.k
        tables = [k.bind(self._table(part)) for part in range(-(-n_columns // HALF))]
        with k.over((self.tops.groups,)) as (group,):
            at = [
                k.variable(f"uint8x{TREES_PER_VECTOR}", literal(0, "uint8", TREES_PER_VECTOR))
                for _ in range(VECTORS_PER_GROUP)
            ]
            begin = k.bind(k.entry(self.group_start, group))
            with T.serial(k.entry(self.group_start, group + 1) - begin) as i:
                for vector, exits in enumerate(at):
                    slot = k.bind(begin + i)
                    first_lane = vector * TREES_PER_VECTOR
                    word = slot * (words_per_split * TREES_PER_GROUP) + first_lane
                    column = k.bind(k.entries(columns, word, TREES_PER_VECTOR))
                    value = _looked_up(k, tables, column)
                    self._pass(
                        value, slot * (WORDS_PER_SPLIT * TREES_PER_GROUP) + first_lane, exits
                    )
            for vector, exits in enumerate(at):
                first = group * TREES_PER_GROUP + vector * TREES_PER_VECTOR
                k.store(self.exits, (0,), tirx.Ramp(first, 1, TREES_PER_VECTOR), exits.get())

    def _pass(self, value: Any, slot: Any, at: Any) -> None:
        """Pass one split of each tree of a vector."""
        k = self.k
        threshold, first, right = (
            k.bind(k.entries(self.words, slot + word * TREES_PER_GROUP, TREES_PER_VECTOR))
            for word in (1, 2, 3)
        )
        moves = tirx.And(_signed(value) > _signed(threshold), tirx.EQ(at.get(), first))
        at.set(tirx.Select(moves, right, at.get()))

    def _table(self, part: int) -> Any:
        """Load sixteen columns."""
        return twice(self.k, self.k.load(self.bytes, (0,), tirx.Ramp(part * HALF, 1, HALF)))


def _looked_up(k: Kernel, tables: list[Any], column: Any) -> Any:
    """Look columns up in all parts: a shuffle gives zero for those of other parts."""
    found = literal(0, "uint8", TREES_PER_VECTOR)
    for part, table in enumerate(tables):
        found = found | k.bind(find_bytes(table, index_of(column, part)))
    return found


def _signed(bytes_: Any) -> Any:
    return tirx.reinterpret(f"int8x{TREES_PER_VECTOR}", bytes_)
