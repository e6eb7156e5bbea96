"""Emit bins: the values of a block of rows become bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.edge_search import COMPARES
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.bins.tables import BIAS, FEW_EDGES, Bins

__all__ = ["Columns", "write_bins"]


class Columns:
    """The columns of bytes of a tile, those of a block side by side."""

    def __init__(self, k: Kernel, place: Place) -> None:
        self.k, self.place, self.count = k, place, place.shape[0]

    def store(self, block: Block, column: Any, row: Any, value: Any) -> None:
        """Write bytes of a column for a row of a block, or a vector of rows."""
        self.k.store(self.place, (0,), self._at(self.begin(block, column), row), value)

    def load(self, begin: Any, row: Any) -> Any:
        """Read bytes of the column that begins there."""
        return self.k.load(self.place, (0,), self._at(begin, row))

    def begin(self, block: Block, column: Any) -> Any:
        """Return where a column of a block begins."""
        return block.first * self.count + column * self.k.schedule.block

    def _at(self, begin: Any, row: Any) -> Any:
        return (
            tirx.Ramp(begin + row.base, row.stride, row.lanes)
            if isinstance(row, tirx.Ramp)
            else begin + row
        )


def write_bins(k: Kernel, columns: Columns, block: Block, x: Place, bins: Bins) -> None:
    """Turn the values of each feature into its columns."""
    with k.temporary("int32", (1,)) as count:
        for finder, features in _finders(bins):
            if len(features):
                _write_features(k, columns, block, x, bins, count, finder, features)


def _finders(bins: Bins) -> list[tuple[Any, Any]]:
    """How the place of a value among its edges is found, with the features that it is for."""
    celled = np.array([cells is not None for cells in bins.cells], bool)
    few = bins.edge_count <= FEW_EDGES
    return [
        (_count_edges, np.flatnonzero(few)),
        (_find_cell, np.flatnonzero(celled & ~few)),
        (_search, np.flatnonzero(~celled & ~few)),
    ]


def _write_features(
    k: Kernel,
    columns: Columns,
    block: Block,
    x: Place,
    bins: Bins,
    count: Place,
    finder: Any,
    features: Any,
) -> None:
    feature, first, missing = (
        k.constant(t) for t in (bins.feature[features], bins.first, bins.missing)
    )
    begin, end = (
        k.constant(bins.column_start[:-1][features]),
        k.constant(bins.column_start[1:][features]),
    )
    find = finder(k, block, x, bins, count, features)
    with k.over((k.number(len(features)),)) as (i,):
        source = k.bind(k.entry(feature, i))
        find(i, source)
        column_begin = k.bind(k.entry(begin, i))
        with T.serial(k.entry(end, i) - column_begin) as j:
            column = k.bind(column_begin + j)
            below = k.bind(k.entry(first, column))
            nan = k.bind(k.entry(missing, column))
            with T.If(nan < 0):
                with T.Then(), block.vectors() as row:
                    columns.store(block, column, row, _byte(k, k.load(count, (0,), row), below))
                with T.Else(), block.vectors() as row:
                    is_nan = tirx.isnan(k.load(x, (source,), block.in_tile(row)))
                    position = tirx.Select(
                        is_nan, tirx.Broadcast(nan, k.lanes), k.load(count, (0,), row)
                    )
                    columns.store(block, column, row, _byte(k, position, below))


def _byte(k: Kernel, position: Any, below: Any) -> Any:
    """Write a bin as a byte of the column that begins after ``below`` edges."""
    inside = tirx.max(
        tirx.min(position - tirx.Broadcast(below, k.lanes), literal(255, "int32", k.lanes)),
        literal(0, "int32", k.lanes),
    )
    return tirx.Cast(f"uint8x{k.lanes}", inside ^ literal(BIAS, "int32", k.lanes))


def _count_edges(k: Kernel, block: Block, x: Place, bins: Bins, count: Place, features: Any) -> Any:
    """Count the edges that a value lies right of."""
    one, zero = literal(1, "int32", k.lanes), literal(0, "int32", k.lanes)
    edges, start, size = (
        k.constant(bins.edges),
        k.constant(bins.edge_start[:-1][features]),
        k.constant(bins.edge_count[features]),
    )

    def find(i: Any, source: Any) -> None:
        begin, edge_count = k.bind(k.entry(start, i)), k.bind(k.entry(size, i))
        with block.vectors() as row:
            value = k.bind(k.load(x, (source,), block.in_tile(row)))
            total = k.register("int32", zero)
            with T.serial(edge_count) as edge:
                total.set(
                    total.get()
                    + tirx.Select(
                        value <= tirx.Broadcast(k.entry(edges, begin + edge), k.lanes), zero, one
                    )
                )
            k.store(count, (0,), row, total.get())

    return find


def _find_cell(k: Kernel, block: Block, x: Place, bins: Bins, count: Place, features: Any) -> Any:
    """Look up how many edges lie below a value's cell, and compare with those in it."""
    cells = [bins.cells[i] for i in features]
    low, scale, last = (
        k.constant(np.array([getattr(c, name) for c in cells], x.dtype))
        for name in ("low", "scale", "last")
    )
    before = k.constant(np.concatenate([c.before for c in cells if c]))
    table = k.constant(np.cumsum([0, *(len(c.before) for c in cells if c)], dtype=np.int32))
    edges, start = k.constant(bins.edges), k.constant(bins.edge_start[:-1][features])

    def find(i: Any, source: Any) -> None:
        begin, entry, after = (
            k.bind(k.entry(start, i)),
            k.bind(k.entry(table, i)),
            k.bind(k.entry(table, i + 1) - 1),
        )
        origin, factor, end = (
            k.bind(tirx.Broadcast(k.entry(t, i), k.lanes)) for t in (low, scale, last)
        )
        zero = literal(0, x.dtype, k.lanes)
        with block.vectors() as row:
            value = k.bind(k.load(x, (source,), block.in_tile(row)))
            position = k.bind((value - origin) * factor)
            inside = k.bind(tirx.Select(position <= end, position, end))
            cell = tirx.Cast(
                f"int32x{k.lanes}", tirx.Select(inside >= zero, inside, zero)
            ) + tirx.Broadcast(entry, k.lanes)
            k.store(
                count,
                (0,),
                row,
                tirx.Select(tirx.isnan(value), tirx.Broadcast(after, k.lanes), cell),
            )
        with block.rows() as row:
            below = k.bind(tirx.Cast("int32", k.entry(before, k.load(count, (0,), row))))
            value = k.bind(k.load(x, (source,), block.in_tile(row)))
            right = [
                tirx.Cast("int32", value > k.entry(edges, begin + below + i))
                for i in range(COMPARES)
            ]
            k.store(count, (0,), row, sum(right, below))

    return find


def _search(k: Kernel, block: Block, x: Place, bins: Bins, count: Place, features: Any) -> Any:
    """Halve: one less than a power of two edges make every step stay among them."""
    edges, start = k.constant(bins.edges), k.constant(bins.edge_start[:-1][features])
    halves = k.constant(
        np.array([1 << (int(n).bit_length() - 1) for n in bins.edge_count[features]], np.int32)
    )

    def find(i: Any, source: Any) -> None:
        begin = k.bind(k.entry(start, i))
        with block.vectors() as row:
            k.store(count, (0,), row, literal(0, "int32", k.lanes))
        half = k.variable("int32", k.entry(halves, i))
        with T.While(half.get() > 0):
            step = k.bind(half.get())
            with block.rows() as row:
                position = k.bind(k.load(count, (0,), row))
                left = k.load(x, (source,), block.in_tile(row)) <= k.entry(
                    edges, begin + position + step - 1
                )
                k.store(
                    count, (0,), row, position + tirx.Select(left, tirx.IntImm("int32", 0), step)
                )
            half.set(step // 2)

    return find
