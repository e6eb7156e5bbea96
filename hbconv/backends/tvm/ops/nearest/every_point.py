"""Emit the search that tries every point."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, product
from hbconv.backends.tvm.ops.nearest.best_lists import offer_next
from hbconv.backends.tvm.ops.nearest.tables import CHAINS
from hbconv.backends.tvm.tir.kernel import Kernel, lanes
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["search"]


def search(k: Kernel, out: Place, best: Place, x: Place, points: Place, row: Any) -> None:
    """Try every point, a panel at a time; the padding of the last panel is NaN, behind all."""
    data = points.numpy()
    kind = Kind(x.dtype, lanes(row))
    # NaN sorts last, so padding never enters a full list.
    padding = np.full((-len(data) % CHAINS, data.shape[1]), np.nan, data.dtype)
    padded = np.concatenate([data, padding]).reshape(-1, CHAINS, data.shape[1])
    panels = k.constant(np.ascontiguousarray(padded.transpose(0, 2, 1)))
    with T.serial(panels.shape[0]) as panel:
        totals = [k.register(x.dtype, kind.number(0), kind.lanes) for _ in range(CHAINS)]
        with T.serial(x.shape[0]) as i:
            entry = k.bind(k.load(x, (i,), row))
            for point, total in enumerate(totals):
                # Each sum adds its terms in the order of the columns, as the source's distance
                # does.
                difference = k.bind(entry - k.load(panels, (panel, i, point), row))
                total.set(total.get() + product(kind, difference, difference))
        for point, total in enumerate(totals):
            number = k.bind(panel * CHAINS + point)
            offer_next(k, k.bind(total.get()), number, best, out, row)
