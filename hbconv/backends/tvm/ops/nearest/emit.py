"""Emit ``nearest`` and ``topk``: the nearest points, and the smallest of many entries.

Of the squared distance ``|x|^2 - 2 x y + |y|^2``, the last two terms tell points apart: a score.

1. One product computes all scores, in few dimensions and in float32 where that is enough.
2. The points of the best scores are ordered by their distances as they are defined.
3. The last of the nearest so far bounds the scores of nearer points; these are tried then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, product
from hbconv.backends.tvm.ops.nearest.best_lists import NARROW, holds, offer_next
from hbconv.backends.tvm.ops.nearest.candidates import Candidates
from hbconv.backends.tvm.ops.nearest.tables import CHAINS, Prefilter
from hbconv.backends.tvm.ops.packed_weights import PANEL
from hbconv.backends.tvm.ops.row_major_matmul import multiply
from hbconv.backends.tvm.tir.kernel import Kernel, lanes, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["EMITTERS"]

select = tirx.Select


def topk(k: Kernel, out: Place, x: Place) -> None:
    """Emit ``topk``."""
    with (
        k.temporary(x.dtype, out.shape) as best,
        k.over(x.shape) as position,
        k.vectors(NARROW) as row,
    ):
        offer_next(k, k.bind(k.load(x, position, row)), position[0], best, out, row)


def nearest(k: Kernel, out: Place, x: Place, points: Place) -> None:
    """Emit ``nearest``; candidates are found for vectors of rows, so a single row tries all."""
    prefilter = Prefilter.of(points.known(), out.shape[0]) if k.lanes > 1 else None
    with k.temporary(x.dtype, out.shape) as best:
        if prefilter is None:
            with k.vectors(NARROW) as row:
                search(k, out, best, x, points, row)
        else:
            _filter(k, prefilter, out, best, x, points)


def _filter(
    k: Kernel, prefilter: Prefilter, out: Place, best: Place, x: Place, points: Place
) -> None:
    """Order candidates; vectors of rows with too many candidates try every point."""
    weights = prefilter.weights
    together = max(NARROW, min(k.tile, 2 * k.machine.vector // weights.itemsize))
    with k.temporary(weights.dtype.name, weights.shape[2:3]) as coordinates:
        _project(k, prefilter, x, coordinates)
        with (
            Candidates.take(k, prefilter, x, points, together) as found,
            k.vectors(together) as row,
        ):
            found.begin(k, out, coordinates, row)
            _score(k, prefilter, found)
            live = found.live(k, row)
            _settle(k, prefilter, out, best, found, live, row)
            with T.serial(together // NARROW) as part:
                lacking = found.incomplete(k, part) & (live >> (part * NARROW))
                with T.If(tirx.NE(lacking, 0)), T.Then():
                    some = tirx.Ramp(row.base + part * NARROW, 1, NARROW)
                    search(k, out, best, x, points, some)


def _project(k: Kernel, prefilter: Prefilter, x: Place, coordinates: Place) -> None:
    """Bring rows to where the points are: about their mean, scaled, and on their axes."""
    centre = k.constant(prefilter.centre)
    factor = literal(prefilter.scale, x.dtype, k.lanes)
    with (
        k.temporary(x.dtype, x.shape) as centred,
        k.temporary(x.dtype, coordinates.shape) as projected,
    ):
        k.map_vectors(centred, (x, centre), lambda entry, mean: (entry - mean) * factor)
        if prefilter.axes is not None:
            multiply(k, projected, centred, prefilter.axes, ())
        k.map_vectors(
            coordinates,
            (centred if prefilter.axes is None else projected,),
            lambda entry: tirx.Cast(f"{coordinates.dtype}x{k.lanes}", entry),
        )


def _score(k: Kernel, prefilter: Prefilter, found: Candidates) -> None:
    """Score every point, and bound the scores of some of the nearest.

    The bound is the ``wanted``-th least of the least scores of the blocks of points.

    1. Score the points of each panel: totals stay in registers.
    2. Let the least score of each block sink into the ordered scores of the best blocks.
    3. The last of these is the bound.
    """
    blocks, panels, rank, _ = prefilter.weights.shape
    kind = Kind(found.scores.points.dtype, found.lanes)
    weights = k.constant(prefilter.weights)
    norms = k.constant(prefilter.norms)
    every = tirx.Ramp(0, 1, found.lanes)
    with T.serial(prefilter.wanted) as slot:
        found.write(k, found.scores.best, slot, kind.number(math.inf))
    with T.serial(blocks) as block:
        found.begin_block(k)
        with T.serial(panels) as panel:  # 1.
            totals = [
                k.register(kind.dtype, k.load(norms, (block, panel, point), every), kind.lanes)
                for point in range(PANEL)
            ]
            with T.serial(rank) as i:
                entry = k.bind(found.read(k, found.query.coordinates, i))
                for point, total in enumerate(totals):
                    weight = k.load(weights, (block, panel, i, point), every)
                    total.set(total.get() + entry * weight)
            found.keep(k, k.bind(block * panels + panel), [total.get() for total in totals])
        smallest = k.register(kind.dtype, found.read(k, found.scores.block), kind.lanes)
        with T.serial(prefilter.wanted) as slot:  # 2.
            value = k.bind(found.read(k, found.scores.best, slot))
            entry = k.bind(smallest.get())
            found.write(k, found.scores.best, slot, select(entry < value, entry, value))
            smallest.set(select(entry < value, value, entry))
    last = found.read(k, found.scores.best, prefilter.wanted - 1)
    found.write(k, found.bounds.most, 0, last)  # 3.


def _settle(
    k: Kernel, prefilter: Prefilter, out: Place, best: Place, found: Candidates, live: Any, row: Any
) -> None:
    """Order the points that score best, then those that may be nearer than the last of them."""
    bounds = found.bounds
    more = holds(found.read(k, bounds.above) < found.read(k, bounds.most), found.lanes)
    with T.serial(2), T.If(more), T.Then():
        found.list(k, live)
        with T.serial(found.lanes // NARROW) as part:
            found.settle(k, out, best, part, tirx.Ramp(row.base + part * NARROW, 1, NARROW))
        found.narrow(k, prefilter, best, row)


def search(k: Kernel, out: Place, best: Place, x: Place, points: Place, row: Any) -> None:
    """Try every point, a panel at a time; the padding of the last panel is NaN, behind all."""
    data = points.known()
    kind = Kind(x.dtype, lanes(row))
    padding = np.full((-len(data) % CHAINS, data.shape[1]), np.nan, data.dtype)
    padded = np.concatenate([data, padding]).reshape(-1, CHAINS, data.shape[1])
    panels = k.constant(np.ascontiguousarray(padded.transpose(0, 2, 1)))
    with T.serial(panels.shape[0]) as panel:
        totals = [k.register(x.dtype, kind.number(0), kind.lanes) for _ in range(CHAINS)]
        with T.serial(x.shape[0]) as i:
            entry = k.bind(k.load(x, (i,), row))
            for point, total in enumerate(totals):
                difference = k.bind(entry - k.load(panels, (panel, i, point), row))
                total.set(total.get() + product(kind, difference, difference))
        for point, total in enumerate(totals):
            number = k.bind(panel * CHAINS + point)
            offer_next(k, k.bind(total.get()), number, best, out, row)


EMITTERS: dict[str, Callable[..., None]] = {
    "topk": lambda kernel, out, x, k: topk(kernel, out, x),
    "nearest": lambda kernel, out, x, points, k: nearest(kernel, out, x, points),
}
