"""Nearest points, and the smallest of many entries: short sorted lists for vectors of rows.

Of the squared distance ``|x|^2 - 2 x y + |y|^2`` a row needs no more than the last two terms, a score, to tell points apart. Scores are
computed by one product, in float32 where that will do, with a bound on the error: only of the few points that may be nearest the distance
is computed as it is defined.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.elementwise import Kind, product
from hbconv.backends.tvm.kernel import Kernel, Register, literal
from hbconv.backends.tvm.matmul import PANEL
from hbconv.backends.tvm.memory import Place
from hbconv.backends.tvm.order import before
from hbconv.backends.tvm.screen import CHAINS, Screen

__all__ = ["EMITTERS"]

NARROW = 8
"""Rows that an entry is tried in at once: the fewer, the more often it is in none of their lists."""
select = tirx.Select


# Lists.


def clear(k: Kernel, positions: Place, row: Any) -> None:
    """Begin a list: no position is held."""
    with k.over(positions.shape) as slot:
        k.store(positions, slot, row, literal(-1, "int32", NARROW))


def offer(k: Kernel, entry: Register, number: Any, values: Place, positions: Place, row: Any) -> None:
    """Let an entry sink into the lists, in order of the numbers; most are worse than all in them, in every row of a narrow vector."""
    last = (positions.shape[0] - 1,)
    worst, held = k.load(values, last, row), k.load(positions, last, row)
    with T.If(holds(tirx.EQ(held, literal(-1, "int32", NARROW)) | before(values.dtype, entry.get(), worst), NARROW)), T.Then():
        sink(k, entry, number, values, positions, row)


def sink(k: Kernel, entry: Register, first: Any, values: Place, positions: Place, row: Any) -> None:
    """Exchange an entry with each on its way that it stands before, until it is in its place and the last is out; of equals the lower number is first."""
    number = k.register("int32", first, NARROW)
    with k.over(positions.shape) as slot:
        value, held = (k.bind(k.load(place, slot, row)) for place in (values, positions))
        ahead, behind = (before(values.dtype, a, b) for a, b in ((entry.get(), value), (value, entry.get())))
        sinks = tirx.EQ(held, literal(-1, "int32", NARROW)) | ahead | ((number.get() < held) & ~behind)
        k.store(values, slot, row, select(sinks, entry.get(), value))
        k.store(positions, slot, row, select(sinks, number.get(), held))
        number.set(select(sinks, held, number.get()))
        entry.set(select(sinks, value, entry.get()))


def mask(condition: Any, lanes: int) -> Any:
    """Return the lanes where a condition holds as the bits of an int."""
    return tirx.Cast("int32", tirx.reinterpret(f"uint{lanes}", tirx.Cast(f"uint1x{lanes}", condition)))


def holds(condition: Any, lanes: int) -> Any:
    """Whether a condition holds in some lane."""
    return mask(condition, lanes) > 0


def topk(k: Kernel, out: Place, x: Place) -> None:
    """Emit ``topk``."""
    with k.temporary(x.dtype, out.shape) as best:
        with k.vectors(NARROW) as row:
            clear(k, out, row)
        with k.over(x.shape) as position, k.vectors(NARROW) as row:
            offer(k, k.register(x.dtype, k.load(x, position, row), NARROW), tirx.Broadcast(position[0], NARROW), best, out, row)


# Nearest points.


def nearest(k: Kernel, out: Place, x: Place, points: Place) -> None:
    """Emit ``nearest``: vectors of rows that are left too many candidates try every point."""
    screen = Screen.of(points.known(), out.shape[0])
    with k.temporary(x.dtype, out.shape) as best:
        if screen is None:
            with k.vectors(NARROW) as row:
                search(k, out, best, x, points, row)
            return
        dtype = screen.weights.dtype.name
        lanes = max(NARROW, min(k.tile, 2 * k.machine.vector // screen.weights.itemsize))
        places = ((dtype, (1,)), ("int32", (1,)), ("int32", (screen.most,)), (x.dtype, (screen.most,)))
        with ExitStack() as stack, k.vectors(lanes) as row:
            bound, count, candidates, distances = (stack.enter_context(k.temporary(dtype, shape)) for dtype, shape in places)
            _screen(k, screen, x, bound, count, candidates, row)
            with T.serial(lanes // NARROW) as part:
                some = tirx.Ramp(row.base + part * NARROW, 1, NARROW)
                few = k.load(count, (0,), some) <= literal(screen.most, "int32", NARROW)
                with T.If(holds(~(few & (k.load(bound, (0,), some) < literal(math.inf, dtype, NARROW))), NARROW)):
                    with T.Then():
                        search(k, out, best, x, points, some)
                    with T.Else():
                        _settle(k, out, best, distances, candidates, count, x, points, some)


def _screen(k: Kernel, screen: Screen, x: Place, bound: Place, count: Place, candidates: Place, row: Any) -> None:
    """List the candidates of a vector of rows."""
    lanes = int(row.lanes)
    size = -(-screen.norms.size * lanes // k.tile)
    with k.temporary(bound.dtype, (size,)) as scores:
        _score(k, screen, x, scores, bound, row)
        k.store(count, (0,), row, literal(0, "int32", lanes))
        with k.over(candidates.shape) as slot:
            k.store(candidates, slot, row, literal(0, "int32", lanes))
        most = k.bind(k.load(bound, (0,), row))
        with T.serial(screen.norms.size // PANEL) as panel:
            first = k.bind(panel * PANEL)
            near = [k.bind(_score_at(k, scores, first + point, lanes)) <= most for point in range(PANEL)]
            with T.If(holds(functools.reduce(lambda a, b: a | b, near), lanes)), T.Then(), T.serial(PANEL) as point:
                _list(k, _score_at(k, scores, first + point, lanes) <= most, first + point, count, candidates, row)


def _score_at(k: Kernel, scores: Place, point: Any, lanes: int) -> Any:
    """Read the scores of a vector of rows: they lie point after point."""
    return k.load(scores, (0,), tirx.Ramp(point * lanes, 1, lanes))


def _list(k: Kernel, near: Any, point: Any, count: Place, candidates: Place, row: Any) -> None:
    """Append a point to the lists of the rows that it is near to."""
    last = literal(candidates.shape[0] - 1, "int32", 1)
    rows = k.variable("int32", mask(near, int(row.lanes)))
    with T.serial(tirx.popcount(rows.get())):
        one = k.bind(row.base + tirx.call_llvm_pure_intrin("int32", "llvm.cttz", rows.get(), tirx.IntImm("bool", 1)))
        held = k.bind(k.load(count, (0,), one))
        k.store(candidates, (tirx.Select(held < last, held, last),), one, point)
        k.store(count, (0,), one, held + 1)
        rows.set(rows.get() & (rows.get() - 1))


def _score(k: Kernel, screen: Screen, x: Place, scores: Place, bound: Place, row: Any) -> None:
    """Score every point, and bound the scores of the nearest: by the least scores of so many blocks of points, and the margin."""
    lanes, (blocks, panels, _, _) = int(row.lanes), screen.weights.shape
    kind, wanted = Kind(bound.dtype, lanes), screen.wanted
    weights, norms = k.constant(screen.weights), k.constant(screen.norms)
    with k.temporary(kind.dtype, x.shape) as scaled, k.temporary(kind.dtype, (wanted,)) as least:
        _scale(k, screen, x, scaled, bound, row)
        with k.over(least.shape) as slot:
            k.store(least, slot, row, kind.number(math.inf))
        with T.serial(blocks) as block:
            smallest = k.register(kind.dtype, kind.number(math.inf), lanes)
            with T.serial(panels) as panel:
                totals = [k.register(kind.dtype, k.load(norms, (block, panel, point), row), lanes) for point in range(PANEL)]
                with T.serial(x.shape[0]) as i:
                    entry = k.bind(k.load(scaled, (i,), row))
                    for point, total in enumerate(totals):
                        total.set(total.get() + entry * k.load(weights, (block, panel, i, point), row))
                first = k.bind((block * panels + panel) * PANEL)
                for point, total in enumerate(totals):
                    k.store(scores, (0,), tirx.Ramp((first + point) * lanes, 1, lanes), total.get())
                    smallest.set(select(total.get() < smallest.get(), total.get(), smallest.get()))
            with T.serial(wanted) as slot:
                value, entry = k.bind(k.load(least, (slot,), row)), k.bind(smallest.get())
                k.store(least, (slot,), row, select(entry < value, entry, value))
                smallest.set(select(entry < value, value, entry))
        k.store(bound, (0,), row, k.load(bound, (0,), row) + k.load(least, (wanted - 1,), row))


def _scale(k: Kernel, screen: Screen, x: Place, scaled: Place, bound: Place, row: Any) -> None:
    """Bring rows to where the points are, and compute their margins."""
    given, kind = (Kind(dtype, int(row.lanes)) for dtype in (x.dtype, bound.dtype))
    constant, factor = screen.margin
    centre, norm = k.constant(screen.centre), k.register(kind.dtype, kind.number(0), kind.lanes)
    with T.serial(x.shape[0]) as i:
        y = k.bind(tirx.Cast(f"{kind.dtype}x{kind.lanes}", (k.load(x, (i,), row) - k.load(centre, (i,), row)) * given.number(screen.scale)))
        k.store(scaled, (i,), row, y)
        norm.set(norm.get() + y * y)
    k.store(bound, (0,), row, norm.get() * kind.number(factor) + kind.number(constant))


def _settle(k: Kernel, out: Place, best: Place, distances: Place, candidates: Place, count: Place, x: Place, points: Place, row: Any) -> None:
    """Put the candidates of a vector of rows in order by their distances."""
    with T.serial(NARROW) as lane:
        one = k.bind(row.base + lane)
        with T.serial((k.load(count, (0,), one) + (CHAINS - 1)) // CHAINS) as block:
            _distances(k, distances, candidates, x, points, one, block * CHAINS)
    clear(k, out, row)
    with k.over(candidates.shape) as slot:
        listed = tirx.Broadcast(slot[0], NARROW) < k.load(count, (0,), row)
        entry = select(listed, k.load(distances, slot, row), literal(math.nan, x.dtype, NARROW))
        offer(k, k.register(x.dtype, entry, NARROW), select(listed, k.load(candidates, slot, row), literal(2**31 - 1, "int32", NARROW)), best, out, row)


def _distances(k: Kernel, distances: Place, candidates: Place, x: Place, points: Place, row: Any, first: Any) -> None:
    """Compute the squared distances of one row to some candidates, each in order."""
    one = Kind(x.dtype, 1)
    starts = [k.bind(k.load(candidates, (first + chain,), row) * x.shape[0]) for chain in range(CHAINS)]
    totals = [k.variable(x.dtype, one.number(0)) for _ in starts]
    with T.serial(x.shape[0]) as i:
        entry = k.bind(k.load(x, (i,), row))
        for start, total in zip(starts, totals, strict=True):
            difference = k.bind(entry - k.entry(points, start + i))
            total.set(total.get() + product(one, difference, difference))
    for chain, total in enumerate(totals):
        k.store(distances, (first + chain,), row, total.get())


def search(k: Kernel, out: Place, best: Place, x: Place, points: Place, row: Any) -> None:
    """Try every point, some at a time; those that fill up the last panel are NaN, behind all."""
    data, kind = points.known(), Kind(x.dtype, NARROW)
    padded = np.concatenate([data, np.full((-len(data) % CHAINS, data.shape[1]), np.nan, data.dtype)])
    panels = k.constant(np.ascontiguousarray(padded.reshape(-1, CHAINS, data.shape[1]).transpose(0, 2, 1)))
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
