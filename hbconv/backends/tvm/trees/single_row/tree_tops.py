"""Emit tree tops: for one row, the splits at the top of many trees at once.

The bins of the row are written side by side, a byte for each column. Then splits look columns up in
registers: a byte for each of many trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.ops.edge_search import MAX_EDGES_IN_CELL
from hbconv.backends.tvm.tir.kernel import Kernel, code_within, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.shuffles import (
    BYTES,
    HALF,
    WIDE_BYTES,
    find_bytes,
    find_wide_bytes,
    index_of,
    twice,
)
from hbconv.backends.tvm.trees.bins.emit import decide_sets
from hbconv.backends.tvm.trees.bins.tables import LEFT_BYTE, RIGHT_BYTE, SIGNED_BYTE_BIAS
from hbconv.backends.tvm.trees.single_row.tables import RowColumns, TreeTops

__all__ = ["ExitFinder", "finding_exits"]

WORDS_PER_SPLIT = 4
"""Bytes of a split in the table of words: column, threshold, first exit, right child's exit."""
Ints = npt.NDArray[np.int64]
Find = Callable[[Any, Any], Any]
"""``find(i, value)`` returns the bin of a value of the i-th of some features."""


@contextmanager
def finding_exits(k: Kernel, tops: TreeTops, columns: RowColumns) -> Iterator[ExitFinder]:
    """Take memory for the bytes of a row, and for the exits it comes to."""
    look_up = column_look_up(k.machine)
    # Whole tables of a look-up, as they are loaded at once.
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
        """Return the position of the exit of the tree at a place, in the list of all exits."""
        number = self.k.load(self.exits, (0,), place)
        return self.k.entry(self.exit_start, place) + tirx.Cast("int32", number)

    def _pass_group(
        self, group: Any, tables: list[Any], columns: Place, words_per_split: int
    ) -> None:
        """Pass the splits of a group; a split has some words, of which the column is the first."""
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
        # AVX2 compares signed bytes only, and columns are stored as such.
        above = tirx.reinterpret(signed, value) > tirx.reinterpret(signed, threshold)
        at.set(tirx.Select(tirx.And(above, tirx.EQ(at.get(), first)), right, at.get()))


class ColumnLookUp:
    """Looks columns up by shuffles of 32 bytes, one for each sixteen columns.

    Attributes
    ----------
    lanes : int
        Trees of a vector, as ``trees_per_vector`` returns.
    part : int
        Columns of one table.
    """

    lanes: int = BYTES
    part: int = HALF

    def tables(self, k: Kernel, bytes_: Place, n_columns: int) -> list[Any]:
        """Load the first columns of a row."""
        return [k.bind(self._table(k, bytes_, at)) for at in range(0, n_columns, self.part)]

    def find(self, k: Kernel, tables: list[Any], column: Any) -> Any:
        """Look columns up in all tables: a shuffle gives zero for those of other tables."""
        values = literal(0, "uint8", BYTES)
        for part, table in enumerate(tables):
            # Each table gives zero for columns of the others.
            values = values | k.bind(find_bytes(table, index_of(column, part)))
        return values

    def _table(self, k: Kernel, bytes_: Place, first: int) -> Any:
        return twice(k, _columns(k, bytes_, first, HALF))


class WideColumnLookUp(ColumnLookUp):
    """Looks columns up by shuffles of 64 bytes, which search one table or two at once."""

    lanes = WIDE_BYTES
    part = WIDE_BYTES

    def find(self, k: Kernel, tables: list[Any], column: Any) -> Any:
        """Look columns up."""
        return k.bind(find_wide_bytes(tables, column))

    def _table(self, k: Kernel, bytes_: Place, first: int) -> Any:
        return _columns(k, bytes_, first, WIDE_BYTES)


def column_look_up(machine: Machine) -> ColumnLookUp:
    """Choose by the processor."""
    return WideColumnLookUp() if machine.wide_byte_shuffles else ColumnLookUp()


def _columns(k: Kernel, bytes_: Place, first: int, count: int) -> Any:
    return k.load(bytes_, (0,), tirx.Ramp(first, 1, count))


