"""Write what moves entries, reads tables, or works along an axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from hbconv.backends.sql.dialects.base import choose, search
from hbconv.backends.sql.elementwise import Emit, largest, product, rounded
from hbconv.backends.sql.writer import (
    ANY,
    FINITE,
    MOST_TERMS,
    Cell,
    Cells,
    SelectWriter,
    fill,
)
from hbconv.tensor.types import FLOATS

if TYPE_CHECKING:
    from hbconv.backends.sql.writer import Operation

__all__ = ["SHAPES", "any_of", "fold"]


def take(w: SelectWriter, op: Operation, x: Cells, indices: Cells) -> Cells:
    """Take positions of an axis; what is taken twice is computed once."""
    positions = [int(index.value) for index in indices.flat]
    named = w.store_all(x) if len(set(positions)) < len(positions) else x
    return np.take(named, positions, axis=op.attributes["axis"])


def concat(w: SelectWriter, op: Operation, *xs: Cells) -> Cells:  # noqa: ARG001
    return np.concatenate(xs, axis=op.attributes["axis"])


def reshape(w: SelectWriter, op: Operation, x: Cells) -> Cells:  # noqa: ARG001
    return x.reshape(op.shape)


def expand(w: SelectWriter, op: Operation, x: Cells, value: Cells) -> Cells:  # noqa: ARG001
    return value


def fold(
    w: SelectWriter, symbol: str, cells: list[Cell], dtype: str, terms: int = MOST_TERMS
) -> Cell:
    """Join by an operator, from the first to the last, in a dtype; so many terms in each stage."""
    if dtype not in FLOATS:
        return w.join(symbol, cells, FINITE)
    rounds = dtype == "float32" and not w.dialect.has_float32
    if not rounds and (symbol == "+" or not w.dialect.raises):
        return w.join(symbol, cells, terms=terms)
    total = cells[0]
    for cell in cells[1:]:
        made = (
            product(w, total, cell, dtype)
            if symbol == "*"
            else w.cell(f"({total.text}+{cell.text})", total, cell)
        )
        total = rounded(w, made, dtype)
    return total


def any_of(w: SelectWriter, conditions: Iterable[Cell]) -> Cell:
    """Return when any condition holds."""
    unsure = [cell for cell in conditions if cell.value is None or cell.value]
    return w.join(" OR ", unsure, FINITE) if unsure else w.constant(False, "bool")


def reduce_any(w: SelectWriter, op: Operation, x: Cells) -> Cells:
    return fill([any_of(w, line) for line in _lines(x, op.attributes["axis"])], op.shape)


def reduction(symbol: str, neutral: float) -> Emit:
    """Fold an axis by an operator, from its first entry to its last."""

    def emit(w: SelectWriter, op: Operation, x: Cells) -> Cells:
        lines = _lines(x, op.attributes["axis"])
        start = w.constant(np.dtype(op.dtype).type(neutral).item(), op.dtype)
        # A sum that starts from zero is never -0.0.
        first = [start] if op.primitive == "ordered_sum" or not lines.shape[1] else []
        return fill([fold(w, symbol, [*first, *line], op.dtype) for line in lines], op.shape)

    return emit


def _lines(x: Cells, axis: int) -> Cells:
    """Return the lines along an axis, (n_lines, length)."""
    moved = np.moveaxis(x, axis, -1)
    return moved.reshape(int(np.prod(moved.shape[:-1])), moved.shape[-1])


def cumsum(w: SelectWriter, op: Operation, x: Cells) -> Cells:
    """Write running sums, each of the one before."""

    def add(total: Cell, cell: Cell) -> Cell:
        return w.store(fold(w, "+", [total, w.shallow(cell)], op.dtype))

    axis = op.attributes["axis"]
    sums = [cell for line in _lines(x, axis) for cell in accumulate(line, add)]
    return np.moveaxis(fill(sums, np.moveaxis(x, axis, -1).shape), -1, axis)


def matmul(w: SelectWriter, op: Operation, x: Cells, weights: Cells) -> Cells:
    """Multiply by a constant matrix; what is zero at a finite entry adds nothing."""
    if len(x.shape) == 1:
        return fill(_product(w, x, weights, op.dtype), op.shape)
    rows = [_product(w, row, table, op.dtype) for row, table in zip(x, weights, strict=True)]
    return fill([cell for row in rows for cell in row], op.shape)


def _product(w: SelectWriter, x: Cells, weights: Cells, dtype: str) -> list[Cell]:
    x = w.store_all(x) if weights.shape[1] > 1 else fill([*map(w.shallow, x)], x.shape)
    out = []
    for column in weights.T:
        pairs = [(a, b) for a, b in zip(x, column, strict=True) if b.value or a.known < FINITE]
        terms = [rounded(w, product(w, a, b, dtype), dtype) for a, b in pairs]
        out.append(fold(w, "+", terms, dtype) if terms else w.constant(0.0, dtype))
    return out


def reduce_max(w: SelectWriter, op: Operation, x: Cells) -> Cells:
    lines = _lines(x, op.attributes["axis"])
    return fill([largest(w, *map(w.shallow, line)) for line in lines], op.shape)


def argmax(w: SelectWriter, op: Operation, x: Cells) -> Cells:
    """Write the first position that holds the largest; NaN is above all numbers, and is itself."""
    same = "=" if w.dialect.has_nan else "IS"
    found = []
    for line in _lines(x, op.attributes["axis"]):
        *cells, last = [w.store(cell) for cell in line]
        top = w.store(largest(w, *cells, last))
        whens = "".join(f" WHEN {c.text} {same} {top.text} THEN {i}" for i, c in enumerate(cells))
        text = f"CASE{whens} ELSE {len(cells)} END" if whens else "0"
        found.append(w.cell(text, top, *cells, last, known=FINITE))
    return fill(found, op.shape)


def lookup(w: SelectWriter, op: Operation, table: Cells, index: Cells) -> Cells:
    """Read entries of a table at computed positions."""
    size = len(table)
    columns = table.reshape(size, -1).T
    found = []
    for place in w.store_all(index).flat:
        found += [_entry(w, place, list(column), op.dtype) for column in columns]
    return fill(found, op.shape)


def _entry(w: SelectWriter, index: Cell, entries: list[Cell], dtype: str) -> Cell:
    text = w.dialect.pick(index.text, [entry.value for entry in entries], dtype)
    return w.cell(text, index, known=min((e.known for e in entries), default=ANY))


def lookup_codes(w: SelectWriter, op: Operation, table: Cells, codes: Cells) -> Cells:
    """Read the table of each code; its first entry is for -1."""
    sizes = op.attributes["sizes"]
    rows = table.reshape(len(table), -1)
    parts = np.split(rows, np.cumsum(sizes)[:-1]) if sizes else []
    found = []
    for code, part in zip(w.store_all(codes), parts, strict=True):
        for column in part.T:
            text = choose(code.text, [entry.text for entry in column], -1)
            found.append(w.cell(text, code, known=min(entry.known for entry in column)))
    return fill(found, op.shape)


def bucketize(w: SelectWriter, op: Operation, x: Cells, edges: Cells) -> Cells:
    """Search the edges by halves; NaN is above all of them."""
    symbol = ">=" if op.attributes["right"] else ">"
    found = []
    for value, row in zip(w.store_all(x), edges, strict=True):
        real = [edge.text for edge in row if edge.known]
        text = search(value.text, symbol, real, [str(place) for place in range(len(real) + 1)])
        if not w.dialect.has_nan and not value.known:
            text = f"CASE WHEN {value.text} IS NULL THEN {len(real)} ELSE {text} END"
        found.append(w.cell(text, value, known=FINITE))
    return fill(found, op.shape)


SHAPES: Mapping[str, Emit] = {
    "take": take,
    "concat": concat,
    "reshape": reshape,
    "expand": expand,
    "matmul": matmul,
    "reduce_sum": reduction("+", 0),
    "ordered_sum": reduction("+", 0),
    "reduce_prod": reduction("*", 1),
    "reduce_max": reduce_max,
    "reduce_any": reduce_any,
    "cumsum": cumsum,
    "argmax": argmax,
    "lookup": lookup,
    "lookup_codes": lookup_codes,
    "bucketize": bucketize,
}
"""The emitters of the other primitives, without trees."""
