"""Emit matrix products and similar sums: blocks of rows by columns, with totals in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, larger, product, smaller
from hbconv.backends.tvm.ops.packed_weights import all_inputs, pack, panels, used_inputs
from hbconv.backends.tvm.passes.fuse_products import SQUARE, EpilogueStep
from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["STEPS", "accumulate", "finish", "multiply"]

Term = Callable[[Kind, Any, Any, Any], Any]
Spans = Callable[[npt.NDArray[Any]], npt.NDArray[np.int32]]

STEPS: dict[str, Callable[[Kind, Any, Any], Any]] = {
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a - b,
    "mul": product,
    "maximum": larger,
    "minimum": smaller,
    SQUARE: product,
}
"""What may follow a product, over vectors of rows."""
REGISTERS_BY_COLUMNS = {1: 8, 2: 4}
"""Registers of rows of narrow blocks: eight sums in flight hide the latency of an addition."""
REGISTERS = 2
"""Registers of rows of all other blocks: 16 registers then hold sums, entries and weights."""


def height(k: Kernel, dtype: str, columns: int) -> int:
    """Return the rows of a block: full registers, and at most the tile."""
    registers = REGISTERS_BY_COLUMNS.get(columns, REGISTERS)
    return min(k.tile, max(1, k.lanes // np.dtype(dtype).itemsize) * registers)


def multiply(
    k: Kernel, out: Place, x: Place, weights: npt.NDArray[Any], epilogue: Sequence[EpilogueStep]
) -> None:
    """Compute ``x @ weights``, and the epilogue; zeros at the ends of a block are skipped."""

    def term(_: Kind, total: Any, entry: Any, weight: Any) -> Any:
        return total + entry * weight

    _multiply_panels(k, out, x, weights, term, used_inputs, epilogue)


def finish(
    k: Kernel,
    epilogue: Sequence[EpilogueStep],
    kind: Kind,
    total: Any,
    index: tuple[Any, ...],
    row: Any,
) -> Any:
    """Apply the epilogue to the total of one column."""
    value = k.bind(total)
    for primitive, constant in epilogue:
        operand = value if constant is None else k.load(k.constant(constant.data), index, row)
        value = k.bind(STEPS[primitive](kind, value, operand))
    return value


def accumulate(k: Kernel, out: Place, x: Place, weights: npt.NDArray[Any], term: Term) -> None:
    """Compute ``total = term(kind, total, entry, weight)`` over the entries of x, per column."""
    _multiply_panels(k, out, x, weights, term, all_inputs, ())


def _multiply_panels(
    k: Kernel,
    out: Place,
    x: Place,
    weights: npt.NDArray[Any],
    term: Term,
    spans: Spans,
    epilogue: Sequence[EpilogueStep],
) -> None:
    """Let every panel of weights pass the rows of the tile once."""
    batches = math.prod(weights.shape[:-2])
    weights = weights.reshape(batches, *weights.shape[-2:])
    rows = x.view((batches, x.shape[-1]))
    totals = out.view((batches, out.shape[-1]))
    for first, count, columns in panels(out.shape[-1]):
        packed = pack(weights, first, count, columns)
        _multiply_run(k, totals, rows, packed, spans(packed), first, term, epilogue)


def _multiply_run(
    k: Kernel,
    out: Place,
    x: Place,
    packed: npt.NDArray[Any],
    spans: npt.NDArray[np.int32],
    first: int,
    term: Term,
    epilogue: Sequence[EpilogueStep],
) -> None:
    """Multiply by a run of panels of equal width.

    1. Take one register vector of rows per column of the panel as totals.
    2. For each input, load the rows' entries once and add a term to every total.
    3. Finish the totals and store them.
    """
    batches, count, _, columns = packed.shape
    weights = k.constant(packed)
    lanes = height(k, out.dtype, columns)
    kind = Kind(out.dtype, lanes)
    with k.over((batches, count)) as (batch, panel):
        start, stop = _span(k, spans, batch * count + panel)
        with k.vectors(lanes) as row:
            totals = [k.register(out.dtype, kind.number(0), lanes) for _ in range(columns)]  # 1.
            with T.serial(start, stop) as i:  # 2.
                entry = k.bind(k.load(x, (batch, i), row))
                for column, total in enumerate(totals):
                    weight = k.load(weights, (batch, panel, i, column), row)
                    total.set(term(kind, total.get(), entry, weight))
            for column, total in enumerate(totals):  # 3.
                index = (batch, k.bind(panel * columns + (first + column)))
                k.store(out, index, row, finish(k, epilogue, kind, total.get(), index, row))


def _span(k: Kernel, spans: npt.NDArray[np.int32], panel: Any) -> tuple[Any, Any]:
    """Read the first input of a panel and the end of its inputs: numbers if all are alike."""
    if (spans == spans[0, 0]).all():
        return int(spans[0, 0, 0]), int(spans[0, 0, 1])
    table = k.constant(spans)
    return k.bind(k.entry(table, panel * 2)), k.bind(k.entry(table, panel * 2 + 1))
