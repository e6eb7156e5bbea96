"""Products of matrices and their like: blocks of rows by columns whose totals stay in registers, over weights packed as they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, larger, product, smaller
from hbconv.backends.tvm.passes.fuse_products import SQUARE, Step
from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["PANEL", "accumulate", "finished", "multiply", "panels"]

Term = Callable[[Kind, Any, Any, Any], Any]
Spans = Callable[[npt.NDArray[Any]], npt.NDArray[np.int32]]

PANEL = 6
"""Columns of a block: with two registers of rows twelve sums, which leaves four of sixteen registers for entries and a weight."""
SPARED = 0.8
"""Share of the inputs that triangular weights have at most, for each panel to have bounds of its own."""
STEPS: dict[str, Callable[[Kind, Any, Any], Any]] = {
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a - b,
    "mul": product,
    "maximum": larger,
    "minimum": smaller,
    SQUARE: product,
}
"""What may follow a product, over vectors of rows."""
HEIGHTS = {1: 8, 2: 4, 3: 4}
"""Registers of rows of a block by its columns, where they are not two: as many sums in flight hide the latency of an addition."""


def panels(width: int) -> list[tuple[int, int, int]]:
    """Cut columns into blocks nearly as wide as each other: runs of (first column, number of blocks, columns of a block).

    Examples
    --------
    >>> panels(16), panels(8), panels(1)
    ([(0, 2, 6), (12, 1, 4)], [(0, 2, 4)], [(0, 1, 1)])
    """
    columns = -(-width // -(-width // PANEL))
    whole = width // columns
    runs = ((0, whole, columns), (whole * columns, 1, width % columns))
    return [run for run in runs if run[2]]


def height(k: Kernel, dtype: str, columns: int) -> int:
    """Return the rows of a block: registers full, and never more than the tile."""
    return min(k.tile, k.lanes // np.dtype(dtype).itemsize * HEIGHTS.get(columns, 2))


def multiply(
    k: Kernel, out: Place, x: Place, weights: npt.NDArray[Any], tail: Sequence[Step]
) -> None:
    """Compute ``x @ weights``, and the steps after it; of triangular weights, what is zero all along the edge of a block is passed over."""
    _blocks(
        k, out, x, weights, lambda _, total, entry, weight: total + entry * weight, _spans, tail
    )


def finished(
    k: Kernel, tail: Sequence[Step], kind: Kind, total: Any, index: tuple[Any, ...], row: Any
) -> Any:
    """Take the steps after a product, at one of its columns."""
    value = k.bind(total)
    for primitive, constant in tail:
        operand = value if constant is None else k.load(k.constant(constant.data), index, row)
        value = k.bind(STEPS[primitive](kind, value, operand))
    return value


def accumulate(k: Kernel, out: Place, x: Place, weights: npt.NDArray[Any], term: Term) -> None:
    """Compute, for each column of weights, ``total = term(kind, total, entry, weight)`` over the entries of x in order."""
    _blocks(k, out, x, weights, term, _everything, ())


def _blocks(
    k: Kernel,
    out: Place,
    x: Place,
    weights: npt.NDArray[Any],
    term: Term,
    spans: Spans,
    tail: Sequence[Step],
) -> None:
    """Let every panel of weights pass the rows of the tile once."""
    batches = math.prod(weights.shape[:-2])
    weights = weights.reshape(batches, *weights.shape[-2:])
    rows, totals = x.view((batches, x.shape[-1])), out.view((batches, out.shape[-1]))
    for first, count, columns in panels(out.shape[-1]):
        packed = _packed(weights, first, count, columns)
        _panels(k, totals, rows, packed, spans(packed), first, term, tail)


def _packed(weights: npt.NDArray[Any], first: int, count: int, columns: int) -> npt.NDArray[Any]:
    """Lay weights (batch, inputs, columns) out as (batch, panels, inputs, columns of a panel)."""
    batch, inputs, _ = weights.shape
    run = weights[:, :, first : first + count * columns].reshape(batch, inputs, count, columns)
    return np.ascontiguousarray(run.transpose(0, 2, 1, 3))


def _everything(packed: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return, for each panel, the first input and the one past the last: all of them."""
    batches, count, inputs, _ = packed.shape
    return np.broadcast_to(np.array([0, inputs], np.int32), (batches, count, 2))


def _spans(packed: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return, for each panel, the first input with a weight and the one past the last; all inputs where that spares little.

    Examples
    --------
    >>> _spans(_packed(np.tril(np.ones((1, 8, 8))), 0, 2, 4)).tolist()
    [[[0, 8], [4, 8]]]
    """
    if not packed.size:
        return _everything(packed)
    used = (packed != 0).any(axis=3)
    first, last = used.argmax(axis=2), packed.shape[2] - used[:, :, ::-1].argmax(axis=2)
    spans = np.stack([first, np.where(used.any(axis=2), last, first)], axis=2).astype(np.int32)
    return (
        spans
        if (spans[..., 1] - spans[..., 0]).mean() < SPARED * packed.shape[2]
        else _everything(packed)
    )


def _panels(
    k: Kernel,
    out: Place,
    x: Place,
    packed: npt.NDArray[Any],
    spans: npt.NDArray[np.int32],
    first: int,
    term: Term,
    tail: Sequence[Step],
) -> None:
    batches, count, _, columns = packed.shape
    weights, lanes = k.constant(packed), height(k, out.dtype, columns)
    kind = Kind(out.dtype, lanes)
    with k.over((batches, count)) as (batch, panel):
        start, stop = _span(k, spans, batch * count + panel)
        with k.vectors(lanes) as row:
            totals = [k.register(out.dtype, kind.number(0), lanes) for _ in range(columns)]
            with T.serial(start, stop) as i:
                entry = k.bind(k.load(x, (batch, i), row))
                for column, total in enumerate(totals):
                    total.set(
                        term(
                            kind,
                            total.get(),
                            entry,
                            k.load(weights, (batch, panel, i, column), row),
                        )
                    )
            for column, total in enumerate(totals):
                index = (batch, k.bind(panel * columns + (first + column)))
                k.store(out, index, row, finished(k, tail, kind, total.get(), index, row))


def _span(k: Kernel, spans: npt.NDArray[np.int32], panel: Any) -> tuple[Any, Any]:
    """Read the first input of a panel and the one past the last: numbers where all panels have the same."""
    if (spans == spans[0, 0]).all():
        return int(spans[0, 0, 0]), int(spans[0, 0, 1])
    table = k.constant(spans)
    return k.bind(k.entry(table, panel * 2)), k.bind(k.entry(table, panel * 2 + 1))