class RowWriter:
    """Writes the bytes of a row, feature after feature."""

    def __init__(self, k: Kernel, out: Place, row: Any, x: Place, columns: RowColumns) -> None:
        self.k = k
        self.out = out
        self.row = row
        self.x = x
        self.bins = columns.bins
        self.columns = columns
        self.cells = [columns.cells(i) for i in range(len(self.bins.feature))]
        self.edges = k.constant(self.bins.edges)
        self.n_missing = k.variable("int32", literal(0, "int32", 1))

    def write(self) -> Any:
        """Write the plain columns, and return whether all values are numbers: no twin is needed."""
        celled = np.array([cells is not None for cells in self.cells], bool)
        self._write_features(np.flatnonzero(celled), self._look_up_cells)
        self._write_features(np.flatnonzero(~celled), self._search)
        if self.bins.sets.groups:
            first = self.columns.n_plain - self.bins.sets.count
            decide_sets(
                self.k,
                self.x,
                self.row,
                self.bins.sets,
                (LEFT_BYTE, RIGHT_BYTE),
                lambda number, byte: self.k.store(self.out, (0,), first + number, byte),
            )
        return tirx.EQ(self.n_missing.get(), 0)

    def write_twins(self) -> None:
        """Copy columns to their twins, but where the value is NaN."""
        k = self.k
        twins = self.columns.twins
        feature = k.constant(self.bins.feature[self.columns.feature_index[twins]])
        missing_byte = k.constant(self.columns.missing[twins])
        plain = k.constant(self.columns.plain[twins].astype(np.int32))
        with k.over((len(twins),)) as (i,):
            is_nan = tirx.isnan(k.load(self.x, (k.entry(feature, i),), self.row))
            # Twins equal their plain columns for every number.
            copied = k.load(self.out, (0,), k.entry(plain, i))
            byte = tirx.Select(is_nan, k.entry(missing_byte, i), copied)
            k.store(self.out, (0,), i + self.columns.n_plain, byte)

    def _write_features(self, features: Ints, finder: Callable[[Ints], Find]) -> None:
        """Find the bins of some features in one way, and write them to their columns."""
        if not len(features):
            return
        k = self.k
        bins = self.bins
        plain = self.columns.plain_thresholds
        owner = self.columns.feature_index[plain]
        start = np.searchsorted(owner, np.arange(len(bins.feature) + 1)).astype(np.int32)
        feature = k.constant(bins.feature[features])
        begin = k.constant(start[:-1][features])
        end = k.constant(start[1:][features])
        first = k.constant(bins.first[plain])
        missing_byte = k.constant(self.columns.missing[plain])
        find = finder(features)
        with k.over((len(features),)) as (i,):
            value = k.bind(k.load(self.x, (k.entry(feature, i),), self.row))
            is_nan = k.bind(tirx.isnan(value))
            # A count needs no branch; only whether it is 0 matters.
            self.n_missing.set(self.n_missing.get() + tirx.Cast("int32", is_nan))
            bin_ = find(i, value)
            column_begin = k.bind(k.entry(begin, i))
            with T.serial(k.entry(end, i) - column_begin) as j:
                column = k.bind(column_begin + j)
                byte = _byte(bin_ - k.entry(first, column))
                byte = tirx.Select(is_nan, k.entry(missing_byte, column), byte)
                k.store(self.out, (0,), column, byte)

    def _look_up_cells(self, features: Ints) -> Find:
        """Look up how many edges lie below a value's cell, and compare with those in it."""
        k = self.k
        dtype = self.x.dtype
        cells = [cells for cells in (self.cells[i] for i in features) if cells]
        low, scale, last = (
            k.constant(np.array([getattr(c, name) for c in cells], dtype))
            for name in ("low", "scale", "last")
        )
        before = k.constant(np.concatenate([c.before for c in cells]))
        table = k.constant(np.cumsum([0, *(len(c.before) for c in cells)], dtype=np.int32))
        start = k.constant(self.bins.edge_start[:-1][features])

        def find(i: Any, value: Any) -> Any:
            position = k.bind((value - k.entry(low, i)) * k.entry(scale, i))
            cell = code_within(k, position, k.bind(k.entry(last, i)), dtype)
            below = k.bind(tirx.Cast("int32", k.entry(before, k.entry(table, i) + cell)))
            edge = k.bind(k.entry(start, i) + below)
            right = [
                tirx.Cast("int32", value > k.entry(self.edges, edge + j))
                for j in range(MAX_EDGES_IN_CELL)
            ]
            return k.bind(sum(right, below))

        return find

    def _search(self, features: Ints) -> Find:
        """Halve: one less than a power of two edges make every step stay among them."""
        k = self.k
        start = k.constant(self.bins.edge_start[:-1][features])
        counts = self.bins.edge_count[features].tolist()
        halves = k.constant(np.array([1 << (n.bit_length() - 1) for n in counts], np.int32))

        def find(i: Any, value: Any) -> Any:
            begin = k.bind(k.entry(start, i))
            count = k.variable("int32", literal(0, "int32", 1))
            half = k.variable("int32", k.entry(halves, i))
            with T.While(half.get() > 0):
                left = value <= k.entry(self.edges, begin + count.get() + half.get() - 1)
                count.set(count.get() + tirx.Select(left, literal(0, "int32", 1), half.get()))
                half.set(half.get() // 2)
            return k.bind(count.get())

        return find


def _byte(in_column: Any) -> Any:
    """Return a bin as a byte of a column."""
    at_most = tirx.min(in_column, literal(255, "int32", 1))
    inside = tirx.max(at_most, literal(0, "int32", 1))
    return tirx.Cast("uint8", inside ^ literal(SIGNED_BYTE_BIAS, "int32", 1))
