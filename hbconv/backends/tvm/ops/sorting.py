"""Emit sorts, as networks over vectors of rows, and searches in constant edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.edge_search import Cells, find_cells
from hbconv.backends.tvm.ops.reductions import insert
from hbconv.backends.tvm.tir.kernel import Kernel, code_within, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["EMITTERS", "before"]

Passed = Callable[[Any, Any], Any]
# No timings of this choice are kept.
FEW_EDGES = 16
"""Edges up to which comparing with all of them beats a search."""
EDGES_OF_CELL = (1, 2, 4, 8)
"""Edges that a cell may hold: fewer edges take fewer compares and more cells."""


def before(dtype: str, a: Any, b: Any) -> Any:
    """Whether a sorts strictly before b; NaN sorts last."""
    if not dtype.startswith("float"):
        return a < b
    return (a < b) | ((a <= a) & tirx.isnan(b))  # a <= a unless a is NaN


def sort(k: Kernel, out: Place, x: Place, axis: int) -> None:
    """Emit ``sort``: Batcher's odd-even merging network, one comparator at a time over all rows."""
    width = x.shape[axis]
    k.map_vectors(out, (x,), lambda value: value)
    outer = (*x.shape[:axis], *x.shape[axis + 1 :])
    run = 1
    while run < width:
        gap = run
        while gap >= 1:
            _merge(k, out, axis, outer, run, gap)
            gap //= 2
        run *= 2


