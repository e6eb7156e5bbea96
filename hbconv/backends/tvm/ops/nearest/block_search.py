"""Emit ``nearest`` row by row: vectors run along points, which lie in blocks of neighbours.

A block whose box is farther than the nearest so far is left out. One row among 10**6 points of 10
columns reads a hundredth of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, product
from hbconv.backends.tvm.ops.nearest.best_lists import EMPTY, bits, clear, offer
from hbconv.backends.tvm.ops.nearest.every_point import search
from hbconv.backends.tvm.ops.nearest.point_blocks import VECTORS, PointBlocks
from hbconv.backends.tvm.ops.nearest.project import project
from hbconv.backends.tvm.ops.nearest.tables import CHAINS, Prefilter
from hbconv.backends.tvm.tir.kernel import Kernel, Register, literal, spread
from hbconv.backends.tvm.tir.memory import InScratch, Place

__all__ = ["row_nearest", "search_blocks"]

select = tirx.Select
FIRST_SHARE = 0.25
"""Share of the distance so far up to which blocks are visited first; twice as far each time."""
SHARE_LISTED = 8
"""Points for each that a row may list: beyond that, trying every point in turn is faster."""


def row_nearest(k: Kernel, out: Place, x: Place, points: Place) -> None:
    """Emit ``nearest`` for one row."""
    prefilter = Prefilter.of(points.numpy(), out.shape[0])
    with k.temporary(x.dtype, out.shape) as best:
        if prefilter is None:
            with k.rows() as row:
                search(k, out, best, x, points, row)
        else:
            blocks = PointBlocks.of(prefilter, k.machine.vector)
            search_blocks(k, prefilter, blocks, out, best, x, points)


def search_blocks(
    k: Kernel,
    prefilter: Prefilter,
    blocks: PointBlocks,
    out: Place,
    best: Place,
    x: Place,
    points: Place,
) -> None:
    """Find the nearest points of each row; a row without a bound tries every point.

    1. Bound the distance to each block of points by its box.
    2. Score the nearest blocks first. The last of the nearest so far bounds what may be nearer.
    """
    dtype = blocks.weights.dtype.name
    with (
        k.temporary(dtype, (blocks.rank,)) as coordinates,
        _one_rows(k, x.dtype, x.size) as own_entries,
        _one_rows(k, dtype, blocks.rank) as own_coordinates,
        _one_rows(k, dtype, blocks.n_boxes) as reaches,
        _one_rows(k, "int32", blocks.size) as numbers,
        _one_rows(k, x.dtype, blocks.size) as distances,
    ):
        most, farthest, square = (k.variable(dtype, literal(0, dtype, 1)) for _ in range(3))
        count, listed = (k.variable("int32", literal(0, "int32", 1)) for _ in range(2))
        near = _Search(
            k, prefilter, blocks, out, best, x, points, own_entries, own_coordinates, reaches,
            numbers, distances, most, farthest, square, count, listed,
        )  # fmt: skip
        project(k, prefilter, x, coordinates)
        with k.rows() as row:
            near.begin(coordinates, row)
            near.reach_blocks()  # 1.
            near.visit_blocks(row)  # 2.
            with T.If(near.incomplete(row)), T.Then():
                search(k, out, best, x, points, row)


@dataclass(frozen=True, eq=False)
class _Search:
    """The nearest so far of one row, and what may be nearer.

    A point may be nearer if it scores at most ``most``, and a block if its ``reaches``, the least
    squared distance to its box, is at most ``farthest``. A score is a squared distance less
    ``square``, the square of the row's coordinates.
    """

    k: Kernel
    prefilter: Prefilter
    blocks: PointBlocks
    out: Place
    best: Place
    x: Place
    points: Place
    entries: Place
    coordinates: Place
    reaches: Place
    numbers: Place
    distances: Place
    most: Register
    farthest: Register
    square: Register
    count: Register
    listed: Register

    def begin(self, coordinates: Place, row: Any) -> None:
        """Copy the row, and begin with no point and no bound."""
        k = self.k
        dtype = self.blocks.weights.dtype
        # Padding scores infinity, which is more than the largest number.
        largest = literal(float(np.finfo(dtype).max), dtype.name, 1)
        self.most.set(largest)
        self.farthest.set(largest)
        self.square.set(literal(0, dtype.name, 1))
        self.listed.set(literal(0, "int32", 1))
        with T.serial(self.x.size) as i:
            self._write(self.entries, i, k.load(self.x, (i,), row))
        with T.serial(self.blocks.rank) as i:
            entry = k.bind(k.load(coordinates, (i,), row))
            self._write(self.coordinates, i, entry)
            self.square.set(self.square.get() + entry * entry)
        # Distances are computed a few at a time, to the end of the last few.
        with T.serial(self.blocks.size) as slot:
            self._write(self.numbers, slot, literal(0, "int32", 1))
        clear(k, self.out, row)

    def reach_blocks(self) -> None:
        """Write the least squared distance to the box of each block; vectors run along boxes."""
        k, blocks = self.k, self.blocks
        kind = Kind(blocks.weights.dtype.name, blocks.lanes)
        lows, highs = k.constant(blocks.lows), k.constant(blocks.highs)
        zero = kind.number(0)
        with T.serial(blocks.n_boxes // kind.lanes) as group:
            total = k.register(kind.dtype, zero, kind.lanes)
            with T.serial(blocks.rank) as i:
                entry = spread(k.bind(self._read(self.coordinates, i)), kind.lanes)
                at = k.bind((group * blocks.rank + i) * kind.lanes)
                below = k.bind(k.entries(lows, at, kind.lanes) - entry)
                above = k.bind(entry - k.entries(highs, at, kind.lanes))
                outside = k.bind(select(below < above, above, below))
                apart = k.bind(select(outside < zero, zero, outside))
                total.set(total.get() + apart * apart)
            self._write(self.reaches, self._vector(group), total.get())

    def visit_blocks(self, row: Any) -> None:
        """Visit the blocks that may hold a nearer point, the nearest ones first.

        A sort of the blocks would cost more than some rounds: up to the next nearest box until as
        many points as are wanted were found, then up to growing shares of the distance so far.
        Without a distance, blocks in any order took 14 ms a row for 40 of 10**5 points of a line.
        """
        k, lanes = self.k, self.blocks.lanes
        dtype = self.blocks.weights.dtype.name
        visited = k.variable(dtype, literal(-1, dtype, 1))
        up_to = k.variable(dtype, literal(-1, dtype, 1))
        share = k.variable(dtype, literal(FIRST_SHARE, dtype, 1))
        one = literal(1, dtype, 1)
        with T.While(share.get() <= one):
            with T.If(self._is_full(row)):
                with T.Then():
                    # The bound shrinks, so a larger share of it may be less than what was visited.
                    up_to.set(tirx.max(visited.get(), k.bind(share.get() * self.farthest.get())))
                    share.set(share.get() + share.get())
                with T.Else():
                    nearest = self._least_reach(visited.get())
                    up_to.set(nearest)
                    # No box is left: the row has no distance, and every point is tried.
                    none = nearest >= self.farthest.get()
                    share.set(select(none, one + one, share.get()))
            with T.serial(self.blocks.n_boxes // lanes) as group:
                reach = k.bind(self._read(self.reaches, self._vector(group)))
                in_round = (reach <= spread(up_to.get(), lanes)) & (
                    spread(visited.get(), lanes) < reach
                )
                with self._each(bits(in_round, lanes)) as lane:
                    block = k.bind(group * lanes + lane)
                    near = self._read(self.reaches, block) <= self.farthest.get()
                    with T.If(near & ~self._lists_many()), T.Then():
                        self._visit(block, row)
            visited.set(up_to.get())

    def _least_reach(self, beyond: Any) -> Any:
        """Return the distance to the nearest box that is farther than a bound."""
        k, lanes = self.k, self.blocks.lanes
        dtype = self.blocks.weights.dtype.name
        least = k.register(dtype, spread(self.farthest.get(), lanes), lanes)
        with T.serial(self.blocks.n_boxes // lanes) as group:
            reach = k.bind(self._read(self.reaches, self._vector(group)))
            nearer = (spread(beyond, lanes) < reach) & (reach < least.get())
            least.set(select(nearer, reach, least.get()))
        return k.bind(
            tirx.call_llvm_pure_intrin(dtype, "llvm.vector.reduce.fmin", k.bind(least.get()))
        )

    def _visit(self, block: Any, row: Any) -> None:
        """Score the points of a block, and order those that may be nearer by their distances."""
        k, blocks = self.k, self.blocks
        lanes = blocks.lanes
        kind = Kind(blocks.weights.dtype.name, lanes)
        weights, norms = k.constant(blocks.weights), k.constant(blocks.norms)
        first = k.bind(block * blocks.size)
        totals = [
            k.register(kind.dtype, k.entries(norms, first + v * lanes, lanes), lanes)
            for v in range(VECTORS)
        ]
        with T.serial(blocks.rank) as i:
            entry = spread(k.bind(self._read(self.coordinates, i)), lanes)
            for v, total in enumerate(totals):
                weight = k.entries(
                    weights, ((block * blocks.rank + i) * VECTORS + v) * lanes, lanes
                )
                total.set(total.get() + entry * weight)
        self._list(first, [total.get() for total in totals])
        self.listed.set(self.listed.get() + self.count.get())
        with T.If(self.count.get() > 0), T.Then():
            self._settle(row)
            with T.If(self._is_full(row)), T.Then():
                self._narrow(row)

    def _list(self, first: Any, scores: list[Any]) -> None:
        """List the points of a block that may be nearer."""
        k, lanes = self.k, self.blocks.lanes
        numbers = k.constant(self.blocks.numbers)
        most = spread(self.most.get(), lanes)
        self.count.set(literal(0, "int32", 1))
        for v, score in enumerate(scores):
            with self._each(bits(score <= most, lanes)) as lane:
                number = k.entry(numbers, first + v * lanes + lane)
                self._write(self.numbers, self.count.get(), number)
                self.count.set(self.count.get() + 1)

    @contextmanager
    def _each(self, mask: Any) -> Iterator[Any]:
        """Loop over the bits that are set, and yield their positions."""
        k = self.k
        left = k.variable("int32", mask)
        with T.While(tirx.NE(left.get(), 0)):
            lowest = tirx.call_llvm_pure_intrin(
                "int32", "llvm.cttz", left.get(), tirx.IntImm("bool", 1)
            )
            yield k.bind(lowest)
            left.set(left.get() & (left.get() - 1))  # clears the lowest bit

    def _settle(self, row: Any) -> None:
        """Offer the listed points to the nearest so far, by their distances."""
        k = self.k
        count = k.bind(self.count.get())
        with T.serial((count + (CHAINS - 1)) // CHAINS) as chains:
            self._measure(k.bind(chains * CHAINS))
        with T.serial(count) as slot:
            distance = k.bind(self._read(self.distances, slot))
            offer(k, distance, self._read(self.numbers, slot), self.best, self.out, row)

    def _measure(self, first: Any) -> None:
        """Compute the squared distances to ``CHAINS`` points, each in order."""
        k = self.k
        kind = Kind(self.x.dtype, 1)
        width = self.x.size
        starts = [
            k.bind(self._read(self.numbers, first + chain) * width) for chain in range(CHAINS)
        ]
        totals = [k.variable(self.x.dtype, kind.number(0)) for _ in starts]
        with T.serial(width) as i:
            entry = k.bind(self._read(self.entries, i))
            for start, total in zip(starts, totals, strict=True):
                difference = k.bind(entry - k.entry(self.points, start + i))
                total.set(total.get() + product(kind, difference, difference))
        for chain, total in enumerate(totals):
            self._write(self.distances, first + chain, total.get())

    def _is_full(self, row: Any) -> Any:
        """Whether as many points as are wanted were found."""
        return tirx.NE(self.k.load(self.out, (self.prefilter.wanted - 1,), row), EMPTY)

    def _narrow(self, row: Any) -> None:
        """Bound scores and boxes by the distance of the last of the nearest so far.

        A point at squared distance d scores at most ``d + margin (3 + 2 d) - square``. Its box is
        not farther than ``d + 2 margin (3 + 2 d)``: the error of a sum of squares is below half of
        the margin, relative to the sum.
        """
        k = self.k
        kind = Kind(self.x.dtype, 1)
        unscaled = k.load(self.best, (self.prefilter.wanted - 1,), row)
        last = k.bind(unscaled * kind.number(self.prefilter.scale**2))
        slack = k.bind((last + last + kind.number(3)) * kind.number(self.prefilter.margin))
        dtype = self.blocks.weights.dtype.name
        self.most.set(tirx.Cast(dtype, k.bind(last + slack)) - self.square.get())
        self.farthest.set(tirx.Cast(dtype, k.bind(last + slack + slack)))

    def incomplete(self, row: Any) -> Any:
        """Whether points were left out, or the row has no bound: something was not finite."""
        infinity = literal(math.inf, self.blocks.weights.dtype.name, 1)
        bounded = tirx.abs(self.most.get()) < infinity
        return ~self._is_full(row) | ~bounded | self._lists_many()

    def _lists_many(self) -> Any:
        """Whether nearly all points may be nearest, as to the centre of a sphere."""
        most = max(2 * self.prefilter.most, self.points.shape[0] // SHARE_LISTED)
        return self.listed.get() > most

    def _vector(self, group: Any) -> Any:
        """Return the positions of a group of boxes."""
        return tirx.Ramp(group * self.blocks.lanes, 1, self.blocks.lanes)

    def _read(self, place: Place, at: Any) -> Any:
        return self.k.load(place, (0,), at)

    def _write(self, place: Place, at: Any, value: Any) -> None:
        self.k.store(place, (0,), at, value)


def _one_rows(k: Kernel, dtype: str, size: int) -> AbstractContextManager[InScratch]:
    """Take scratch that one row has whole: it is counted in tiles of rows."""
    return k.temporary(dtype, (-(-size // k.tile),))
