"""Nearest points, and the smallest of many entries: short sorted lists for vectors of rows.

Of the squared distance ``|x|^2 - 2 x y + |y|^2`` a row needs no more than the last two terms, a score, to tell points apart. Scores are
computed by one product, in float32 where that will do, with a bound on the error: only of the few points that may be nearest the distance
is computed as it is defined.
The error of a sum of d products is at most about ``d u sum |x_i y_i|``, u being half a unit in the last place (Higham, Accuracy and
Stability of Numerical Algorithms, 2002, section 3.1).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.elementwise import Kind, product
from hbconv.backends.tvm.kernel import Kernel, Register, literal
from hbconv.backends.tvm.matmul import PANEL
from hbconv.backends.tvm.memory import Place
from hbconv.backends.tvm.order import before

__all__ = ["EMITTERS"]

NARROW = 8
"""Rows that an entry is tried in at once: the fewer, the more often it is in none of their lists."""
CHAINS = 4
"""Sums in flight of distances computed in order."""
BLOCKS = 8
"""Blocks of points for each that is asked for, of which most hold at most one of those: so the least scores of blocks bound theirs well."""
SAMPLE = 64
"""Points that are tried as rows."""
FAR = {"float32": 1e9, "float64": 1e100}
"""Distances between points, and one by them, within which no square overflows or vanishes."""
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


@dataclass(frozen=True)
class Screen:
    """Points as they are scored: about their mean, and scaled so that none is farther from it than 1.

    Parameters
    ----------
    centre : ndarray of shape (width,)
        In the rows' dtype.
    scale : float
        A power of two.
    weights : ndarray of shape (blocks, panels, width, PANEL)
        ``-2 y`` of each point; zeros for points that fill the last block up.
    norms : ndarray of shape (blocks, panels, PANEL)
        ``|y|^2``, infinite for those.
    margin : tuple of float
        c and d of ``c + d |x|^2``: how much more than the last of the nearest a point may score that is among them.
    wanted, most : int
        Number of points to be found, and of candidates that are kept.
    """

    centre: npt.NDArray[Any]
    scale: float
    weights: npt.NDArray[Any]
    norms: npt.NDArray[Any]
    margin: tuple[float, float]
    wanted: int
    most: int

    @classmethod
    def of(cls, points: npt.NDArray[Any], wanted: int) -> Screen | None:
        """Return how points are scored, in float32 if that tells them apart; None where nothing does, or they are too few."""
        with np.errstate(all="ignore"):
            centre = points.astype(np.float64).mean(axis=0).astype(np.float32).astype(points.dtype)
            apart = points.astype(np.float64) - centre
            reach = float(np.sqrt((apart**2).sum(axis=1)).max())
        if len(points) < 2 * PANEL * wanted or not 1 / FAR[points.dtype.name] < reach < FAR[points.dtype.name]:
            return None
        scale, most = 2.0 ** -math.ceil(math.log2(reach)), -(-2 * wanted // CHAINS) * CHAINS + CHAINS
        for dtype in (np.dtype(np.float32), points.dtype):
            margin = _margin(points, dtype)
            if _tells_apart(apart * scale, margin, wanted, most):
                return cls(centre, scale, *_scored(apart * scale, wanted, dtype), margin, wanted, most)
        return None


def _margin(points: npt.NDArray[Any], dtype: np.dtype[Any]) -> tuple[float, float]:
    """Bound twice the error of ``|y|^2 - 2 x y``, at most ``e (1 + 2 |x|)`` with ``2 |x| <= 1 + |x|^2``, and that of distances, at most ``f (2 + 2 |x|^2)``.

    Rounding x, y and the norm adds six units to those of the sum; a quarter more, and a small number, are for what is rounded here and what vanishes.
    """
    units = 1.25 * (points.shape[1] + 8)
    product_error, distance_error = (units * float(np.finfo(d).eps) / 2 for d in (dtype, points.dtype))
    return 4 * product_error + 4 * distance_error + 1e-30, 2 * product_error + 4 * distance_error


def _tells_apart(y: npt.NDArray[np.float64], margin: tuple[float, float], wanted: int, most: int) -> bool:
    """Whether most points, had they been rows, would have few candidates among the others."""
    chosen = np.linspace(0, len(y) - 1, SAMPLE).astype(np.int64)
    norms = (y**2).sum(axis=1)
    scores = norms - 2.0 * y[chosen] @ y.T
    scores[np.arange(SAMPLE), chosen] = np.inf
    bound = np.partition(scores, wanted, axis=1)[:, wanted] + margin[0] + margin[1] * norms[chosen]
    return bool(np.mean((scores <= bound[:, None]).sum(axis=1) <= most) > 0.9)


def _scored(y: npt.NDArray[np.float64], wanted: int, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Lay points out in panels, and these in blocks: gives weights and norms."""
    count, width = y.shape
    panels = max(1, count // (PANEL * BLOCKS * wanted))
    filled = np.concatenate([y, np.zeros((-count % (panels * PANEL), width))])
    norms = np.where(np.arange(len(filled)) < count, (filled**2).sum(axis=1), np.inf).reshape(-1, panels, PANEL)
    weights = (-2.0 * filled).reshape(-1, panels, PANEL, width).transpose(0, 1, 3, 2)
    return weights.astype(dtype), norms.astype(dtype)


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
