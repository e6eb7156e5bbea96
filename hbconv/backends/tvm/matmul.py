"""Products of matrices: blocks of rows by columns whose sums stay in registers, over weights packed in the order they are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.kernel import Kernel, literal
from hbconv.backends.tvm.memory import Place

__all__ = ["matmul", "panels"]

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


def matmul(k: Kernel, out: Place, x: Place, w: Place) -> None:
    """Emit ``matmul``: every panel of weights passes the rows of the tile once."""
    batches = math.prod(w.shape[:-2])
    weights = w.known().reshape(batches, *w.shape[-2:])
    rows, products = x.view((batches, x.shape[-1])), out.view((batches, out.shape[-1]))
    for first, count, columns in panels(out.shape[-1]):
        _panels(k, products, rows, _packed(weights, first, count, columns), first)


def _packed(weights: npt.NDArray[Any], first: int, count: int, columns: int) -> npt.NDArray[Any]:
    """Lay weights (batch, inputs, columns) out as (batch, panels, inputs, columns of a panel)."""
    batch, inputs, _ = weights.shape
    run = weights[:, :, first : first + count * columns].reshape(batch, inputs, count, columns)
    return np.ascontiguousarray(run.transpose(0, 2, 1, 3))


def _panels(k: Kernel, out: Place, x: Place, packed: npt.NDArray[Any], first: int) -> None:
    batches, count, inputs, columns = packed.shape
    weights, lanes = k.constant(packed), height(k, out.dtype, columns)
    with k.over((batches, count)) as (batch, panel), k.vectors(lanes) as row:
        sums = [k.register(out.dtype, literal(0, out.dtype, lanes), lanes) for _ in range(columns)]
        with T.serial(inputs) as i:
            entry = k.bind(k.load(x, (batch, i), row))
            for column, total in enumerate(sums):
                total.set(total.get() + entry * k.load(weights, (batch, panel, i, column), row))
        for column, total in enumerate(sums):
            k.store(out, (batch, panel * columns + (first + column)), row, total.get())
