"""Trees by select: every test of every tree, bottom-up, for a register of rows at once. The model is data; the code is one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.bins import Bins, make_bins
from hbconv.backends.tvm.kernel import Kernel, code_within, literal
from hbconv.backends.tvm.memory import Place
from hbconv.backends.tvm.select_tables import FIELDS, GROUP, SelectTables, make_tables
from hbconv.forest import Forest, Tables

__all__ = ["leaves", "scores"]

FEW_EDGES = 15
"""Edges up to which counting them all beats a search."""
BIAS = 128
"""Bytes are kept less 128, as signed ones: AVX2 compares no others."""


def scores(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_scores``: sums in the source's order, for trees of one output and then the next."""
    order = np.argsort(forest.target.data, kind="stable")
    parts = [_padded(order[forest.target.data[order] == output]) for output in np.unique(forest.target.data)]
    trees = np.concatenate([np.zeros(0, np.int64), *parts])
    bins = make_bins(forest, x.dtype)
    tables = make_tables(forest, bins, trees)
    start = k.constant(forest.start.data)
    k.map_vectors(out, (start,), lambda value: value)
    _evaluate(k, x, bins, tables, _adder(k, out, forest, trees))


def leaves(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_leaves``: the number of the exit leaf of each tree."""
    trees = _padded(np.arange(forest.n_trees))
    bins = make_bins(forest, x.dtype)
    _evaluate(k, x, bins, make_tables(forest, bins, trees), _numberer(k, out, forest, trees))


def _padded(trees: Any) -> Any:
    """Fill the last group."""
    return np.concatenate([trees, np.full(-len(trees) % GROUP, -1, np.int64)])


def _adder(k: Kernel, out: Place, forest: Forest, trees: Any) -> Callable[[Any, Place], None]:
    """Add the leaf values of a group; a tree that is none adds -0.0, which changes no sum."""
    width = forest.values.shape[1]
    values = k.constant(np.append(forest.values.data.reshape(-1), np.full(width, -0.0, forest.accumulate)))
    first = k.constant(np.where(trees >= 0, forest.first_leaf.data[np.maximum(trees, 0)] * width, forest.n_leaves * width).astype(np.int32))
    output = k.constant(forest.target.data[np.maximum(trees[::GROUP], 0)].astype(np.int32))

    def add(group: Any, numbers: Place) -> None:
        starts = [k.bind(k.entry(first, group * GROUP + i)) for i in range(GROUP)]
        column = k.bind(k.entry(output, group))
        with k.over((width,)) as (value,), k.rows() as row:
            total = k.load(out, (column + value,), row)
            for i, start in enumerate(starts):
                number = tirx.Cast("int32", k.load(numbers, (i,), row))
                total = total + k.entry(values, start + number * width + value)
            k.store(out, (column + value,), row, total)

    return add


def _numberer(k: Kernel, out: Place, forest: Forest, trees: Any) -> Callable[[Any, Place], None]:
    """Store the leaf numbers of a group, counted over the forest."""
    first = k.constant(forest.first_leaf.data[np.maximum(trees, 0)].astype(np.int32))

    def number(group: Any, numbers: Place) -> None:
        with k.over((GROUP,)) as (i,):
            tree = k.bind(group * GROUP + i)
            with T.If(tree < forest.n_trees), T.Then(), k.vectors() as row:
                leaf = tirx.Cast(f"int32x{k.lanes}", k.load(numbers, (i,), row))
                k.store(out, (tree,), row, leaf + tirx.Broadcast(k.entry(first, tree), k.lanes))

    return number


def _evaluate(k: Kernel, x: Place, bins: Bins, tables: SelectTables, finish: Callable[[Any, Place], None]) -> None:
    """Bin the rows, then run the program a group of trees at a time."""
    starts = k.constant(tables.group_start)
    with k.temporary("uint8", (bins.columns,)) as columns, k.temporary(tables.dtype, (1 + tables.stack + GROUP,)) as slots:
        _bin(k, columns, x, bins)
        if bins.tables:
            _decide_tables(k, columns, x, bins, bins.tables)
        with k.vectors() as row:
            k.store(slots, (0,), row, literal(0, tables.dtype, k.lanes))
        with k.over((tables.groups,)) as (group,):
            begin = k.bind(k.entry(starts, group))
            with T.serial(k.entry(starts, group + 1) - begin) as step:
                _step(k, columns, slots, tables, begin + step)
            finish(group, slots.view((GROUP,), 1 + tables.stack))


def _step(k: Kernel, columns: Place, slots: Place, tables: SelectTables, step: Any) -> None:
    """Choose between the numbers of two subtrees, for all rows of the tile."""
    steps = k.constant(_machine_words(tables))
    column, left, right, result, place, leaves_left = (k.bind(k.entry(steps, step * len(FIELDS) + i)) for i in range(len(FIELDS)))
    threshold, count = k.bind(_splat(place, "int8", k.lanes)), k.bind(_splat(leaves_left, tables.dtype, k.lanes))
    with k.vectors() as row:
        value = tirx.reinterpret(f"int8x{k.lanes}", k.load(columns, (column,), row))
        k.store(slots, (result,), row, tirx.Select(value > threshold, k.load(slots, (right,), row) + count, k.load(slots, (left,), row)))


def _machine_words(tables: SelectTables) -> Any:
    """Repeat small numbers to fill a word of 32 bits, which a processor spreads over a register as it loads it."""
    words = tables.steps.astype(np.int64)
    words[:, 4] = (words[:, 4] - BIAS) % 256 * 0x01010101
    words[:, 5] *= {"uint8": 0x01010101, "uint16": 0x00010001, "int32": 1}[tables.dtype]
    return words.astype(np.uint32).view(np.int32)


def _splat(word: Any, dtype: str, lanes: int) -> Any:
    return tirx.reinterpret(f"{dtype}x{lanes}", tirx.Broadcast(word, lanes * np.dtype(dtype).itemsize // 4))


def _bin(k: Kernel, columns: Place, x: Place, bins: Bins) -> None:
    """Turn the values of each feature into its columns of bytes."""
    feature, edge_start, column_start = (k.constant(t) for t in (bins.feature, bins.edge_start, bins.column_start))
    edges, first, nan_left = (k.constant(t) for t in (bins.edges, bins.first, bins.nan_left))
    with k.temporary("int32", (1,)) as count, k.over((len(bins.feature),)) as (i,):
        source, begin = k.bind(k.entry(feature, i)), k.bind(k.entry(edge_start, i))
        size = k.bind(k.entry(edge_start, i + 1) - begin)
        with T.If(size <= FEW_EDGES):
            with T.Then():
                _count(k, count, x, source, edges, begin, size)
            with T.Else():
                _search(k, count, x, source, edges, begin, size)
        column_begin = k.bind(k.entry(column_start, i))
        with T.serial(k.entry(column_start, i + 1) - column_begin) as j:
            column = k.bind(column_begin + j)
            below = k.bind(k.entry(first, column))
            with T.If(tirx.EQ(k.entry(nan_left, column), 0)):
                with T.Then(), k.vectors() as row:
                    k.store(columns, (column,), row, _byte(k, k.load(count, (0,), row), below))
                with T.Else(), k.vectors() as row:
                    missing = tirx.isnan(k.load(x, (source,), row))
                    position = tirx.Select(missing, literal(0, "int32", k.lanes), k.load(count, (0,), row))
                    k.store(columns, (column,), row, _byte(k, position, below))


def _decide_tables(k: Kernel, columns: Place, x: Place, bins: Bins, tables: Tables) -> None:
    """Look the codes up in each table, row by row."""
    feature, start = k.constant(bins.table_feature), k.constant(tables.start.data[:-1])
    last = k.constant(tables.last.astype(x.dtype))
    bytes_right = k.constant(np.where(tables.goes_left.data, 0 ^ BIAS, 255 ^ BIAS).astype(np.uint8))
    with k.over((tables.count,)) as (table,):
        source, begin, end = k.bind(k.entry(feature, table)), k.bind(k.entry(start, table)), k.bind(k.entry(last, table))
        with k.rows() as row:
            code = code_within(k, k.load(x, (source,), row), end, x.dtype)
            k.store(columns, (len(bins.first) + table,), row, k.entry(bytes_right, begin + code))


def _byte(k: Kernel, position: Any, below: Any) -> Any:
    """Write a bin as a byte of the column that begins after ``below`` edges."""
    inside = tirx.max(tirx.min(position - tirx.Broadcast(below, k.lanes), literal(255, "int32", k.lanes)), literal(0, "int32", k.lanes))
    return tirx.Cast(f"uint8x{k.lanes}", inside ^ literal(BIAS, "int32", k.lanes))


def _count(k: Kernel, count: Place, x: Place, source: Any, edges: Place, begin: Any, size: Any) -> None:
    """Count the edges that a value lies right of."""
    one, zero = literal(1, "int32", k.lanes), literal(0, "int32", k.lanes)
    with k.vectors() as row:
        value = k.bind(k.load(x, (source,), row))
        total = k.register("int32", zero)
        with T.serial(size) as i:
            total.set(total.get() + tirx.Select(value <= tirx.Broadcast(k.entry(edges, begin + i), k.lanes), zero, one))
        k.store(count, (0,), row, total.get())


def _search(k: Kernel, count: Place, x: Place, source: Any, edges: Place, begin: Any, size: Any) -> None:
    """Halve: one less than a power of two edges make every step stay among them."""
    with k.vectors() as row:
        k.store(count, (0,), row, literal(0, "int32", k.lanes))
    half = k.variable("int32", (size + 1) // 2)
    with T.While(half.get() > 0):
        step = k.bind(half.get())
        with k.rows() as row:
            position = k.bind(k.load(count, (0,), row))
            left = k.load(x, (source,), row) <= k.entry(edges, begin + position + step - 1)
            k.store(count, (0,), row, position + tirx.Select(left, tirx.IntImm("int32", 0), step))
        half.set(step // 2)
