"""Emit the bins of one row, side by side: a byte for each column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.edge_search import MAX_EDGES_IN_CELL
from hbconv.backends.tvm.tir.kernel import Kernel, code_within, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.bins.tables import LEFT_BYTE, RIGHT_BYTE, SIGNED_BYTE_BIAS
from hbconv.backends.tvm.trees.single_row.row_columns import RowColumns
from hbconv.backends.tvm.trees.split_columns import decide_sets

__all__ = ["RowWriter"]

Ints = npt.NDArray[np.int64]
Find = Callable[[Any, Any], Any]
"""``find(i, value)`` returns the bin of a value of the i-th of some features."""


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
