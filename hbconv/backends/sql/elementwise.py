"""Write arithmetic, comparisons, logic, conversions and functions: entry by entry.

Emitters are called as ``function(writer, op, *operands)``, of arrays of cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hbconv.backends.sql.writer import (
    ANY,
    FINITE,
    MODEST,
    NUMBER,
    Cell,
    Cells,
    SelectWriter,
    fill,
)
from hbconv.tensor.types import FLOATS

if TYPE_CHECKING:
    from hbconv.backends.sql.writer import Operation

__all__ = ["ELEMENTWISE", "Emit", "convert", "in_float32", "largest", "product", "rounded"]

Emit = Callable[..., Cells]
Write = Callable[..., Cell]


def each(write: Write) -> Emit:
    """Return the emitter that writes each entry by itself: ``write(writer, op, *cells)``."""

    def emit(w: SelectWriter, op: Operation, *operands: Cells) -> Cells:
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        size = math.prod(shape)
        # What is repeated is computed once.
        named = [w.store_all(x) if x.size < size else x for x in operands]
        rows = zip(*(np.broadcast_to(x, shape).ravel() for x in named), strict=True)
        return fill([write(w, op, *map(w.shallow, row)) for row in rows], shape)

    return emit


def in_float32(w: SelectWriter, x: Cell) -> Cell:
    """Round a float64 to float32."""
    if x.value is not None:
        with np.errstate(over="ignore"):
            return w.constant(float(np.float32(x.value)), "float32")
    x = w.store(x)
    made = w.cell(w.dialect.apply("float32", x.text), x, known=min(x.known, NUMBER))
    return replace(made, double=x)


def rounded(w: SelectWriter, x: Cell, dtype: str) -> Cell:
    """Round what is to be float32 where the database has no floats of 32 bits."""
    return in_float32(w, x) if dtype == "float32" and not w.dialect.has_float32 else x


def arithmetic(symbol: str) -> Emit:
    """Write an operator."""

    def write(w: SelectWriter, op: Operation, x: Cell, y: Cell) -> Cell:
        known = FINITE if op.dtype not in FLOATS else ANY
        return rounded(w, w.cell(f"({x.text}{symbol}{y.text})", x, y, known=known), op.dtype)

    return each(write)


def multiply(w: SelectWriter, op: Operation, x: Cell, y: Cell) -> Cell:
    """Multiply ints, or floats as ``product`` does."""
    if op.dtype not in FLOATS:
        return w.cell(f"({x.text}*{y.text})", x, y, known=FINITE)
    made = product(w, x, y, op.dtype)
    return rounded(w, replace(made, text=f"({made.text})"), op.dtype)


def product(w: SelectWriter, x: Cell, y: Cell, dtype: str) -> Cell:
    """Multiply floats; a database that raises beyond their range is asked for less."""
    if not w.dialect.raises or min(x.known, y.known) >= MODEST:
        return w.cell(f"{x.text}*{y.text}", x, y)
    x, y = (y, x) if y.value is None else (x, y)
    x = w.store(x)
    if y.value is not None:
        return w.cell(w.dialect.scale(x.text, "*", y.value, dtype), x)
    if dtype == "float64":
        return in_float64(w, "multiply", dtype, x, y)
    # In float64 a product of float32 is exact, and within the range.
    sides = [convert(w, side, dtype, "float64") for side in (x, y)]
    return in_float32(w, w.cell(f"({sides[0].text}*{sides[1].text})", *sides))


def in_float64(w: SelectWriter, operation: str, dtype: str, *operands: Cell) -> Cell:
    """Apply an operation of float64 to names, and round the result to the dtype."""
    wide = [w.store(convert(w, cell, dtype, "float64")) for cell in operands]
    made = w.cell(w.dialect.apply(operation, *(cell.text for cell in wide)), *wide)
    return convert(w, made, "float64", dtype)


def divide(w: SelectWriter, op: Operation, x: Cell, y: Cell) -> Cell:
    """Divide; of a divisor that is no constant the dialect knows what zero gives.

    A quotient of float32 is within the range of float64, and rounds twice to the same.
    """
    if y.value is None or y.value == 0:
        return in_float64(w, "divide", op.dtype, x, y)
    x = w.store(x) if w.dialect.raises else x
    made = w.cell(f"({w.dialect.scale(x.text, '/', y.value, op.dtype)})", x)
    return rounded(w, made, op.dtype)


def form(operation: str) -> Emit:
    """Write what is no NaN, finite or modest where its operand is, by its form."""

    def write(w: SelectWriter, op: Operation, x: Cell) -> Cell:  # noqa: ARG001
        return w.cell(w.dialect.apply(operation, x.text), x, known=x.known)

    return each(write)


def function(name: str) -> Emit:
    """Write a function, which databases compute in float64."""

    def write(w: SelectWriter, op: Operation, *operands: Cell) -> Cell:
        return in_float64(w, name, op.dtype, *operands)

    return each(write)


def rounding(name: str) -> Emit:
    """Write what makes whole numbers of floats, exactly in both dtypes."""

    def write(w: SelectWriter, op: Operation, x: Cell) -> Cell:
        x = w.store(x)
        return w.cell(w.dialect.cast(w.dialect.apply(name, x.text), op.dtype), x, known=x.known)

    return each(write)


def remainder(w: SelectWriter, op: Operation, x: Cell, y: Cell) -> Cell:
    """Write the rest of a division; of an int by zero it is 0."""
    if op.dtype in FLOATS:
        # DuckDB's remainder of float32 is not exact, and that of float64 is.
        return in_float64(w, "remainder", op.dtype, x, y)
    x, y = w.store(x), w.store(y)
    # The rest by -1 is 0, and the least int by -1 has none in some databases.
    text = f"CASE WHEN {y.text} IN (0,-1) THEN 0 ELSE {x.text}%{y.text} END"
    return w.cell(text, x, y, known=FINITE)


def quotient(w: SelectWriter, op: Operation, x: Cell, y: Cell) -> Cell:  # noqa: ARG001
    """Write the whole quotient of ints; by zero it is 0."""
    x, y = w.store(x), w.store(y)
    whole = w.dialect.apply("whole quotient", x.text, y.text)
    return w.cell(f"CASE WHEN {y.text}=0 THEN 0 ELSE {whole} END", x, y, known=FINITE)


def largest(w: SelectWriter, *xs: Cell, sign: str = "") -> Cell:
    """Write the largest, or the largest of the negatives; NaN where there is one."""
    text = w.dialect.greatest([sign + x.text for x in xs])
    return w.cell(text, *xs, known=min(x.known for x in xs))


def maximum(w: SelectWriter, op: Operation, x: Cell, y: Cell) -> Cell:  # noqa: ARG001
    return largest(w, x, y)


def minimum(w: SelectWriter, op: Operation, x: Cell, y: Cell) -> Cell:
    """Write the least of ints, or the largest of the negatives: NaN is above all numbers."""
    if op.dtype in FLOATS:
        made = largest(w, x, y, sign="-")
        return replace(made, text=f"(-{made.text})")
    text = f"CASE WHEN {x.text}<={y.text} THEN {x.text} ELSE {y.text} END"
    return w.cell(text, x, y, known=FINITE)


def comparison(symbol: str) -> Emit:
    """Write a comparison, which is false where a side is NaN: others are written by these."""

    def write(w: SelectWriter, op: Operation, x: Cell, y: Cell) -> Cell:  # noqa: ARG001
        if symbol == "<" and y.value == np.inf and x.known >= FINITE:
            return w.constant(True, "bool")
        test = f"{x.text}{symbol}{y.text}"
        if x.known and y.known:
            return w.cell(f"({test})", x, y, known=FINITE)
        if not w.dialect.has_nan:
            return w.cell(f"coalesce({test},FALSE)", x, y, known=FINITE)
        # NaN equals itself and is above all numbers.
        holds_of_nan = not y.known and not (symbol == "=" and x.known)
        made = (
            f"({test} AND NOT {w.dialect.apply('isnan', y.text)})" if holds_of_nan else f"({test})"
        )
        return w.cell(made, x, y, known=FINITE)

    return each(write)


def isnan(w: SelectWriter, op: Operation, x: Cell) -> Cell:  # noqa: ARG001
    if x.known:
        return w.constant(False, "bool")
    x = w.store(x)
    return w.cell(w.dialect.apply("isnan", x.text), x, known=FINITE, tested=x.text)


def logic(word: str, symbol: str) -> Emit:
    """Write an operator of bools, or of the bits of ints."""

    def write(w: SelectWriter, op: Operation, x: Cell, y: Cell) -> Cell:
        between = word if op.dtype == "bool" else symbol
        return w.cell(f"({x.text}{between}{y.text})", x, y, known=FINITE)

    return each(write)


def negation(w: SelectWriter, op: Operation, x: Cell) -> Cell:  # noqa: ARG001
    if x.value is not None:
        return w.constant(not x.value, "bool")
    return w.cell(f"(NOT {x.text})", x, known=FINITE)


def where(w: SelectWriter, op: Operation, condition: Cell, x: Cell, y: Cell) -> Cell:  # noqa: ARG001
    if condition.value is not None:
        return x if condition.value else y
    # What is taken where a value is not NaN is no NaN if it is that value.
    known_of_y = max(y.known, NUMBER) if condition.tested == y.text else y.known
    text = f"CASE WHEN {condition.text} THEN {x.text} ELSE {y.text} END"
    return w.cell(text, condition, x, y, known=min(x.known, known_of_y))


def cast(w: SelectWriter, op: Operation, x: Cells) -> Cells:
    source, dtype = op.sources[0], op.attributes["dtype"]
    return fill([convert(w, a, source, dtype) for a in x.flat], x.shape)


def convert(w: SelectWriter, x: Cell, source: str, dtype: str) -> Cell:
    """Convert an entry from one dtype to another."""
    if source == dtype:
        return x
    if x.value is not None:
        with np.errstate(all="ignore"):
            return w.constant(np.asarray(x.value, source).astype(dtype).item(), dtype)
    x = w.shallow(x)
    if source == "bool":
        one, zero = (w.dialect.literal(v, dtype) for v in (1, 0))
        return w.cell(f"CASE WHEN {x.text} THEN {one} ELSE {zero} END", x, known=MODEST)
    if dtype == "bool":
        # NaN differs from zero, and so is True.
        none = "TRUE" if not w.dialect.has_nan and not x.known else ""
        test = f"{x.text}<>0"
        return w.cell(f"coalesce({test},{none})" if none else f"({test})", x, known=FINITE)
    if dtype == "float32" and (source == "float64" or not w.dialect.has_float32):
        return in_float32(w, x)
    if dtype in FLOATS and source in FLOATS and not w.dialect.has_float32:
        return x
    if dtype in FLOATS:
        known = x.known if source in FLOATS else MODEST
        return w.cell(w.dialect.cast(x.text, dtype), x, known=known)
    x = w.store(x)
    return w.cell(w.dialect.to_int(x.text, source, dtype), x, known=FINITE)


ELEMENTWISE: Mapping[str, Emit] = {
    **{name: arithmetic(symbol) for name, symbol in {"add": "+", "sub": "-"}.items()},
    **{name: comparison(symbol) for name, symbol in {"lt": "<", "le": "<=", "eq": "="}.items()},
    **{n: function(n) for n in ("exp", "log", "sqrt", "sin", "cos", "asin", "tanh", "pow")},
    **{name: rounding(name) for name in ("floor", "ceil", "rint")},
    "mul": each(multiply),
    "div": each(divide),
    "neg": form("negate"),
    "abs": form("abs"),
    "fmod": each(remainder),
    "trunc_divide": each(quotient),
    "maximum": each(maximum),
    "minimum": each(minimum),
    "isnan": each(isnan),
    "and": logic(" AND ", "&"),
    "or": logic(" OR ", "|"),
    "not": each(negation),
    "where": each(where),
    "cast": cast,
}  # fmt: skip
"""The emitters of primitives that work entry by entry."""
