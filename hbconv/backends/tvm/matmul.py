"""Products of matrices and their like: blocks of rows by columns whose totals stay in registers, over weights packed as they are read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.elementwise import Kind
from hbconv.backends.tvm.kernel import Kernel
from hbconv.backends.tvm.memory import Place

__all__ = ["accumulate", "panels"]

PANEL = 6
"""Columns of a block: with two registers of rows twelve sums, which leaves four of sixteen registers for entries and a weight."""
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


def accumulate(k: Kernel, out: Place, x: Place, weights: npt.NDArray[Any], step: Callable[[Kind, Any, Any, Any], Any]) -> None:
    """Compute, for each column of weights, ``total = step(kind, total, entry, weight)`` over the entries of x in order.

    Every panel of weights passes the rows of the tile once.
    """
    batches = math.prod(weights.shape[:-2])
    weights = weights.reshape(batches, *weights.shape[-2:])
    rows, totals = x.view((batches, x.shape[-1])), out.view((batches, out.shape[-1]))
    for first, count, columns in panels(out.shape[-1]):
        _panels(k, totals, rows, _packed(weights, first, count, columns), first, step)


def _packed(weights: npt.NDArray[Any], first: int, count: int, columns: int) -> npt.NDArray[Any]:
    """Lay weights (batch, inputs, columns) out as (batch, panels, inputs, columns of a panel)."""
    batch, inputs, _ = weights.shape
    run = weights[:, :, first : first + count * columns].reshape(batch, inputs, count, columns)
    return np.ascontiguousarray(run.transpose(0, 2, 1, 3))


def _panels(k: Kernel, out: Place, x: Place, packed: npt.NDArray[Any], first: int, step: Callable[[Kind, Any, Any, Any], Any]) -> None:
    batches, count, inputs, columns = packed.shape
    weights, lanes = k.constant(packed), height(k, out.dtype, columns)
    kind = Kind(out.dtype, lanes)
    with k.over((batches, count)) as (batch, panel), k.vectors(lanes) as row:
        totals = [k.register(out.dtype, kind.number(0), lanes) for _ in range(columns)]
        with T.serial(inputs) as i:
            entry = k.bind(k.load(x, (batch, i), row))
            for column, total in enumerate(totals):
                total.set(step(kind, total.get(), entry, k.load(weights, (batch, panel, i, column), row)))
        for column, total in enumerate(totals):
            k.store(out, (batch, panel * columns + (first + column)), row, total.get())
