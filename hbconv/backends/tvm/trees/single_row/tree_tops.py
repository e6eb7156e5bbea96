"""Emit tree tops: for one row, the splits at the top of many trees at once.

The bins of the row are written side by side, a byte for each column. Then splits look columns up in
registers: a byte for each of many trees.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.edge_search import MAX_EDGES_IN_CELL
from hbconv.backends.tvm.tir.kernel import Kernel, code_within, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.shuffles import find_bytes, find_wide_bytes, twice
from hbconv.backends.tvm.trees.bins.emit import decide_sets
from hbconv.backends.tvm.trees.bins.tables import LEFT_BYTE, RIGHT_BYTE, SIGNED_BYTE_BIAS
from hbconv.backends.tvm.trees.single_row.row_columns import (
    TO_SECOND,
    RowColumns,
    columns_of_table,
    trees_per_vector,
)
from hbconv.backends.tvm.trees.single_row.top_tables import Levels, Merges, Moves, TreeTops

__all__ = ["ExitFinder", "finding_exits"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Find = Callable[[Any, Any], Any]
"""``find(i, value)`` returns the bin of a value of the i-th of some features."""


@contextmanager
def finding_exits(k: Kernel, tops: TreeTops, columns: RowColumns) -> Iterator[ExitFinder]:
    """Take memory for the bytes of a row, and for the exits it comes to."""
    part = columns_of_table(k.machine)
    # Whole tables of a look-up, as they are loaded at once.
    n_bytes = -(-len(columns.order) // part) * part
    n_trees = tops.groups * tops.group
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
        self.exit_start = k.constant(tops.exit_start)
        self.passage = PASSAGES[type(tops.form)](k, tops, exits)

    @contextmanager
    def groups(self, row: Any, x: Place) -> Iterator[Any]:
        """Find the exits of a row in one group of trees after another, and yield the group.

        Only a row with NaN reads the twins. What follows the exits of a group is done before those
        of the next one, so that the processor adds leaves while it waits for splits.
        """
        k = self.k
        tops = self.tops
        writer = RowWriter(k, self.bytes, row, x, self.columns)
        no_nan = k.bind(tirx.Cast("int32", writer.write()))
        n_plain = self.columns.n_plain
        n_columns = len(self.columns.order)
        if n_columns > n_plain:
            with T.If(tirx.EQ(no_nan, 0)), T.Then():
                writer.write_twins()
        plain = column_look_up(k, self.bytes, n_plain, tops.plain)
        every = column_look_up(k, self.bytes, n_columns, tops.every)
        with k.over((tops.groups,)) as (group,):
            if n_columns == n_plain:
                self.passage.take(group, plain)
            else:
                with T.If(tirx.EQ(no_nan, 0)):
                    with T.Then():
                        self.passage.take(group, every)
                    with T.Else():
                        self.passage.take(group, plain)
            yield group

    def exit(self, place: Any) -> Any:
        """Return the position of the exit of the tree at a place, in the list of all exits."""
        number = self.k.load(self.exits, (0,), place)
        return self.k.entry(self.exit_start, place) + tirx.Cast("int32", number)


class Passage:
    """Takes a row through the splits of a group of trees, to an exit of each.

    Parameters
    ----------
    k : Kernel
    tops : TreeTops
    exits : Place
        Where their numbers are written.
    """

    def __init__(self, k: Kernel, tops: TreeTops, exits: Place) -> None:
        self.k = k
        self.form: Any = tops.form
        self.group = tops.group
        self.exits = exits
        self.lanes = trees_per_vector(k.machine)
        self.kind = f"uint8x{self.lanes}"
        self.zero = literal(0, "uint8", self.lanes)
        self.threshold = k.constant(tops.threshold)
        self.group_start = k.constant(tops.group_start)

    def take(self, group: Any, look_up: ColumnLookUp) -> None:
        """Write the exits of the trees of a group."""
        raise NotImplementedError

    def goes_right(self, look_up: ColumnLookUp, slot: Any, first: int) -> Any:
        """Say for a slot's splits, from the first of some lanes on, whether the row goes right."""
        signed = f"int8x{self.lanes}"
        value = look_up.find(slot, first, self.group)
        threshold = self.entries(self.threshold, slot, first)
        # AVX2 compares signed bytes only, and columns are stored as such.
        return tirx.reinterpret(signed, value) > tirx.reinterpret(signed, threshold)

    def entries(self, table: Place, slot: Any, first: int) -> Any:
        """Read the bytes of the trees in some lanes of a slot."""
        return self.k.entries(table, slot * self.group + first, self.lanes)

    def write(self, group: Any, first: int, exits: Any) -> None:
        """Write the exits of the trees in some lanes."""
        to = tirx.Ramp(group * self.group + first, 1, self.lanes)
        self.k.store(self.exits, (0,), to, exits)


