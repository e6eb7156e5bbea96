"""Write the columns of bytes that splits compare: of thresholds, category sets, and classes.

The bin of a value is found in one of four ways. Few edges are counted, and a cell of values tells
how many of many lie below it: those in it are counted or halved. With VBMI a search looks bytes up
in registers for 64 values at once.

In that search the cell of a value has the number of edges that lie below it. The edges in its cell
are halved until one is left to compare with. An edge is looked up byte by byte, and weaving makes
values of the bytes. So what is packed to bytes comes back in the order that it had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.edge_search import MAX_EDGES_IN_CELL, Cells
from hbconv.backends.tvm.tir.kernel import Kernel, code_within, literal, spread
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block, ByteColumns
from hbconv.backends.tvm.tir.shuffles import WIDE_BYTES, find_wide_bytes, pack, weave, woven_rows
from hbconv.backends.tvm.trees.bins.tables import (
    ENTRIES,
    LEFT_BYTE,
    MAX_EDGES_COUNTED,
    RIGHT_BYTE,
    SIGNED_BYTE_BIAS,
    Bins,
    can_search_bytes,
    make_search_tables,
)
from hbconv.trees.category_sets import CategorySets

__all__ = ["decide_sets", "write_bins", "write_classes", "write_decisions", "write_split_columns"]

Ints = npt.NDArray[np.int64]
Find = Callable[[Any, Any], None]
"""``find(i, source)`` writes the bins of the i-th of some features, which is column ``source``."""


def write_bins(k: Kernel, columns: ByteColumns, block: Block, x: Place, bins: Bins) -> None:
    """Turn the values of each feature into its columns."""
    few = bins.edge_count <= MAX_EDGES_COUNTED
    # Row by row this took a third of the time of 500 trees of 8 leaves: 70 ns a row, and 50 by
    # bytes.
    by_bytes = ~few & can_search_bytes(bins) & _searches_bytes(k)
    celled = np.array([cells is not None for cells in bins.cells], bool)
    left = ~few & ~by_bytes
    write_by_bytes(k, columns, block, x, bins, np.flatnonzero(by_bytes))
    with k.temporary("int32", (1,)) as count:
        writer = _BinWriter(k, columns, block, x, bins, count)
        writer.write(np.flatnonzero(few), writer.count_edges)
        writer.write(np.flatnonzero(celled & left), writer.look_up_cells)
        writer.write(np.flatnonzero(~celled & left), writer.halve_cells)


def _searches_bytes(k: Kernel) -> bool:
    return k.machine.wide_byte_shuffles and k.schedule.block % WIDE_BYTES == 0


class _BinWriter:
    """Writes the columns of a block; ``count`` holds the bins of one feature."""

    def __init__(
        self, k: Kernel, columns: ByteColumns, block: Block, x: Place, bins: Bins, count: Place
    ) -> None:
        self.k = k
        self.columns = columns
        self.block = block
        self.x = x
        self.bins = bins
        self.count = count

    def write(self, features: Ints, finder: Callable[[Ints], Find]) -> None:
        """Write the columns of some features, whose bins are found in one way."""
        if not len(features):
            return
        k = self.k
        bins = self.bins
        feature = k.constant(bins.feature[features])
        start = k.constant(bins.column_start[:-1][features])
        end = k.constant(bins.column_start[1:][features])
        first = k.constant(bins.first)
        missing = k.constant(bins.missing)
        find = finder(features)
        with k.over((k.number(len(features)),)) as (i,):
            source = k.bind(k.entry(feature, i))
            find(i, source)
            begin = k.bind(k.entry(start, i))
            with T.serial(k.entry(end, i) - begin) as j:
                column = k.bind(begin + j)
                below = k.bind(k.entry(first, column))
                self._write_column(column, source, below, k.bind(k.entry(missing, column)))

    def _write_column(self, column: Any, source: Any, below: Any, missing: Any) -> None:
        """Write a column that begins after ``below`` edges; the bin of NaN is -1 for the last."""
        k = self.k
        with T.If(missing < 0):
            with T.Then(), self.block.vectors() as row:
                self._store(column, row, k.load(self.count, (0,), row), below)
            with T.Else(), self.block.vectors() as row:
                is_nan = tirx.isnan(self._value(source, row))
                nan_bin = tirx.Broadcast(missing, k.lanes)
                bin_ = tirx.Select(is_nan, nan_bin, k.load(self.count, (0,), row))
                self._store(column, row, bin_, below)

    def _store(self, column: Any, row: Any, bin_: Any, below: Any) -> None:
        """Write the bytes of bins."""
        n_bytes = self.bins.bytes_per_column
        for i, byte in enumerate(_bytes_of(self.k, self.bins, bin_, below)):
            self.columns.store(self.block, column * n_bytes + i, row, byte)

    def _value(self, source: Any, row: Any) -> Any:
        return self.k.load(self.x, (source,), self.block.in_tile(row))

    def count_edges(self, features: Ints) -> Find:
        """Count the edges that a value lies right of."""
        k = self.k
        one = literal(1, "int32", k.lanes)
        zero = literal(0, "int32", k.lanes)
        edges = k.constant(self.bins.edges)
        start = k.constant(self.bins.edge_start[:-1][features])
        size = k.constant(self.bins.edge_count[features])

        def find(i: Any, source: Any) -> None:
            begin = k.bind(k.entry(start, i))
            edge_count = k.bind(k.entry(size, i))
            with self.block.vectors() as row:
                value = k.bind(self._value(source, row))
                total = k.register("int32", zero)
                with T.serial(edge_count) as edge:
                    threshold = tirx.Broadcast(k.entry(edges, begin + edge), k.lanes)
                    # Not ``value > threshold``: NaN lies right of all edges.
                    total.set(total.get() + tirx.Select(value <= threshold, zero, one))
                k.store(self.count, (0,), row, total.get())

        return find

    def look_up_cells(self, features: Ints) -> Find:
        """Look up how many edges lie below a value's cell, and compare with those in it."""
        k = self.k
        cells = [cells for cells in (self.bins.cells[i] for i in features) if cells]
        edges, start = self._edges(features)
        before, write_cells = self._cells(cells)

        def find(i: Any, source: Any) -> None:
            write_cells(i, source)
            self._count_below(source, before, edges, k.bind(k.entry(start, i)))

        return find

    def _edges(self, features: Ints) -> tuple[Place, Place]:
        """Return all edges, and where those of each feature begin."""
        k = self.k
        return k.constant(self.bins.edges), k.constant(self.bins.edge_start[:-1][features])

    def _cells(self, cells: list[Cells]) -> tuple[Place, Find]:
        """Return the edges before each cell, and what writes the entries of values there.

        The cell is ``(value - low) * scale``, held between 0 and the last.
        """
        k = self.k
        low, scale, last = (
            k.constant(np.array([getattr(c, name) for c in cells], self.x.dtype))
            for name in ("low", "scale", "last")
        )
        before = k.constant(np.concatenate([c.before for c in cells]))
        table = k.constant(np.cumsum([0, *(len(c.before) for c in cells)], dtype=np.int32))

        def write(i: Any, source: Any) -> None:
            first_entry = k.bind(k.entry(table, i))
            nan_entry = k.bind(k.entry(table, i + 1) - 1)
            line = [k.bind(tirx.Broadcast(k.entry(t, i), k.lanes)) for t in (low, scale, last)]
            self._write_cells(source, line, first_entry, nan_entry)

        return before, write

    def _write_cells(self, source: Any, line: list[Any], first: Any, nan_entry: Any) -> None:
        """Write the entry of each value's cell, which begin at ``first``; NaN has its own."""
        k = self.k
        low, scale, last = line
        zero = literal(0, self.x.dtype, k.lanes)
        with self.block.vectors() as row:
            value = k.bind(self._value(source, row))
            position = k.bind((value - low) * scale)
            inside = k.bind(tirx.Select(position <= last, position, last))
            inside = tirx.Select(inside >= zero, inside, zero)
            cell = tirx.Cast(f"int32x{k.lanes}", inside) + tirx.Broadcast(first, k.lanes)
            # A cast of NaN to int is undefined, so NaN has an entry of its own.
            nan_cell = tirx.Broadcast(nan_entry, k.lanes)
            k.store(self.count, (0,), row, tirx.Select(tirx.isnan(value), nan_cell, cell))

    def _count_below(self, source: Any, before: Place, edges: Place, begin: Any) -> None:
        """Replace the entry of each value by its bin: edges before the cell, and some in it."""
        k = self.k
        with self.block.rows() as row:
            cell = k.load(self.count, (0,), row)
            below = k.bind(tirx.Cast("int32", k.entry(before, cell)))
            value = k.bind(self._value(source, row))
            right = [
                # Edges past the last are infinite, and no value is above them.
                tirx.Cast("int32", value > k.entry(edges, begin + below + edge))
                for edge in range(MAX_EDGES_IN_CELL)
            ]
            k.store(self.count, (0,), row, sum(right, below))

    def halve_cells(self, features: Ints) -> Find:
        """Look up how many edges lie below a value's cell, and halve those in it."""
        k, bins = self.k, self.bins
        edges, start = self._edges(features)
        halved = [found for found in (bins.halved[i] for i in features) if found]
        before, write_cells = self._cells([found.cells for found in halved])
        halves = k.constant(np.array([1 << found.steps - 1 for found in halved], np.int32))

        def below(cell: Any) -> Any:
            return tirx.Cast("int32", k.entry(before, cell))

        def find(i: Any, source: Any) -> None:
            write_cells(i, source)
            begin = k.bind(k.entry(start, i))
            half = k.variable("int32", k.entry(halves, i))
            self._halve(source, edges, begin, half.get(), below)
            half.set(half.get() // 2)
            with T.While(half.get() > 0):
                self._halve(source, edges, begin, half.get(), lambda position: position)
                half.set(half.get() // 2)

        return find

    def _halve(
        self, source: Any, edges: Place, begin: Any, half: Any, below: Callable[[Any], Any]
    ) -> None:
        """Move each value past ``half`` edges if it lies right of the last of them."""
        k = self.k
        step = k.bind(half)
        with self.block.rows() as row:
            position = k.bind(below(k.load(self.count, (0,), row)))
            edge = k.entry(edges, begin + position + step - 1)
            # NaN has all edges below it already, and is above none.
            right = self._value(source, row) > edge
            onward = tirx.Select(right, step, tirx.IntImm("int32", 0))
            k.store(self.count, (0,), row, position + onward)


def _bytes_of(k: Kernel, bins: Bins, bin_: Any, below: Any) -> list[Any]:
    """Return bins as bytes of the column that begins after ``below`` edges, the lowest first."""
    in_column = bin_ - tirx.Broadcast(below, k.lanes)
    at_most = tirx.min(in_column, literal(bins.edges_per_column, "int32", k.lanes))
    inside = k.bind(tirx.max(at_most, literal(0, "int32", k.lanes)))
    bias = literal(SIGNED_BYTE_BIAS, "uint8", k.lanes)
    shifts = [literal(8 * i, "int32", k.lanes) for i in range(bins.bytes_per_column)]
    # Flipping the highest bit keeps the order of bytes as signed ones.
    return [tirx.Cast(f"uint8x{k.lanes}", tirx.shift_right(inside, by)) ^ bias for by in shifts]


def write_by_bytes(
    k: Kernel, columns: ByteColumns, block: Block, x: Place, bins: Bins, features: Any
) -> None:
    """Turn the values of some features into their columns."""
    if not len(features):
        return
    search = _ByteSearch(k, block, x, bins, features)
    feature = k.constant(bins.feature[features])
    start = k.constant(bins.column_start[:-1][features])
    end = k.constant(bins.column_start[1:][features])
    # The bin -1 means right of all edges, which is their number.
    of_nan = np.repeat(bins.edge_count, np.diff(bins.column_start))
    missing = k.constant(np.where(bins.missing < 0, of_nan, bins.missing).astype(np.int32))
    with k.over((k.number(len(features)),)) as (i,):
        source, begin = (k.bind(k.entry(table, i)) for table in (feature, start))
        n_columns = k.bind(k.entry(end, i) - begin)
        with block.vectors(WIDE_BYTES) as row:
            bin_, is_nan = search.find(i, source, row)
            with T.serial(n_columns) as j:
                nan_bin = tirx.Cast("uint8", k.entry(missing, begin + j))
                # is_nan has bytes of ones or zeros, so it chooses by bits.
                chosen = (is_nan & spread(nan_bin, WIDE_BYTES)) | (~is_nan & bin_)
                biased = chosen ^ literal(SIGNED_BYTE_BIAS, "uint8", WIDE_BYTES)
                column = (begin + j) * bins.bytes_per_column
                columns.store(block, column, row, biased)
                for higher in range(1, bins.bytes_per_column):
                    zero = literal(SIGNED_BYTE_BIAS, "uint8", WIDE_BYTES)
                    columns.store(block, column + higher, row, zero)


class _ByteSearch:
    """Finds bins, from 0 to 255."""

    def __init__(self, k: Kernel, block: Block, x: Place, bins: Bins, features: Any) -> None:
        tables = make_search_tables(bins, features)
        self.k = k
        self.block = block
        self.x = x
        self.size = np.dtype(x.dtype).itemsize
        self.lanes = WIDE_BYTES // self.size
        self.number = f"int{8 * self.size}"
        self.low, self.scale = k.constant(tables.low), k.constant(tables.scale)
        self.steps = k.constant(tables.steps)
        self.before, self.edges = k.constant(tables.before), k.constant(tables.edges)

    def find(self, i: Any, source: Any, row: Any) -> tuple[Any, Any]:
        """Return the bins of 64 rows of the i-th feature, and bytes of ones where it is NaN."""
        k = self.k
        values = [
            k.bind(k.load(self.x, (source,), self.block.in_tile(rows)))
            for rows in self._vectors(row)
        ]
        cells = k.bind(pack([self._cell(i, value) for value in values]))
        before = find_wide_bytes(self._tables(self.before, i * ENTRIES), cells)
        bin_ = k.register("uint8", before, WIDE_BYTES)
        steps = k.bind(k.entry(self.steps, i))
        with T.serial(steps) as step:
            half = k.bind(tirx.shift_left(tirx.IntImm("int32", 1), steps - 1 - step))
            bin_.set(bin_.get() + self._onward(i, values, bin_.get(), half))
        is_nan = pack([self._flags(tirx.isnan(value), 255, 0) for value in values])
        return self._in_order(bin_.get()), self._in_order(is_nan)

    def _vectors(self, row: Any) -> list[Any]:
        """Return the rows of each vector of values."""
        firsts = range(0, WIDE_BYTES, self.lanes)
        return [tirx.Ramp(row.base + first, 1, self.lanes) for first in firsts]

    def _tables(self, place: Place, begin: Any) -> list[Any]:
        """Load a table of 256 bytes."""
        k = self.k
        firsts = range(0, ENTRIES, WIDE_BYTES)
        return [k.bind(k.entries(place, begin + first, WIDE_BYTES)) for first in firsts]

    def _cell(self, i: Any, value: Any) -> Any:
        """Return the cell of each value; NaN has the last one."""
        k, dtype = self.k, self.x.dtype
        low, scale = (spread(k.entry(t, i), self.lanes) for t in (self.low, self.scale))
        zero, last = (literal(bound, dtype, self.lanes) for bound in (0, ENTRIES - 1))
        position = k.bind((value - low) * scale)
        inside = k.bind(tirx.Select(position < last, position, last))
        return tirx.Cast(f"{self.number}x{self.lanes}", tirx.Select(inside > zero, inside, zero))

    def _onward(self, i: Any, values: list[Any], bin_: Any, half: Any) -> Any:
        """Return the half for rows that lie right of the edge that far on, and 0 for others."""
        k = self.k
        by = spread(tirx.Cast("uint8", half - 1), WIDE_BYTES)
        index = k.bind(
            tirx.call_llvm_pure_intrin(f"uint8x{WIDE_BYTES}", "llvm.uadd.sat.v64i8", bin_, by)
        )
        begin = k.bind(i * (self.size * ENTRIES))
        planes = [
            k.bind(find_wide_bytes(self._tables(self.edges, begin + byte * ENTRIES), index))
            for byte in range(self.size)
        ]
        kind = f"{self.x.dtype}x{self.lanes}"
        edges = [tirx.reinterpret(kind, each) for each in weave(k, planes, WIDE_BYTES)]
        return pack(
            [self._flags(value <= edge, 0, half) for value, edge in zip(values, edges, strict=True)]
        )

    def _flags(self, condition: Any, yes: Any, no: Any) -> Any:
        """Return one of two numbers for each lane."""
        both = (spread(tirx.Cast(self.number, number), self.lanes) for number in (yes, no))
        return self.k.bind(tirx.Select(condition, *both))

    def _in_order(self, packed: Any) -> Any:
        """Put bytes in the order of the rows."""
        # Packing has an order of its own: weaving undoes it for edges, this shuffle for bins.
        order = woven_rows(self.size, WIDE_BYTES)
        return self.k.bind(
            tirx.Shuffle([packed], [tirx.IntImm("int32", place) for place in order.tolist()])
        )


def write_split_columns(
    k: Kernel, columns: ByteColumns, block: Block, x: Place, bins: Bins
) -> None:
    """Write the bytes of a block: of thresholds, then of sets, then of the classes they read."""
    write_bins(k, columns, block, x, bins)
    if bins.sets.groups:
        first = len(bins.first)
        write_classes(k, columns, block, x, bins.sets, first + bins.sets.count)
        write_decisions(k, columns, block, bins.sets, first)


def write_classes(
    k: Kernel, columns: ByteColumns, block: Block, x: Place, sets: CategorySets, first: int
) -> None:
    """Write the class of each code: a column for each group of sets, from column ``first`` on."""
    feature = k.constant(sets.feature)
    start = k.constant(sets.code_start)
    class_of = k.constant(sets.class_of)
    with k.temporary("int32", (1,)) as entries, k.over((k.number(len(sets.groups)),)) as (group,):
        source = k.bind(k.entry(feature, group))
        begin = k.bind(k.entry(start, group))
        # Codes are compared as the values are, before they become ints: a value may be anything.
        last_code = tirx.Cast(x.dtype, k.entry(start, group + 1) - begin - 1)
        last = k.bind(tirx.Broadcast(last_code, k.lanes))
        with block.vectors() as row:
            value = k.bind(k.load(x, (source,), block.in_tile(row)))
            code = code_within(k, value, last, x.dtype, k.lanes)
            k.store(entries, (0,), row, code + tirx.Broadcast(begin, k.lanes))
        with block.rows() as row:
            column = k.number(first) + group
            class_ = k.entry(class_of, k.load(entries, (0,), row))
            columns.store(block, column, row, class_)


def write_decisions(
    k: Kernel, columns: ByteColumns, block: Block, sets: CategorySets, first: int
) -> None:
    """Write what each set decides: a column for each set, from column ``first`` on.

    The columns of the classes follow those of the sets.
    """
    decisions, begin = (k.constant(t) for t in sets.by_class(LEFT_BYTE, RIGHT_BYTE))
    start = k.constant(sets.start)
    classes = k.number(first + sets.count)
    with k.over((k.number(len(sets.groups)),)) as (group,):
        first_set = k.bind(k.entry(start, group))
        first_entry = k.bind(k.entry(begin, group))
        count = k.bind(k.entry(start, group + 1) - first_set)
        class_column = k.bind(columns.begin(block, classes + group))
        with T.serial(count) as i, block.rows() as row:
            column = k.number(first) + first_set + i
            class_ = tirx.Cast("int32", columns.load(class_column, row))
            decision = k.entry(decisions, first_entry + i + class_ * count)
            columns.store(block, column, row, decision)


def decide_sets(
    k: Kernel,
    x: Place,
    row: Any,
    sets: CategorySets,
    sides: tuple[int, int],
    store: Callable[[Any, Any], None],
) -> None:
    """Decide all sets for one row.

    Calls ``store(set, byte)`` for each, where the byte is the first of ``sides`` if the row goes
    left, and the second if it goes right.
    """
    decisions, begin = (k.constant(t) for t in sets.by_class(*sides))
    feature = k.constant(sets.feature)
    code_start = k.constant(sets.code_start)
    class_of = k.constant(sets.class_of)
    start = k.constant(sets.start)
    last = k.constant((np.diff(sets.code_start) - 1).astype(x.dtype))
    with k.over((len(sets.groups),)) as (group,):
        value = k.load(x, (k.entry(feature, group),), row)
        code = code_within(k, value, k.bind(k.entry(last, group)), x.dtype)
        class_ = k.bind(tirx.Cast("int32", k.entry(class_of, k.entry(code_start, group) + code)))
        first = k.bind(k.entry(start, group))
        count = k.bind(k.entry(start, group + 1) - first)
        entry = k.bind(k.entry(begin, group) + class_ * count)
        with T.serial(count) as i:
            store(first + i, k.entry(decisions, entry + i))
