"""Emit ``nearest`` and ``topk``: the nearest points, and the smallest of many entries.

Of the squared distance ``|x|^2 - 2 x y + |y|^2``, the last two terms tell points apart: a score.

1. One product computes all scores, in few dimensions and in float32 where that is enough.
2. The points of the best scores, the candidates, are ordered by their exact distances.
3. The last of the nearest so far bounds the scores of nearer points; these are tried then.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, product
from hbconv.backends.tvm.ops.nearest.best_lists import NARROW, bits, clear, holds, offer, offer_next
from hbconv.backends.tvm.ops.nearest.block_search import search_blocks
from hbconv.backends.tvm.ops.nearest.every_point import search
from hbconv.backends.tvm.ops.nearest.point_blocks import PointBlocks
from hbconv.backends.tvm.ops.nearest.project import project
from hbconv.backends.tvm.ops.nearest.tables import CHAINS, Prefilter
from hbconv.backends.tvm.ops.packed_weights import PANEL
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["EMITTERS"]

select = tirx.Select
NO_POINT = 2**31 - 1


def topk(k: Kernel, out: Place, x: Place) -> None:
    """Emit ``topk``."""
    with (
        k.temporary(x.dtype, out.shape) as best,
        k.over(x.shape) as position,
        k.vectors(NARROW) as row,
    ):
        offer_next(k, k.bind(k.load(x, position, row)), position[0], best, out, row)


def nearest(k: Kernel, out: Place, x: Place, points: Place) -> None:
    """Emit ``nearest``, by the cheaper of three searches."""
    # A thread of a device takes one row, and lists of candidates are for vectors.
    prefilter = Prefilter.of(points.numpy(), out.shape[0]) if k.lanes > 1 else None
    with k.temporary(x.dtype, out.shape) as best:
        if prefilter is None:
            with k.vectors(NARROW) as row:
                search(k, out, best, x, points, row)
            return
        blocks = PointBlocks.of(prefilter, k.machine.vector)
        if blocks.are_cheaper(prefilter):
            search_blocks(k, prefilter, blocks, out, best, x, points)
        else:
            _filter(k, prefilter, out, best, x, points)


def _filter(
    k: Kernel, prefilter: Prefilter, out: Place, best: Place, x: Place, points: Place
) -> None:
    """Order candidates; vectors of rows with too many candidates try every point."""
    weights = prefilter.weights
    # Two registers of rows: with six points they make twelve sums, which fit the registers.
    together = max(NARROW, min(k.tile, 2 * k.machine.vector // weights.itemsize))
    with k.temporary(weights.dtype.name, weights.shape[2:3]) as coordinates:
        project(k, prefilter, x, coordinates)
        with (
            Candidates.take(k, prefilter, x, points, together) as candidates,
            k.vectors(together) as row,
        ):
            candidates.begin(k, out, coordinates, row)
            _score(k, prefilter, candidates)
            live = candidates.live(k, row)
            _settle(k, prefilter, out, best, candidates, live, row)
            with T.serial(together // NARROW) as part:
                lacking = candidates.incomplete(k, part) & (live >> (part * NARROW))
                with T.If(tirx.NE(lacking, 0)), T.Then():
                    some = tirx.Ramp(row.base + part * NARROW, 1, NARROW)
                    search(k, out, best, x, points, some)


def _score(k: Kernel, prefilter: Prefilter, candidates: Candidates) -> None:
    """Score every point, and bound the scores of some of the nearest.

    The bound is the ``wanted``-th least of the least scores of the blocks of points.

    1. Score the points of each panel: totals stay in registers.
    2. Let the least score of each block sink into the ordered scores of the best blocks.
    3. The last of these is the bound.
    """
    blocks, panels, rank, _ = prefilter.weights.shape
    kind = Kind(candidates.scores.points.dtype, candidates.lanes)
    weights = k.constant(prefilter.weights)
    norms = k.constant(prefilter.norms)
    every = tirx.Ramp(0, 1, candidates.lanes)
    with T.serial(prefilter.wanted) as slot:
        candidates.write(k, candidates.scores.best, slot, kind.number(math.inf))
    with T.serial(blocks) as block:
        candidates.begin_block(k)
        with T.serial(panels) as panel:  # 1.
            totals = [
                k.register(kind.dtype, k.load(norms, (block, panel, point), every), kind.lanes)
                for point in range(PANEL)
            ]
            with T.serial(rank) as i:
                entry = k.bind(candidates.read(k, candidates.query.coordinates, i))
                for point, total in enumerate(totals):
                    weight = k.load(weights, (block, panel, i, point), every)
                    total.set(total.get() + entry * weight)
            candidates.keep(k, k.bind(block * panels + panel), [total.get() for total in totals])
        smallest = k.register(kind.dtype, candidates.read(k, candidates.scores.block), kind.lanes)
        with T.serial(prefilter.wanted) as slot:  # 2.
            value = k.bind(candidates.read(k, candidates.scores.best, slot))
            entry = k.bind(smallest.get())
            candidates.write(k, candidates.scores.best, slot, select(entry < value, entry, value))
            smallest.set(select(entry < value, value, entry))
    last = candidates.read(k, candidates.scores.best, prefilter.wanted - 1)
    candidates.write(k, candidates.bounds.most, 0, last)  # 3.


def _settle(
    k: Kernel,
    prefilter: Prefilter,
    out: Place,
    best: Place,
    candidates: Candidates,
    live: Any,
    row: Any,
) -> None:
    """Order the points that score best, then those that may be nearer than the last of them."""
    bounds = candidates.bounds
    more = holds(
        candidates.read(k, bounds.above) < candidates.read(k, bounds.most), candidates.lanes
    )
    # Twice at most: the best scores first, then those within the bound that these set.
    with T.serial(2), T.If(more), T.Then():
        candidates.list(k, live)
        with T.serial(candidates.lanes // NARROW) as part:
            candidates.settle(k, out, best, part, tirx.Ramp(row.base + part * NARROW, 1, NARROW))
        # The distance of the last of the nearest bounds what may still be nearer.
        candidates.narrow(k, prefilter, best, row)


EMITTERS: dict[str, Callable[..., None]] = {
    "topk": lambda kernel, out, x, k: topk(kernel, out, x),
    "nearest": lambda kernel, out, x, points, k: nearest(kernel, out, x, points),
}


@dataclass(frozen=True, eq=False)
class QueryRows:
    """The rows of a vector: as they are given, and as they are scored (``coordinates``)."""

    rows: Place
    coordinates: Place


@dataclass(frozen=True, eq=False)
class PointScores:
    """Scores of every point, and the smallest ones.

    ``points`` has every score, and ``panels`` the least of each panel. ``block`` has the least of
    the block so far, and ``best`` those of the best blocks, in order.
    """

    points: Place
    panels: Place
    block: Place
    best: Place


@dataclass(frozen=True, eq=False)
class ScoreBounds:
    """Points are listed that score more than ``above`` and at most ``most``.

    A score is a squared distance less ``square``, the square of the row's coordinates.
    """

    above: Place
    most: Place
    square: Place


@dataclass(frozen=True, eq=False)
class PointLists:
    """Listed points of each row: how many (``count``), which, and how far they are.

    ``lost`` is 1 if some point of a row found no room.
    """

    count: Place
    lost: Place
    numbers: Place
    distances: Place


@dataclass(frozen=True, eq=False)
class Candidates:
    """Scratch for the rows of one vector.

    It is close together: values that are whole tiles apart would share few cache lines.

    Parameters
    ----------
    lanes : int
        Rows of the vector.
    n_panels : int
        Panels of points.
    room : int
        Points that a row can list.
    x : Place
        The rows of the tile.
    points : Place
    query : QueryRows
    scores : PointScores
    bounds : ScoreBounds
    lists : PointLists
    """

    lanes: int
    n_panels: int
    room: int
    x: Place
    points: Place
    query: QueryRows
    scores: PointScores
    bounds: ScoreBounds
    lists: PointLists

    @classmethod
    @contextmanager
    def take(
        cls, k: Kernel, prefilter: Prefilter, x: Place, points: Place, lanes: int
    ) -> Iterator[Candidates]:
        """Take scratch for as long as the block lasts."""
        dtype = prefilter.weights.dtype.name
        blocks, panels, rank, _ = prefilter.weights.shape
        n_panels = blocks * panels
        entries = [
            [(x.dtype, x.size), (dtype, rank)],
            [(dtype, n_panels * PANEL), (dtype, n_panels), (dtype, 1), (dtype, prefilter.wanted)],
            [(dtype, 1), (dtype, 1), (dtype, 1)],
            [("int32", 1), ("int32", 1), ("int32", prefilter.most), (x.dtype, prefilter.most)],
        ]
        with ExitStack() as stack:
            query, scores, bounds, lists = (
                [
                    stack.enter_context(k.temporary(kind, (-(-size * lanes // k.tile),)))
                    for kind, size in group
                ]
                for group in entries
            )
            yield cls(
                lanes,
                n_panels,
                prefilter.most,
                x,
                points,
                QueryRows(*query),
                PointScores(*scores),
                ScoreBounds(*bounds),
                PointLists(*lists),
            )

    def begin(self, k: Kernel, out: Place, coordinates: Place, row: Any) -> None:
        """Copy the rows, and begin with no point."""
        bounds = self.bounds
        with T.serial(self.x.size) as i:
            self.write(k, self.query.rows, i, k.load(self.x, (i,), row))
        self.write(k, bounds.square, 0, literal(0, bounds.square.dtype, self.lanes))
        with T.serial(coordinates.size) as i:
            entry = k.bind(k.load(coordinates, (i,), row))
            self.write(k, self.query.coordinates, i, entry)
            self.write(k, bounds.square, 0, self.read(k, bounds.square) + entry * entry)
        self.write(k, bounds.above, 0, literal(-math.inf, bounds.above.dtype, self.lanes))
        self.write(k, self.lists.lost, 0, literal(0, "int32", self.lanes))
        with T.serial(self.room) as slot:
            self.write(k, self.lists.numbers, slot, literal(0, "int32", self.lanes))
        with T.serial(self.lanes // NARROW) as part:
            clear(k, out, tirx.Ramp(row.base + part * NARROW, 1, NARROW))

    def read(self, k: Kernel, place: Place, entry: Any = 0) -> Any:
        """Read an entry for all rows."""
        return k.load(place, (0,), tirx.Ramp(entry * self.lanes, 1, self.lanes))

    def write(self, k: Kernel, place: Place, entry: Any, value: Any) -> None:
        """Write an entry for all rows."""
        k.store(place, (0,), tirx.Ramp(entry * self.lanes, 1, self.lanes), value)

    def begin_block(self, k: Kernel) -> None:
        """Begin a block of panels."""
        block = self.scores.block
        self.write(k, block, 0, literal(math.inf, block.dtype, self.lanes))

    def keep(self, k: Kernel, panel: Any, scores: list[Any]) -> None:
        """Keep the scores of a panel and the least of the block, in memory: registers are full."""
        for point, score in enumerate(scores):
            self.write(k, self.scores.points, panel * PANEL + point, score)
        least = k.bind(functools.reduce(lambda a, b: select(b < a, b, a), scores))
        self.write(k, self.scores.panels, panel, least)
        so_far = k.bind(self.read(k, self.scores.block))
        self.write(k, self.scores.block, 0, select(least < so_far, least, so_far))

    def list(self, k: Kernel, live: Any) -> None:
        """List the points between the bounds for live rows, in order of their numbers.

        A row without a bound lists none. Otherwise it would list the padding of the last block,
        whose scores are infinite.
        """
        above = k.bind(self.read(k, self.bounds.above))
        most = k.bind(self.read(k, self.bounds.most))
        infinity = literal(math.inf, self.bounds.most.dtype, self.lanes)
        live = k.bind(live & bits(tirx.abs(most) < infinity, self.lanes))
        self.write(k, self.lists.count, 0, literal(0, "int32", self.lanes))
        with T.serial(self.n_panels) as panel:
            near = bits(self.read(k, self.scores.panels, panel) <= most, self.lanes) & live
            with T.If(tirx.NE(near, 0)), T.Then(), T.serial(PANEL) as point:
                number = k.bind(panel * PANEL + point)
                score = self.read(k, self.scores.points, number)
                self._append(k, bits((score <= most) & (above < score), self.lanes) & live, number)
        full = literal(self.room, "int32", self.lanes)
        one = literal(1, "int32", self.lanes)
        lost = select(self.read(k, self.lists.count) > full, one, self.read(k, self.lists.lost))
        self.write(k, self.lists.lost, 0, lost)

    def settle(self, k: Kernel, out: Place, best: Place, part: Any, row: Any) -> None:
        """Order the listed points by their distances, for a narrow vector of rows.

        1. Measure the points of each row.
        2. Offer them to the lists of the nearest, one of each row at a time.
        """
        count = self.lists.count
        full = literal(self.room, "int32", 1)
        first = k.bind(part * NARROW)
        # 1.
        with T.serial(NARROW) as lane:
            lane_row = k.bind(first + lane)
            n_listed = k.bind(tirx.min(k.load(count, (0,), lane_row), full))
            with T.serial((n_listed + (CHAINS - 1)) // CHAINS) as block:
                self._measure(k, lane_row, block * CHAINS)
        # 2. A row with fewer points offers NaN, which comes last.
        # Counts may exceed the room by the points that were lost.
        counts = k.bind(k.load(count, (0,), tirx.Ramp(first, 1, NARROW)))
        longest = tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.smax", counts)
        with T.serial(k.bind(tirx.min(longest, full))) as slot:
            is_listed = tirx.Broadcast(slot, NARROW) < counts
            at = tirx.Ramp(slot * self.lanes + first, 1, NARROW)
            nothing = literal(math.nan, self.x.dtype, NARROW)
            entry = select(is_listed, k.load(self.lists.distances, (0,), at), nothing)
            nobody = literal(NO_POINT, "int32", NARROW)
            number = k.bind(select(is_listed, k.load(self.lists.numbers, (0,), at), nobody))
            offer(k, k.bind(entry), number, best, out, row)

    def narrow(self, k: Kernel, prefilter: Prefilter, best: Place, row: Any) -> None:
        """Bound the scores by the distance of the last of the nearest so far.

        A point at squared distance d scores at most ``d + margin (3 + 2 d) - square``.
        """
        kind = Kind(self.x.dtype, self.lanes)
        unscaled = k.load(best, (prefilter.wanted - 1,), row)
        last = k.bind(unscaled * kind.number(prefilter.scale**2))
        bound = last + (last + last + kind.number(3)) * kind.number(prefilter.margin)
        self.write(k, self.bounds.above, 0, self.read(k, self.bounds.most))
        cast = tirx.Cast(f"{self.bounds.most.dtype}x{self.lanes}", bound)
        self.write(k, self.bounds.most, 0, cast - self.read(k, self.bounds.square))

    def live(self, k: Kernel, row: Any) -> Any:
        """Return the lanes that hold rows, as bits; any point may be near to leftovers."""
        n_rows = k.bind(tirx.min(k.rows_live - row.base, literal(self.lanes, "int32", 1)))
        # In 64 bits, since a shift by 32 lanes is undefined in 32.
        held = tirx.Cast("int64", n_rows)
        return k.bind(tirx.Cast("int32", (literal(1, "int64", 1) << held) - literal(1, "int64", 1)))

    def incomplete(self, k: Kernel, part: Any) -> Any:
        """Return, as bits, the rows of a narrow vector without a bound, or that lost points."""
        some = tirx.Ramp(part * NARROW, 1, NARROW)
        infinity = literal(math.inf, self.bounds.most.dtype, NARROW)
        lost = k.load(self.lists.lost, (0,), some) > literal(0, "int32", NARROW)
        return bits(lost | ~(tirx.abs(k.load(self.bounds.most, (0,), some)) < infinity), NARROW)

    def _append(self, k: Kernel, near: Any, point: Any) -> None:
        """Append a point to the lists of the rows that ``near`` has bits for."""
        count = self.lists.count
        last = literal(self.room - 1, "int32", 1)
        rows = k.variable("int32", near)
        with T.serial(tirx.popcount(rows.get())):
            lowest = tirx.call_llvm_pure_intrin(
                # The flag promises that some bit is set, so the instruction needs no test for zero.
                "int32",
                "llvm.cttz",
                rows.get(),
                tirx.IntImm("bool", 1),
            )
            row = k.bind(lowest)
            held = k.bind(k.load(count, (0,), row))
            # A full list overwrites its last place and counts on: more than the room means that
            # points were lost.
            slot = select(held < last, held, last)
            k.store(self.lists.numbers, (0,), slot * self.lanes + row, point)
            k.store(count, (0,), row, held + 1)
            rows.set(rows.get() & (rows.get() - 1))  # clears the lowest bit

    def _measure(self, k: Kernel, row: Any, first: Any) -> None:
        """Compute the squared distances of one row to ``CHAINS`` points, each in order."""
        kind = Kind(self.x.dtype, 1)
        width = self.x.size
        slots = [k.bind((first + chain) * self.lanes + row) for chain in range(CHAINS)]
        starts = [k.bind(k.load(self.lists.numbers, (0,), slot) * width) for slot in slots]
        totals = [k.variable(self.x.dtype, kind.number(0)) for _ in starts]
        with T.serial(width) as i:
            entry = k.bind(k.load(self.query.rows, (0,), i * self.lanes + row))
            for start, total in zip(starts, totals, strict=True):
                difference = k.bind(entry - k.entry(self.points, start + i))
                total.set(total.get() + product(kind, difference, difference))
        for slot, total in zip(slots, totals, strict=True):
            k.store(self.lists.distances, (0,), slot, total.get())
