"""Emit tree tops: for one row, the splits at the top of many trees at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.single_row.column_look_up import ColumnLookUp, column_look_up
from hbconv.backends.tvm.trees.single_row.row_bins import RowWriter
from hbconv.backends.tvm.trees.single_row.row_columns import RowColumns
from hbconv.backends.tvm.trees.single_row.top_tables import TreeTops

__all__ = ["ExitFinder", "finding_exits"]

WORDS_PER_SPLIT = 4
"""Bytes of a split in the table of words: column, threshold, first exit, right child's exit."""


@contextmanager
def finding_exits(k: Kernel, tops: TreeTops, columns: RowColumns) -> Iterator[ExitFinder]:
    """Take memory for the bytes of a row, and for the exits it comes to."""
    look_up = column_look_up(k.machine)
    n_bytes = -(-len(columns.order) // look_up.part) * look_up.part
    n_trees = tops.groups * tops.group
    with (
        k.temporary("uint8", (n_bytes // k.tile,)) as bytes_,
        k.temporary("uint8", (n_trees // k.tile,)) as exits,
    ):
        yield ExitFinder(k, tops, columns, look_up, bytes_, exits)


class ExitFinder:
    """Finds the exits that a row comes to."""

    def __init__(
        self,
        k: Kernel,
        tops: TreeTops,
        columns: RowColumns,
        look_up: ColumnLookUp,
        bytes_: Place,
        exits: Place,
    ) -> None:
        self.k = k
        self.tops = tops
        self.columns = columns
        self.look_up = look_up
        self.bytes = bytes_
        self.exits = exits
        self.words = k.constant(tops.words)
        self.any_row = k.constant(tops.columns)
        self.group_start = k.constant(tops.group_start)
        self.exit_start = k.constant(tops.exit_start)

    @contextmanager
    def groups(self, row: Any, x: Place) -> Iterator[Any]:
        """Find the exits of a row in one group of trees after another, and yield the group.

        Only a row with NaN reads the twins. What follows the exits of a group is done before those
        of the next one, so that the processor adds leaves while it waits for splits.
        """
        k = self.k
        writer = RowWriter(k, self.bytes, row, x, self.columns)
        no_nan = k.bind(tirx.Cast("int32", writer.write()))
        n_plain = self.columns.n_plain
        n_columns = len(self.columns.order)
        if n_columns > n_plain:
            with T.If(tirx.EQ(no_nan, 0)), T.Then():
                writer.write_twins()
        plain = self.look_up.tables(k, self.bytes, n_plain)
        every = self.look_up.tables(k, self.bytes, n_columns)
        with k.over((self.tops.groups,)) as (group,):
            if n_columns == n_plain:
                self._pass_group(group, plain, self.words, WORDS_PER_SPLIT)
            else:
                with T.If(tirx.EQ(no_nan, 0)):
                    with T.Then():
                        self._pass_group(group, every, self.any_row, 1)
                    with T.Else():
                        self._pass_group(group, plain, self.words, WORDS_PER_SPLIT)
            yield group

    def exit(self, place: Any) -> Any:
        """Return where the exit of the tree at a place stands in the list of all exits."""
        number = self.k.load(self.exits, (0,), place)
        return self.k.entry(self.exit_start, place) + tirx.Cast("int32", number)

    def _pass_group(
        self, group: Any, tables: list[Any], columns: Place, words_per_split: int
    ) -> None:
        """Pass the splits of a group, whose columns are the first of so many words a split."""
        k = self.k
        lanes = self.look_up.lanes
        firsts = range(0, self.tops.group, lanes)
        at = [k.variable(f"uint8x{lanes}", literal(0, "uint8", lanes)) for _ in firsts]
        begin = k.bind(k.entry(self.group_start, group))
        with T.serial(k.entry(self.group_start, group + 1) - begin) as i:
            slot = k.bind((begin + i) * self.tops.group)
            for first, exits in zip(firsts, at, strict=True):
                column = k.bind(k.entries(columns, slot * words_per_split + first, lanes))
                value = self.look_up.find(k, tables, column)
                self._pass(value, slot * WORDS_PER_SPLIT + first, exits)
        for first, exits in zip(firsts, at, strict=True):
            to = tirx.Ramp(group * self.tops.group + first, 1, lanes)
            k.store(self.exits, (0,), to, exits.get())

    def _pass(self, value: Any, slot: Any, at: Any) -> None:
        """Pass one split of each tree of a vector."""
        k = self.k
        lanes = self.look_up.lanes
        threshold, first, right = (
            k.bind(k.entries(self.words, slot + word * self.tops.group, lanes))
            for word in (1, 2, 3)
        )
        signed = f"int8x{lanes}"
        above = tirx.reinterpret(signed, value) > tirx.reinterpret(signed, threshold)
        at.set(tirx.Select(tirx.And(above, tirx.EQ(at.get(), first)), right, at.get()))
