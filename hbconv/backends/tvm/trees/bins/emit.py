"""Emit bins: the values of a block of rows become bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.edge_search import MAX_EDGES_IN_CELL
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.tir.transpose import WIDE_BYTES
from hbconv.backends.tvm.trees.bins.byte_search import write_by_bytes
from hbconv.backends.tvm.trees.bins.search_tables import can_search_bytes
from hbconv.backends.tvm.trees.bins.tables import MAX_EDGES_COUNTED, SIGNED_BYTE_BIAS, Bins
from hbconv.backends.tvm.trees.byte_columns import ByteColumns

__all__ = ["write_bins"]

Ints = npt.NDArray[np.int64]
Find = Callable[[Any, Any], None]
"""``find(i, source)`` writes the bins of the i-th of some features, which is column ``source``."""


def write_bins(k: Kernel, columns: ByteColumns, block: Block, x: Place, bins: Bins) -> None:
    """Turn the values of each feature into its columns."""
    few = bins.edge_count <= MAX_EDGES_COUNTED
    by_bytes = ~few & can_search_bytes(bins) & _searches_bytes(k)
    celled = np.array([cells is not None for cells in bins.cells], bool)
    left = ~few & ~by_bytes
    write_by_bytes(k, columns, block, x, bins, np.flatnonzero(by_bytes))
    with k.temporary("int32", (1,)) as count:
        writer = _BinWriter(k, columns, block, x, bins, count)
        writer.write(np.flatnonzero(few), writer.count_edges)
        writer.write(np.flatnonzero(celled & left), writer.look_up_cells)
        writer.write(np.flatnonzero(~celled & left), writer.search)


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
                bin_ = k.load(self.count, (0,), row)
                self.columns.store(self.block, column, row, _byte(k, bin_, below))
            with T.Else(), self.block.vectors() as row:
                is_nan = tirx.isnan(self._value(source, row))
                nan_bin = tirx.Broadcast(missing, k.lanes)
                bin_ = tirx.Select(is_nan, nan_bin, k.load(self.count, (0,), row))
                self.columns.store(self.block, column, row, _byte(k, bin_, below))

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
                    total.set(total.get() + tirx.Select(value <= threshold, zero, one))
                k.store(self.count, (0,), row, total.get())

        return find

    def look_up_cells(self, features: Ints) -> Find:
        """Look up how many edges lie below a value's cell, and compare with those in it."""
        k = self.k
        cells = [self.bins.cells[i] for i in features]
        low, scale, last = (
            k.constant(np.array([getattr(c, name) for c in cells], self.x.dtype))
            for name in ("low", "scale", "last")
        )
        before = k.constant(np.concatenate([c.before for c in cells if c]))
        table = k.constant(np.cumsum([0, *(len(c.before) for c in cells if c)], dtype=np.int32))
        start = k.constant(self.bins.edge_start[:-1][features])
        edges = k.constant(self.bins.edges)

        def find(i: Any, source: Any) -> None:
            begin = k.bind(k.entry(start, i))
            first_entry = k.bind(k.entry(table, i))
            nan_entry = k.bind(k.entry(table, i + 1) - 1)
            line = [k.bind(tirx.Broadcast(k.entry(t, i), k.lanes)) for t in (low, scale, last)]
            self._write_cells(source, line, first_entry, nan_entry)
            self._count_below(source, before, edges, begin)

        return find

    def _write_cells(self, source: Any, line: list[Any], first: Any, nan_entry: Any) -> None:
        """Write the entry of each value's cell, which begin at ``first``; NaN has its own.

        The cell is ``(value - low) * scale``, held between 0 and the last; these are the ``line``.
        """
        k = self.k
        low, scale, last = line
        zero = literal(0, self.x.dtype, k.lanes)
        with self.block.vectors() as row:
            value = k.bind(self._value(source, row))
            position = k.bind((value - low) * scale)
            inside = k.bind(tirx.Select(position <= last, position, last))
            inside = tirx.Select(inside >= zero, inside, zero)
            cell = tirx.Cast(f"int32x{k.lanes}", inside) + tirx.Broadcast(first, k.lanes)
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
                tirx.Cast("int32", value > k.entry(edges, begin + below + edge))
                for edge in range(MAX_EDGES_IN_CELL)
            ]
            k.store(self.count, (0,), row, sum(right, below))

    def search(self, features: Ints) -> Find:
        """Halve: one less than a power of two edges make every step stay among them."""
        k = self.k
        edges = k.constant(self.bins.edges)
        start = k.constant(self.bins.edge_start[:-1][features])
        counts = self.bins.edge_count[features].tolist()
        halves = k.constant(np.array([1 << (n.bit_length() - 1) for n in counts], np.int32))

        def find(i: Any, source: Any) -> None:
            begin = k.bind(k.entry(start, i))
            with self.block.vectors() as row:
                k.store(self.count, (0,), row, literal(0, "int32", k.lanes))
            half = k.variable("int32", k.entry(halves, i))
            with T.While(half.get() > 0):
                step = k.bind(half.get())
                with self.block.rows() as row:
                    position = k.bind(k.load(self.count, (0,), row))
                    edge = k.entry(edges, begin + position + step - 1)
                    left = self._value(source, row) <= edge
                    onward = tirx.Select(left, tirx.IntImm("int32", 0), step)
                    k.store(self.count, (0,), row, position + onward)
                half.set(step // 2)

        return find


def _byte(k: Kernel, bin_: Any, below: Any) -> Any:
    """Return bins as bytes of the column that begins after ``below`` edges."""
    in_column = bin_ - tirx.Broadcast(below, k.lanes)
    at_most = tirx.min(in_column, literal(255, "int32", k.lanes))
    inside = tirx.max(at_most, literal(0, "int32", k.lanes))
    return tirx.Cast(f"uint8x{k.lanes}", inside ^ literal(SIGNED_BYTE_BIAS, "int32", k.lanes))