def _merge(k: Kernel, out: Place, axis: int, outer: tuple[int, ...], run: int, gap: int) -> None:
    """Write one stage: compare entries ``gap`` apart that belong to one pair of sorted runs."""
    width = out.shape[axis]
    # The first stage of a merge (Batcher, 1968) starts at 0, each later one after ``gap`` entries.
    first = gap % run
    pairs = max(0, -(-(width - gap - first) // (2 * gap)))
    with k.over(outer) as index, k.over((pairs, gap)) as (pair, within):
        low = k.bind(pair * (2 * gap) + (within + first))
        high = k.bind(low + gap)
        with (
            T.If((high < width) & tirx.EQ(low // (2 * run), high // (2 * run))),
            T.Then(),
            k.vectors() as row,
        ):
            a, b = (k.bind(k.load(out, insert(index, axis, i), row)) for i in (low, high))
            swap = before(out.dtype, b, a)
            k.store(out, insert(index, axis, low), row, tirx.Select(swap, b, a))
            k.store(out, insert(index, axis, high), row, tirx.Select(swap, a, b))


def bucketize(k: Kernel, out: Place, x: Place, edges: Place, right: bool) -> None:
    """Emit ``bucketize``: count the edges that a value passes.

    1. Few edges are compared with one by one.
    2. Else, if cells suit the edges, those in the value's cell are compared with.
    3. Else the edges are searched by halving.
    """
    # Lists are padded with NaN, which no value passes.
    real = k.constant((~np.isnan(edges.numpy())).sum(axis=1).astype(np.int32))
    passed: Passed = (
        (lambda edge, value: edge <= value) if right else (lambda edge, value: edge < value)
    )
    if edges.shape[1] <= FEW_EDGES:
        _count(k, out, x, edges, real, passed)
    elif columns := _columns(edges.numpy()):
        _find(k, out, x, columns, real, passed)
    else:
        _search(k, out, x, edges, real, passed)


@dataclass(frozen=True, eq=False)
class _Column:
    """The distinct edges of a column, padded with NaN; their cells; and the edges up to each."""

    edges: npt.NDArray[Any]
    cells: Cells
    total: npt.NDArray[np.int32]


def _columns(edges: npt.NDArray[Any]) -> list[_Column]:
    """Find the cells of all columns, with as few edges in each as possible.

    Returns none if the edges of some column are too close to each other.
    """
    # Repeated edges count together, so that a cell of few distinct edges suffices.
    lists = [np.unique(column[~np.isnan(column)], return_counts=True) for column in edges]
    for compares in EDGES_OF_CELL if edges.dtype.kind == "f" else ():
        cells = [
            Cells(0.0, 0.0, np.array([0, len(distinct)], np.uint16))
            # So few edges fit one cell, whatever their distances.
            if len(distinct) <= compares
            else find_cells(distinct, compares)
            for distinct, _ in lists
        ]
        if all(cells):
            padding = np.full(compares, np.nan, edges.dtype)
            pairs = zip(lists, cells, strict=True)
            return [
                _Column(np.append(distinct, padding), c, np.cumsum([0, *times]).astype(np.int32))
                for (distinct, times), c in pairs
                if c
            ]
    return []


def _count(k: Kernel, out: Place, x: Place, edges: Place, real: Place, passed: Passed) -> None:
    """Compare with every edge."""
    one = literal(1, "int32", k.lanes)
    zero = literal(0, "int32", k.lanes)
    with k.over(out.shape) as index, k.vectors() as row:
        value = k.bind(k.load(x, index, row))
        count = k.register("int32", zero)
        with T.serial(edges.shape[1]) as edge:
            passes = passed(k.load(edges, (*index, edge), row), value)
            count.set(count.get() + tirx.Select(passes, one, zero))
        n_edges = k.load(real, index, row)
        k.store(out, index, row, tirx.Select(tirx.isnan(value), n_edges, count.get()))


def _find(
    k: Kernel, out: Place, x: Place, columns: list[_Column], real: Place, passed: Passed
) -> None:
    """Count by cells.

    1. Compute the cell of the value.
    2. It passes all edges of lower cells, so the count begins with these.
    3. Compare it with the edges of its own cell.
    4. Look up the count with repeated edges. NaN passes all edges.
    """
    dtype = columns[0].edges.dtype
    compares = len(columns[0].edges) - len(columns[0].total) + 1  # the padding
    numbers = zip(*((c.cells.low, c.cells.scale, c.cells.last) for c in columns), strict=True)
    places = [k.constant(np.array(of, dtype)) for of in numbers]
    before = _Lists.of(k, [c.cells.before for c in columns])
    edges = _Lists.of(k, [c.edges for c in columns])
    total = _Lists.of(k, [c.total for c in columns])
    with k.over(out.shape) as index:
        low, scale, last = (k.bind(k.entry(place, index[0])) for place in places)
        with k.rows() as row:
            value = k.bind(k.load(x, index, row))
            cell = code_within(k, k.bind((value - low) * scale), last, dtype.name)  # 1.
            first = k.bind(tirx.Cast("int32", before.entry(k, index[0], cell)))  # 2.
            count = first
            for i in range(compares):  # 3.
                edge = edges.entry(k, index[0], first + i)
                count = count + tirx.Cast("int32", passed(edge, value))
            n_edges = k.entry(real, index[0])  # 4.
            position = tirx.Select(tirx.isnan(value), n_edges, total.entry(k, index[0], count))
            k.store(out, index, row, position)


@dataclass(frozen=True, eq=False)
class _Lists:
    """One list for each column, one after the other in a table, and the begin of each."""

    data: Place
    start: Place

    @classmethod
    def of(cls, k: Kernel, lists: list[npt.NDArray[Any]]) -> _Lists:
        """Concatenate lists."""
        start = np.cumsum([0, *map(len, lists[:-1])]).astype(np.int32)
        return cls(k.constant(np.concatenate(lists)), k.constant(start))

    def entry(self, k: Kernel, column: Any, position: Any) -> Any:
        """Read an entry of a column's list."""
        return k.entry(self.data, k.entry(self.start, column) + position)


def _search(k: Kernel, out: Place, x: Place, edges: Place, real: Place, passed: Passed) -> None:
    """Search the edges by halving; a step that would end past them is not taken."""
    width = edges.shape[1]
    with k.over(out.shape) as index, k.rows() as row:
        value = k.bind(k.load(x, index, row))
        count = k.variable("int32", literal(0, "int32", 1))
        for step in (1 << bit for bit in reversed(range(width.bit_length()))):
            reached = k.bind(count.get() + step)
            # The read is done even where the step is not, so its position stays inside.
            last = tirx.min(reached, tirx.IntImm("int32", width)) - 1
            edge = k.entry(edges, index[0] * width + last)
            count.set(tirx.Select((reached <= width) & passed(edge, value), reached, count.get()))
        k.store(
            out, index, row, tirx.Select(tirx.isnan(value), k.entry(real, index[0]), count.get())
        )


EMITTERS: dict[str, Callable[..., None]] = {
    "sort": sort,
    "bucketize": bucketize,
}
