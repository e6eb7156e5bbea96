"""Candidates for nearest points: points listed by their scores, then ordered by exact distances."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, product
from hbconv.backends.tvm.ops.nearest.best_lists import NARROW, bits, clear, offer
from hbconv.backends.tvm.ops.nearest.tables import CHAINS, Prefilter
from hbconv.backends.tvm.ops.packed_weights import PANEL
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["Candidates"]

select = tirx.Select
NO_POINT = 2**31 - 1


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

    It lies close together: values whole tiles apart would share few lines of a cache.

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
            one = k.bind(first + lane)
            n_listed = k.bind(tirx.min(k.load(count, (0,), one), full))
            with T.serial((n_listed + (CHAINS - 1)) // CHAINS) as block:
                self._measure(k, one, block * CHAINS)
        # 2. A row with fewer points offers NaN, which comes last.
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
                "int32", "llvm.cttz", rows.get(), tirx.IntImm("bool", 1)
            )
            one = k.bind(lowest)
            held = k.bind(k.load(count, (0,), one))
            slot = select(held < last, held, last)
            k.store(self.lists.numbers, (0,), slot * self.lanes + one, point)
            k.store(count, (0,), one, held + 1)
            rows.set(rows.get() & (rows.get() - 1))  # clears the lowest bit

    def _measure(self, k: Kernel, row: Any, first: Any) -> None:
        """Compute the squared distances of one row to ``CHAINS`` points, each in order."""
        one = Kind(self.x.dtype, 1)
        width = self.x.size
        slots = [k.bind((first + chain) * self.lanes + row) for chain in range(CHAINS)]
        starts = [k.bind(k.load(self.lists.numbers, (0,), slot) * width) for slot in slots]
        totals = [k.variable(self.x.dtype, one.number(0)) for _ in starts]
        with T.serial(width) as i:
            entry = k.bind(k.load(self.query.rows, (0,), i * self.lanes + row))
            for start, total in zip(starts, totals, strict=True):
                difference = k.bind(entry - k.entry(self.points, start + i))
                total.set(total.get() + product(one, difference, difference))
        for slot, total in zip(slots, totals, strict=True):
            k.store(self.lists.distances, (0,), slot, total.get())
