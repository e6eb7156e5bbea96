"""The bins of one row, side by side: a byte for each column of the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.edge_search import COMPARES, Cells, cut
from hbconv.backends.tvm.tir.kernel import Kernel, code_within, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.bins.tables import BIAS, SEGMENT, Bins
from hbconv.backends.tvm.trees.categories.emit import say
from hbconv.backends.tvm.trees.single_row.row_columns import RowColumns, owners

__all__ = ["RowWriter"]

Ints = npt.NDArray[np.int64]


class RowWriter:
    """Writes the bytes of a row, feature after feature."""

    def __init__(self, k: Kernel, out: Place, row: Any, x: Place, columns: RowColumns) -> None:
        self.k, self.out, self.row, self.x, self.bins, self.columns = (
            k,
            out,
            row,
            x,
            columns.bins,
            columns,
        )
        self.cells = [_cells(self.bins, i) for i in range(len(self.bins.feature))]
        self.edges, self.missing = (
            k.constant(self.bins.edges),
            k.variable("int32", literal(0, "int32", 1)),
        )

    def write(self) -> Any:
        """Write the columns but for twins, and return whether all values are numbers, so that no twin is needed."""
        celled = np.array([cells is not None for cells in self.cells], bool)
        self._write_features(np.flatnonzero(celled), self._find_cell)
        self._write_features(np.flatnonzero(~celled), self._search)
        if self.bins.sets.groups:
            self._decide()
        return tirx.EQ(self.missing.get(), 0)

    def write_twins(self) -> None:
        """Copy columns to their twins, but where the value is NaN."""
        k, bins = self.k, self.bins
        twins = self.columns.order[self.columns.n_plain :]
        feature, right = (
            k.constant(bins.feature[owners(bins)[twins]]),
            k.constant(_missing(bins)[twins]),
        )
        plain = k.constant(self.columns.plain[twins].astype(np.int32))
        with k.over((len(twins),)) as (i,):
            missing = tirx.isnan(k.load(self.x, (k.entry(feature, i),), self.row))
            byte = tirx.Select(
                missing, k.entry(right, i), k.load(self.out, (0,), k.entry(plain, i))
            )
            k.store(self.out, (0,), i + self.columns.n_plain, byte)

    def _write_features(self, features: Ints, finder: Any) -> None:
        """Find the bins of some features, and write them to their columns."""
        if not len(features):
            return
        k, bins, order = self.k, self.bins, self.columns.order
        plain = order[order < len(bins.first)][: self.columns.n_plain - bins.sets.count]
        start = np.searchsorted(owners(bins)[plain], np.arange(len(bins.feature) + 1)).astype(
            np.int32
        )
        feature, begin, end = (
            k.constant(t)
            for t in (bins.feature[features], start[:-1][features], start[1:][features])
        )
        first, right = k.constant(bins.first[plain]), k.constant(_missing(bins)[plain])
        find = finder(features)
        with k.over((len(features),)) as (i,):
            value = k.bind(k.load(self.x, (k.entry(feature, i),), self.row))
            missing = k.bind(tirx.isnan(value))
            self.missing.set(self.missing.get() + tirx.Cast("int32", missing))
            count, column_begin = find(i, value), k.bind(k.entry(begin, i))
            with T.serial(k.entry(end, i) - column_begin) as j:
                column = k.bind(column_begin + j)
                inside = tirx.max(
                    tirx.min(count - k.entry(first, column), literal(255, "int32", 1)),
                    literal(0, "int32", 1),
                )
                byte = tirx.Cast("uint8", inside ^ literal(BIAS, "int32", 1))
                k.store(self.out, (0,), column, tirx.Select(missing, k.entry(right, column), byte))

    def _find_cell(self, features: Ints) -> Any:
        """Look up how many edges lie below a value's cell, and compare with those in it."""
        k, dtype = self.k, self.x.dtype
        cells = [cells for cells in (self.cells[i] for i in features) if cells]
        low, scale, last = (
            k.constant(np.array([getattr(c, name) for c in cells], dtype))
            for name in ("low", "scale", "last")
        )
        before = k.constant(np.concatenate([c.before for c in cells]))
        table = k.constant(np.cumsum([0, *(len(c.before) for c in cells)], dtype=np.int32))
        start = k.constant(self.bins.edge_start[:-1][features])

        def find(i: Any, value: Any) -> Any:
            cell = code_within(
                k,
                k.bind((value - k.entry(low, i)) * k.entry(scale, i)),
                k.bind(k.entry(last, i)),
                dtype,
            )
            below = k.bind(tirx.Cast("int32", k.entry(before, k.entry(table, i) + cell)))
            edge = k.bind(k.entry(start, i) + below)
            return k.bind(
                sum(
                    [
                        tirx.Cast("int32", value > k.entry(self.edges, edge + j))
                        for j in range(COMPARES)
                    ],
                    below,
                )
            )

        return find

    def _search(self, features: Ints) -> Any:
        """Halve: one less than a power of two edges make every step stay among them."""
        k = self.k
        start = k.constant(self.bins.edge_start[:-1][features])
        halves = k.constant(
            np.array(
                [1 << (int(n).bit_length() - 1) for n in self.bins.edge_count[features]], np.int32
            )
        )

        def find(i: Any, value: Any) -> Any:
            begin = k.bind(k.entry(start, i))
            count, half = (
                k.variable("int32", literal(0, "int32", 1)),
                k.variable("int32", k.entry(halves, i)),
            )
            with T.While(half.get() > 0):
                left = value <= k.entry(self.edges, begin + count.get() + half.get() - 1)
                count.set(count.get() + tirx.Select(left, literal(0, "int32", 1), half.get()))
                half.set(half.get() // 2)
            return k.bind(count.get())

        return find

    def _decide(self) -> None:
        """Decide the sets."""
        sets = self.bins.sets
        first = self.columns.n_plain - sets.count
        say(
            self.k,
            self.x,
            self.row,
            sets,
            0 ^ BIAS,
            255 ^ BIAS,
            lambda number, byte: self.k.store(self.out, (0,), first + number, byte),
        )


def _missing(bins: Bins) -> npt.NDArray[np.uint8]:
    """Return what each column holds for NaN."""
    inside = np.where(bins.missing < 0, SEGMENT, np.clip(bins.missing - bins.first, 0, SEGMENT))
    return (inside ^ BIAS).astype(np.uint8)


def _cells(bins: Bins, feature: int) -> Cells | None:
    """Cut a feature's edges, few of them too: that beats counting those below one value."""
    edges = bins.edges[bins.edge_start[feature] :][: bins.edge_count[feature]]
    return bins.cells[feature] or (None if np.isnan(edges[0]) else cut(edges))
