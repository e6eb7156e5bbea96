"""Emit matrix products and similar sums of one row: vectors run along the columns of the weights.

The terms of a column are added in the order in which tiles of rows add them, so a row has the same
bits in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind
from hbconv.backends.tvm.ops.loops import EntryLoop, fitting_lanes
from hbconv.backends.tvm.ops.row_major_matmul import finish
from hbconv.backends.tvm.passes.fuse_products import EpilogueStep
from hbconv.backends.tvm.tir.kernel import Kernel, spread
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["accumulate_entries"]

VECTORS = 8
"""Vectors of sums in flight: eight hide the latency of two additions a cycle."""


def accumulate_entries(
    k: Kernel,
    out: Place,
    x: Place,
    weights: npt.NDArray[Any],
    term: Callable[[Kind, Any, Any, Any], Any],
    epilogue: Sequence[EpilogueStep] = (),
) -> None:
    """Compute ``total = term(kind, total, entry, weight)`` over the entries of x, per column.

    1. Take some vectors of totals, which cover a block of columns.
    2. Load one entry of x for all lanes, and add a term to every total.
    3. Finish the totals and store them.
    """
    batches = math.prod(weights.shape[:-2])
    inputs, columns = weights.shape[-2:]
    width = fitting_lanes(columns, k.machine.vector // np.dtype(out.dtype).itemsize)
    blocks, together = _blocks(columns, width)
    starts = np.minimum(np.arange(blocks * together) * width, columns - width)
    packed = _pack(weights.reshape(batches, inputs, columns), starts, blocks, width)
    table, rows = k.constant(packed), x.view((batches, inputs))
    totals_of = out.view((batches, columns))
    kind = Kind(out.dtype, width)
    with k.over((batches, blocks)) as (batch, block):
        totals = [k.register(out.dtype, kind.number(0), width) for _ in range(together)]  # 1.
        first = k.bind((batch * blocks + block) * inputs)
        with T.serial(inputs) as i:  # 2.
            entry = spread(k.bind(k.load(rows, (batch, i), 0)), width)
            for v, total in enumerate(totals):
                weight = k.entries(table, ((first + i) * together + v) * width, width)
                total.set(term(kind, total.get(), entry, weight))
        for v, total in enumerate(totals):  # 3.
            # The vectors of the last block may be more than there are columns left.
            begin = k.bind(tirx.min((block * together + v) * width, columns - width))
            entries = tirx.Ramp(begin, 1, width)
            loop = EntryLoop(k, (batch, entries), entries)
            value = finish(loop, epilogue, kind, total.get(), (batch, entries), entries)
            loop.write(totals_of, (batch, entries), entries, value)


def _blocks(columns: int, width: int) -> tuple[int, int]:
    """Return the number of blocks of columns, and the vectors of each."""
    vectors = -(-columns // width)
    blocks = -(-vectors // VECTORS)
    return blocks, -(-vectors // blocks)


def _pack(
    weights: npt.NDArray[Any], starts: npt.NDArray[np.int64], blocks: int, width: int
) -> npt.NDArray[Any]:
    """Arrange weights (batch, inputs, columns) as (batch, blocks, inputs, vectors, lanes)."""
    batches, inputs, _ = weights.shape
    columns = starts[:, None] + np.arange(width)
    run = weights[:, :, columns].reshape(batches, inputs, blocks, len(starts) // blocks, width)
    return np.ascontiguousarray(run.transpose(0, 2, 1, 3, 4))
