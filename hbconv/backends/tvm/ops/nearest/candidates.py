"""Candidates: the points that may be nearest to the rows of a vector, listed by their scores, whose distances are then computed as they are defined."""

from __future__ import annotations

import functools
import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, product
from hbconv.backends.tvm.ops.matmul import PANEL
from hbconv.backends.tvm.ops.nearest.best_lists import NARROW, bits, clear, offer
from hbconv.backends.tvm.ops.nearest.tables import CHAINS, Screen
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["Candidates"]

select = tirx.Select
NO_POINT = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Candidates:
    """Scratch for the rows of a vector, which lies close together: what is apart by whole tiles falls on the same few lines of a cache.

    Parameters
    ----------
    lanes, size, room : int
        Rows of the vector, number of panels of points, and points that a row can list.
    x, points : Place
    rows, coordinates : Place
        The rows themselves, and as they are scored.
    scores, panels, least, nearest : Place
        Of every point, the least of each panel, the least of a block so far, and those of the best blocks.
    above, most : Place
        Points are listed that score more than the one, and no more than the other.
    square : Place
        Of a row's coordinates: distances less this are scores.
    count, lost, numbers, distances : Place
        Points that a row lists, whether some did not find room, which they are, and how far.
    """

    lanes: int
    size: int
    room: int
    x: Place
    points: Place
    rows: Place
    coordinates: Place
    scores: Place
    panels: Place
    least: Place
    nearest: Place
    above: Place
    most: Place
    square: Place
    count: Place
    lost: Place
    numbers: Place
    distances: Place

    @classmethod
    def take(
        cls, k: Kernel, stack: ExitStack, screen: Screen, x: Place, points: Place, lanes: int
    ) -> Candidates:
        """Take scratch."""
        dtype, (blocks, panels, rank, _) = screen.weights.dtype.name, screen.weights.shape
        count, one = blocks * panels, (dtype, 1)
        sizes = {
            "rows": (x.dtype, x.size), "coordinates": (dtype, rank), "scores": (dtype, count * PANEL), "panels": (dtype, count), "least": one,
            "nearest": (dtype, screen.wanted), "above": one, "most": one, "square": one, "count": ("int32", 1), "lost": ("int32", 1),
            "numbers": ("int32", screen.most), "distances": (x.dtype, screen.most),
        }  # fmt: skip
        places = {
            name: stack.enter_context(k.temporary(kind, (-(-size * lanes // k.tile),)))
            for name, (kind, size) in sizes.items()
        }
        return cls(lanes, count, screen.most, x, points, **places)

    def begin(self, k: Kernel, out: Place, coordinates: Place, row: Any) -> None:
        """Begin with no point."""
        with T.serial(self.x.size) as i:
            self.write(k, self.rows, i, k.load(self.x, (i,), row))
        self.write(k, self.square, 0, literal(0, self.square.dtype, self.lanes))
        with T.serial(coordinates.size) as i:
            entry = k.bind(k.load(coordinates, (i,), row))
            self.write(k, self.coordinates, i, entry)
            self.write(k, self.square, 0, self.read(k, self.square) + entry * entry)
        self.write(k, self.above, 0, literal(-math.inf, self.above.dtype, self.lanes))
        self.write(k, self.lost, 0, literal(0, "int32", self.lanes))
        with T.serial(self.room) as slot:
            self.write(k, self.numbers, slot, literal(0, "int32", self.lanes))
        with T.serial(self.lanes // NARROW) as part:
            clear(k, out, tirx.Ramp(row.base + part * NARROW, 1, NARROW))

    def read(self, k: Kernel, place: Place, entry: Any = 0) -> Any:
        """Read an entry for all rows."""
        return k.load(place, (0,), tirx.Ramp(entry * self.lanes, 1, self.lanes))

    def write(self, k: Kernel, place: Place, entry: Any, value: Any) -> None:
        """Write an entry for all rows."""
        k.store(place, (0,), tirx.Ramp(entry * self.lanes, 1, self.lanes), value)

    def open_block(self, k: Kernel) -> None:
        """Begin a block of panels."""
        self.write(k, self.least, 0, literal(math.inf, self.least.dtype, self.lanes))

    def keep(self, k: Kernel, panel: Any, scores: list[Any]) -> None:
        """Keep the scores of a panel, and the least of the block: in memory, for registers are full."""
        for point, score in enumerate(scores):
            self.write(k, self.scores, panel * PANEL + point, score)
        least = k.bind(functools.reduce(lambda a, b: select(b < a, b, a), scores))
        self.write(k, self.panels, panel, least)
        so_far = k.bind(self.read(k, self.least))
        self.write(k, self.least, 0, select(least < so_far, least, so_far))

    def list(self, k: Kernel, live: Any) -> None:
        """List the points between the bounds for live rows, those of lower numbers first.

        A row without a bound lists none: points that fill the last block up, which score infinity, would be among them.
        """
        above, most = (k.bind(self.read(k, bound)) for bound in (self.above, self.most))
        live = k.bind(
            live & bits(tirx.abs(most) < literal(math.inf, self.most.dtype, self.lanes), self.lanes)
        )
        self.write(k, self.count, 0, literal(0, "int32", self.lanes))
        with T.serial(self.size) as panel:
            near = bits(self.read(k, self.panels, panel) <= most, self.lanes) & live
            with T.If(tirx.NE(near, 0)), T.Then(), T.serial(PANEL) as point:
                number = k.bind(panel * PANEL + point)
                score = self.read(k, self.scores, number)
                self._append(k, bits((score <= most) & (above < score), self.lanes) & live, number)
        full, one = literal(self.room, "int32", self.lanes), literal(1, "int32", self.lanes)
        self.write(
            k, self.lost, 0, select(self.read(k, self.count) > full, one, self.read(k, self.lost))
        )

    def settle(self, k: Kernel, out: Place, best: Place, part: Any, row: Any) -> None:
        """Put the listed points in order by their distances, for a narrow vector of rows."""
        full, first = literal(self.room, "int32", 1), k.bind(part * NARROW)
        with T.serial(NARROW) as lane:
            one = k.bind(first + lane)
            listed = k.bind(tirx.min(k.load(self.count, (0,), one), full))
            with T.serial((listed + (CHAINS - 1)) // CHAINS) as block:
                self._measure(k, one, block * CHAINS)
        counts = k.bind(k.load(self.count, (0,), tirx.Ramp(first, 1, NARROW)))
        longest = tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.smax", counts)
        with T.serial(k.bind(tirx.min(longest, full))) as slot:
            listed, at = (
                tirx.Broadcast(slot, NARROW) < counts,
                tirx.Ramp(slot * self.lanes + first, 1, NARROW),
            )
            entry = select(
                listed, k.load(self.distances, (0,), at), literal(math.nan, self.x.dtype, NARROW)
            )
            number = k.bind(
                select(listed, k.load(self.numbers, (0,), at), literal(NO_POINT, "int32", NARROW))
            )
            offer(k, k.register(self.x.dtype, entry, NARROW), number, best, out, row)

    def narrow(self, k: Kernel, screen: Screen, best: Place, row: Any) -> None:
        """Bound the scores of points as near as the last of the nearest so far."""
        given = Kind(self.x.dtype, self.lanes)
        last = k.bind(k.load(best, (screen.wanted - 1,), row) * given.number(screen.scale**2))
        bound = last + (last + last + given.number(3)) * given.number(screen.margin)
        self.write(k, self.above, 0, self.read(k, self.most))
        self.write(
            k,
            self.most,
            0,
            tirx.Cast(f"{self.most.dtype}x{self.lanes}", bound) - self.read(k, self.square),
        )

    def live(self, k: Kernel, row: Any) -> Any:
        """Return which lanes hold rows, as bits: the others hold leftovers, to which any point may be near."""
        held = tirx.Cast(
            "int64", k.bind(tirx.min(k.rows_live - row.base, literal(self.lanes, "int32", 1)))
        )
        return k.bind(tirx.Cast("int32", (literal(1, "int64", 1) << held) - literal(1, "int64", 1)))

    def lacking(self, k: Kernel, part: Any) -> Any:
        """Return the rows of a narrow vector that have no bound, or not all points below it, as bits."""
        some, infinite = (
            tirx.Ramp(part * NARROW, 1, NARROW),
            literal(math.inf, self.most.dtype, NARROW),
        )
        lost = k.load(self.lost, (0,), some) > literal(0, "int32", NARROW)
        return bits(lost | ~(tirx.abs(k.load(self.most, (0,), some)) < infinite), NARROW)

    def _append(self, k: Kernel, near: Any, point: Any) -> None:
        """Append a point to the lists of the rows that it is near to."""
        last = literal(self.room - 1, "int32", 1)
        rows = k.variable("int32", near)
        with T.serial(tirx.popcount(rows.get())):
            one = k.bind(
                tirx.call_llvm_pure_intrin("int32", "llvm.cttz", rows.get(), tirx.IntImm("bool", 1))
            )
            held = k.bind(k.load(self.count, (0,), one))
            k.store(self.numbers, (0,), select(held < last, held, last) * self.lanes + one, point)
            k.store(self.count, (0,), one, held + 1)
            rows.set(rows.get() & (rows.get() - 1))

    def _measure(self, k: Kernel, row: Any, first: Any) -> None:
        """Compute the squared distances of one row to some points, each in order."""
        one, width = Kind(self.x.dtype, 1), self.x.size
        slots = [k.bind((first + chain) * self.lanes + row) for chain in range(CHAINS)]
        starts = [k.bind(k.load(self.numbers, (0,), slot) * width) for slot in slots]
        totals = [k.variable(self.x.dtype, one.number(0)) for _ in starts]
        with T.serial(width) as i:
            entry = k.bind(k.load(self.rows, (0,), i * self.lanes + row))
            for start, total in zip(starts, totals, strict=True):
                difference = k.bind(entry - k.entry(self.points, start + i))
                total.set(total.get() + product(one, difference, difference))
        for slot, total in zip(slots, totals, strict=True):
            k.store(self.distances, (0,), slot, total.get())