class PassageByMoves(Passage):
    """Moves a row from exit to exit."""

    def __init__(self, k: Kernel, tops: TreeTops, exits: Place) -> None:
        super().__init__(k, tops, exits)
        self.first = k.constant(self.form.first)
        self.right = k.constant(self.form.right)

    def take(self, group: Any, look_up: ColumnLookUp) -> None:
        """Pass one slot after another, the vectors of a group in turn."""
        k = self.k
        firsts = range(0, self.group, self.lanes)
        exits = [k.variable(self.kind, self.zero) for _ in firsts]
        begin = k.bind(k.entry(self.group_start, group))
        with T.serial(k.entry(self.group_start, group + 1) - begin) as i:
            slot = k.bind(begin + i)
            for first, at in zip(firsts, exits, strict=True):
                right = self.goes_right(look_up, slot, first)
                is_there = tirx.EQ(at.get(), self.entries(self.first, slot, first))
                moved = self.entries(self.right, slot, first)
                at.set(tirx.Select(tirx.And(right, is_there), moved, at.get()))
        for first, at in zip(firsts, exits, strict=True):
            self.write(group, first, at.get())


class PassageByLevels(Passage):
    """Numbers the exit by a bit of each level."""

    def take(self, group: Any, look_up: ColumnLookUp) -> None:
        """Pass one level after another."""
        k = self.k
        exits = k.variable(self.kind, self.zero)
        one = literal(1, "uint8", self.lanes)
        begin = k.bind(k.entry(self.group_start, group))
        with T.serial(k.entry(self.group_start, group + 1) - begin) as level:
            right = self.goes_right(look_up, k.bind(begin + level), 0)
            # Doubled by an addition, since processors cannot shift bytes of vectors.
            exits.set(exits.get() + exits.get() + tirx.Select(right, one, self.zero))
        self.write(group, 0, exits.get())


class PassageByMerges(Passage):
    """Takes the exit of one side at each split, from the last level up."""

    def __init__(self, k: Kernel, tops: TreeTops, exits: Place) -> None:
        super().__init__(k, tops, exits)
        self.first = k.constant(self.form.first)

    def take(self, group: Any, look_up: ColumnLookUp) -> None:
        """Merge the sides of all splits."""
        self.write(group, 0, self._merge(group, look_up, 0, 0))

    def _merge(self, group: Any, look_up: ColumnLookUp, level: int, place: int) -> Any:
        """Return the exit below a place of a level."""
        depth = self.form.depth
        slot = group * (2**depth - 1) + (2**level - 1 + place)
        if level == depth - 1:
            left = self.entries(self.first, group * 2**level + place, 0)
            one = literal(1, "uint8", self.lanes)
            right = self.goes_right(look_up, slot, 0)
            return self._kept(left + tirx.Select(right, one, self.zero))
        left, right = (self._merge(group, look_up, level + 1, 2 * place + i) for i in (0, 1))
        return self._kept(tirx.Select(self.goes_right(look_up, slot, 0), right, left))

    def _kept(self, value: Any) -> Any:
        """Compute a value once: TVM's facts about names that are bound grow with each level."""
        return self.k.variable(self.kind, value).get()


PASSAGES: dict[type, type[Passage]] = {
    Moves: PassageByMoves,
    Levels: PassageByLevels,
    Merges: PassageByMerges,
}


class ColumnLookUp:
    """Looks columns up by shuffles of 32 bytes, one for each sixteen columns.

    Parameters
    ----------
    k : Kernel
    bytes_ : Place
        The bytes of a row.
    n_columns : int
        How many of them are looked up.
    indices : uint8 (n_slots, n_indices, n_trees_of_group)
        As ``look_up_indices`` returns.
    """

    def __init__(self, k: Kernel, bytes_: Place, n_columns: int, indices: Bytes) -> None:
        self.k = k
        self.lanes = trees_per_vector(k.machine)
        self.indices = k.constant(indices)
        self.n_indices = indices.shape[1]
        self.to_second = literal(TO_SECOND, "uint8", self.lanes)
        part = columns_of_table(k.machine)
        self.tables = [
            k.bind(self._table(k.load(bytes_, (0,), tirx.Ramp(at, 1, part))))
            for at in range(0, n_columns, part)
        ]

    def find(self, slot: Any, first: int, group: int) -> Any:
        """Look up the columns of a slot's splits, from the first of some lanes on."""
        begin = slot * (self.n_indices * group) + first
        return self._find(
            [
                self.k.entries(self.indices, begin + i * group, self.lanes)
                for i in range(self.n_indices)
            ]
        )

    def _table(self, columns: Any) -> Any:
        return twice(self.k, columns)

    def _find(self, indices: list[Any]) -> Any:
        found = []
        for pair, index in enumerate(indices):
            first, *second = self.tables[2 * pair : 2 * pair + 2]
            at = self.k.bind(index)
            found.append(find_bytes(first, at))
            found += [find_bytes(table, at + self.to_second) for table in second]
        # Each table gives zero for columns of the others.
        return reduce(operator.or_, found)


class WideColumnLookUp(ColumnLookUp):
    """Looks columns up by shuffles of 64 bytes, which search one table or two at once."""

    def _table(self, columns: Any) -> Any:
        return columns

    def _find(self, indices: list[Any]) -> Any:
        return find_wide_bytes(self.tables, indices[0])


def column_look_up(k: Kernel, bytes_: Place, n_columns: int, indices: Bytes) -> ColumnLookUp:
    """Choose by the processor."""
    kind = WideColumnLookUp if k.machine.wide_byte_shuffles else ColumnLookUp
    return kind(k, bytes_, n_columns, indices)


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
