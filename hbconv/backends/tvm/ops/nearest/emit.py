"""Nearest points, and the smallest of many entries.

Of the squared distance ``|x|^2 - 2 x y + |y|^2`` a row needs no more than the last two terms, a score, to tell points apart. Scores are
computed by one product, in few dimensions and in float32 where that will do. Of the points that score best the distance is computed as it is
defined; the last of the nearest so far bounds the scores of those that may be nearer, and these are tried then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, product
from hbconv.backends.tvm.ops.matmul import PANEL, multiply
from hbconv.backends.tvm.ops.nearest.best_lists import NARROW, clear, holds, offer
from hbconv.backends.tvm.ops.nearest.candidates import Candidates
from hbconv.backends.tvm.ops.nearest.tables import CHAINS, Screen
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["EMITTERS"]

select = tirx.Select


def topk(k: Kernel, out: Place, x: Place) -> None:
    """Emit ``topk``."""
    with k.temporary(x.dtype, out.shape) as best:
        with k.vectors(NARROW) as row:
            clear(k, out, row)
        with k.over(x.shape) as position, k.vectors(NARROW) as row:
            offer(
                k,
                k.register(x.dtype, k.load(x, position, row), NARROW),
                tirx.Broadcast(position[0], NARROW),
                best,
                out,
                row,
            )


def nearest(k: Kernel, out: Place, x: Place, points: Place) -> None:
    """Emit ``nearest``: vectors of rows that are left too many candidates try every point."""
    screen = Screen.of(points.known(), out.shape[0])
    with ExitStack() as stack:
        best = stack.enter_context(k.temporary(x.dtype, out.shape))
        if screen is None:
            with k.vectors(NARROW) as row:
                search(k, out, best, x, points, row)
            return
        coordinates = stack.enter_context(
            k.temporary(screen.weights.dtype.name, screen.weights.shape[2:3])
        )
        _project(k, screen, x, coordinates)
        lanes = max(NARROW, min(k.tile, 2 * k.machine.vector // screen.weights.itemsize))
        found = Candidates.take(k, stack, screen, x, points, lanes)
        with k.vectors(lanes) as row:
            found.begin(k, out, coordinates, row)
            _score(k, screen, found)
            live = found.live(k, row)
            _settle(k, screen, out, best, found, live, row)
            with (
                T.serial(lanes // NARROW) as part,
                T.If(tirx.NE(found.lacking(k, part) & (live >> (part * NARROW)), 0)),
                T.Then(),
            ):
                search(k, out, best, x, points, tirx.Ramp(row.base + part * NARROW, 1, NARROW))


def _project(k: Kernel, screen: Screen, x: Place, coordinates: Place) -> None:
    """Bring rows to where the points are: about their mean, scaled, and on their axes."""
    centre, factor = k.constant(screen.centre), literal(screen.scale, x.dtype, k.lanes)
    with (
        k.temporary(x.dtype, x.shape) as centred,
        k.temporary(x.dtype, coordinates.shape) as projected,
    ):
        k.map_vectors(centred, (x, centre), lambda entry, mean: (entry - mean) * factor)
        if screen.axes is not None:
            multiply(k, projected, centred, screen.axes, ())
        k.map_vectors(
            coordinates,
            (centred if screen.axes is None else projected,),
            lambda entry: tirx.Cast(f"{coordinates.dtype}x{k.lanes}", entry),
        )


def _score(k: Kernel, screen: Screen, found: Candidates) -> None:
    """Score every point, and bound the scores of some of the nearest: by the least scores of so many blocks of points."""
    blocks, panels, rank, _ = screen.weights.shape
    kind = Kind(found.scores.dtype, found.lanes)
    weights, norms, every = (
        k.constant(screen.weights),
        k.constant(screen.norms),
        tirx.Ramp(0, 1, found.lanes),
    )
    with T.serial(screen.wanted) as slot:
        found.write(k, found.nearest, slot, kind.number(math.inf))
    with T.serial(blocks) as block:
        found.open_block(k)
        with T.serial(panels) as panel:
            totals = [
                k.register(kind.dtype, k.load(norms, (block, panel, point), every), kind.lanes)
                for point in range(PANEL)
            ]
            with T.serial(rank) as i:
                entry = k.bind(found.read(k, found.coordinates, i))
                for point, total in enumerate(totals):
                    total.set(
                        total.get() + entry * k.load(weights, (block, panel, i, point), every)
                    )
            found.keep(k, k.bind(block * panels + panel), [total.get() for total in totals])
        smallest = k.register(kind.dtype, found.read(k, found.least), kind.lanes)
        with T.serial(screen.wanted) as slot:
            value, entry = k.bind(found.read(k, found.nearest, slot)), k.bind(smallest.get())
            found.write(k, found.nearest, slot, select(entry < value, entry, value))
            smallest.set(select(entry < value, value, entry))
    found.write(k, found.most, 0, found.read(k, found.nearest, screen.wanted - 1))


def _settle(
    k: Kernel, screen: Screen, out: Place, best: Place, found: Candidates, live: Any, row: Any
) -> None:
    """Put those points in order that score best, then those that may be nearer than the last."""
    with (
        T.serial(2),
        T.If(holds(found.read(k, found.above) < found.read(k, found.most), found.lanes)),
        T.Then(),
    ):
        found.list(k, live)
        with T.serial(found.lanes // NARROW) as part:
            found.settle(k, out, best, part, tirx.Ramp(row.base + part * NARROW, 1, NARROW))
        found.narrow(k, screen, best, row)


def search(k: Kernel, out: Place, best: Place, x: Place, points: Place, row: Any) -> None:
    """Try every point, some at a time; those that fill up the last panel are NaN, behind all."""
    data, kind = points.known(), Kind(x.dtype, NARROW)
    padded = np.concatenate(
        [data, np.full((-len(data) % CHAINS, data.shape[1]), np.nan, data.dtype)]
    )
    panels = k.constant(
        np.ascontiguousarray(padded.reshape(-1, CHAINS, data.shape[1]).transpose(0, 2, 1))
    )
    clear(k, out, row)
    with T.serial(panels.shape[0]) as panel:
        totals = [k.register(x.dtype, kind.number(0), NARROW) for _ in range(CHAINS)]
        with T.serial(x.shape[0]) as i:
            entry = k.bind(k.load(x, (i,), row))
            for point, total in enumerate(totals):
                difference = k.bind(entry - k.load(panels, (panel, i, point), row))
                total.set(total.get() + product(kind, difference, difference))
        for point, total in enumerate(totals):
            offer(k, total, tirx.Broadcast(panel * CHAINS + point, NARROW), best, out, row)


EMITTERS: dict[str, Callable[..., None]] = {
    "topk": lambda kernel, out, x, k: topk(kernel, out, x),
    "nearest": lambda kernel, out, x, points, k: nearest(kernel, out, x, points),
}
