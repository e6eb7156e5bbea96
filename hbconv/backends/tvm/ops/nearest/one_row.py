"""Emit ``nearest`` for one row: vectors run along the points.

The steps are those for tiles of rows: scores, candidates, distances in order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, product
from hbconv.backends.tvm.ops.nearest.best_lists import NARROW, bits, clear, offer
from hbconv.backends.tvm.ops.nearest.emit import nearest, project, search
from hbconv.backends.tvm.ops.nearest.tables import BLOCKS_PER_POINT, CHAINS, Prefilter
from hbconv.backends.tvm.ops.row_products import VECTORS
from hbconv.backends.tvm.tir.kernel import Kernel, Register, literal, spread
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["row_nearest"]

select = tirx.Select
ROW = 0
"""Position of the only row."""


def row_nearest(k: Kernel, out: Place, x: Place, points: Place) -> None:
    """Emit ``nearest``; a row whose candidates find no room tries every point.

    1. Score every point; some of the least scores bound those of the nearest.
    2. List the points within the bound, and order them by their distances.
    3. Do so again for points that the last of the nearest so far leaves possible.
    """
    prefilter = Prefilter.of(points.numpy(), out.shape[0])
    if prefilter is None:
        nearest(k, out, x, points)
        return
    with (
        _Candidates.take(k, prefilter, x, points) as candidates,
        k.temporary(x.dtype, out.shape) as best,
    ):
        candidates.score(prefilter)  # 1.
        clear(k, out, ROW)
        with T.serial(2), T.If(candidates.above.get() < candidates.most.get()), T.Then():
            candidates.list()
            candidates.settle(out, best)  # 2.
            candidates.narrow(prefilter, best)  # 3.
        with T.If(candidates.incomplete()), T.Then():
            search(k, out, best, x, points, ROW)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Scores of the points, and the points that may be the nearest.

    Points are listed that score more than ``above`` and at most ``most``. ``lost`` is 1 if some
    point found no room.
    """

    k: Kernel
    x: Place
    points: Place
    coordinates: Place
    tables: _Tables
    scores: Place
    least: Place
    smallest: Place
    numbers: Place
    distances: Place
    above: Register
    most: Register
    square: Register
    count: Register
    lost: Register

    @classmethod
    @contextmanager
    def take(
        cls, k: Kernel, prefilter: Prefilter, x: Place, points: Place
    ) -> Iterator[_Candidates]:
        """Take scratch for as long as the block lasts, and begin without a bound."""
        tables = _Tables.of(prefilter, k.machine.vector)
        dtype = prefilter.weights.dtype.name
        with (
            k.temporary(dtype, prefilter.weights.shape[2:3]) as coordinates,
            k.temporary(dtype, (tables.norms.size,)) as scores,
            k.temporary(dtype, (tables.groups * tables.lanes,)) as least,
            k.temporary(dtype, (prefilter.wanted,)) as smallest,
            k.temporary("int32", (prefilter.most,)) as numbers,
            k.temporary(x.dtype, (prefilter.most,)) as distances,
        ):
            project(k, prefilter, x, coordinates)
            square = k.variable(dtype, literal(0, dtype, 1))
            with T.serial(coordinates.size) as i:
                entry = k.bind(k.load(coordinates, (i,), ROW))
                square.set(square.get() + entry * entry)
            with T.serial(prefilter.most) as slot:
                k.store(numbers, (slot,), ROW, literal(0, "int32", 1))
            above = k.variable(dtype, literal(-math.inf, dtype, 1))
            most = k.variable(dtype, literal(math.inf, dtype, 1))
            count, lost = (k.variable("int32", literal(0, "int32", 1)) for _ in range(2))
            yield cls(
                k, x, points, coordinates, tables, scores, least, smallest, numbers, distances,
                above, most, square, count, lost,
            )  # fmt: skip

    def score(self, prefilter: Prefilter) -> None:
        """Score every point, and bound the scores of some of the nearest.

        1. Score blocks of points: totals stay in registers.
        2. Each lane of a group of blocks keeps its least score.
        3. The ``wanted``-th least of these is the bound.
        """
        k, tables = self.k, self.tables
        groups, blocks, rank, vectors, lanes = tables.weights.shape
        kind = Kind(self.scores.dtype, lanes)
        weights, norms = k.constant(tables.weights), k.constant(tables.norms)
        with T.serial(groups) as group:
            least = k.register(kind.dtype, kind.number(math.inf), lanes)
            with T.serial(blocks) as step:
                block = k.bind(group * blocks + step)
                first = k.bind(block * (vectors * lanes))
                totals = [
                    k.register(kind.dtype, k.entries(norms, first + v * lanes, lanes), lanes)
                    for v in range(vectors)
                ]
                with T.serial(rank) as i:  # 1.
                    entry = spread(k.bind(k.load(self.coordinates, (i,), ROW)), lanes)
                    for v, total in enumerate(totals):
                        weight = k.entries(
                            weights, ((block * rank + i) * vectors + v) * lanes, lanes
                        )
                        total.set(total.get() + entry * weight)
                for v, total in enumerate(totals):
                    self._write(self.scores, first + v * lanes, total.get())
                values = [total.get() for total in totals]  # 2.
                near = k.bind(functools.reduce(lambda a, b: select(b < a, b, a), values))
                so_far = k.bind(least.get())
                least.set(select(near < so_far, near, so_far))
            self._write(self.least, group * lanes, least.get())
        self._bound(prefilter.wanted)  # 3.

    def _bound(self, wanted: int) -> None:
        """Let the least scores sink into the smallest so far, of which the last is the bound."""
        k = self.k
        dtype = self.least.dtype
        with T.serial(wanted) as slot:
            k.store(self.smallest, (slot,), ROW, literal(math.inf, dtype, 1))
        with T.serial(self.least.size) as i:
            sinking = k.variable(dtype, k.load(self.least, (i,), ROW))
            sinks = sinking.get() < k.load(self.smallest, (wanted - 1,), ROW)
            with T.If(sinks), T.Then(), T.serial(wanted) as slot:
                value = k.bind(k.load(self.smallest, (slot,), ROW))
                entry = k.bind(sinking.get())
                k.store(self.smallest, (slot,), ROW, select(entry < value, entry, value))
                sinking.set(select(entry < value, value, entry))
        self.most.set(k.load(self.smallest, (wanted - 1,), ROW))

    def list(self) -> None:
        """List the points between the bounds, in order of their numbers.

        Without a bound none is listed. Otherwise the padding, whose scores are infinite, would be.
        """
        k, lanes = self.k, self.tables.lanes
        dtype = self.scores.dtype
        infinity = literal(math.inf, dtype, 1)
        bound = k.bind(select(tirx.abs(self.most.get()) < infinity, self.most.get(), -infinity))
        most, above = (spread(k.bind(value), lanes) for value in (bound, self.above.get()))
        room = self.numbers.size
        self.count.set(literal(0, "int32", 1))
        with T.serial(self.scores.size // lanes) as vector:
            first = k.bind(vector * lanes)
            scores = k.bind(self._read(self.scores, first))
            near = k.variable("int32", bits((scores <= most) & (above < scores), lanes))
            with T.While(tirx.NE(near.get(), 0)):
                lowest = tirx.call_llvm_pure_intrin(
                    "int32", "llvm.cttz", near.get(), tirx.IntImm("bool", 1)
                )
                slot = tirx.min(self.count.get(), literal(room - 1, "int32", 1))
                k.store(self.numbers, (slot,), ROW, first + lowest)
                self.count.set(self.count.get() + 1)
                near.set(near.get() & (near.get() - 1))  # clears the lowest bit
        full = self.count.get() > room
        self.lost.set(select(full, literal(1, "int32", 1), self.lost.get()))

    def settle(self, out: Place, best: Place) -> None:
        """Order the listed points by their distances."""
        k = self.k
        count = k.bind(tirx.min(self.count.get(), literal(self.numbers.size, "int32", 1)))
        with T.serial((count + (CHAINS - 1)) // CHAINS) as block:
            self._measure(k.bind(block * CHAINS))
        with T.serial(count) as slot:
            distance = k.bind(k.load(self.distances, (slot,), ROW))
            offer(k, distance, k.load(self.numbers, (slot,), ROW), best, out, ROW)

    def _measure(self, first: Any) -> None:
        """Compute the squared distances to ``CHAINS`` points, each in order."""
        k = self.k
        kind = Kind(self.x.dtype, 1)
        width = self.x.size
        starts = [
            k.bind(k.load(self.numbers, (first + chain,), ROW) * width) for chain in range(CHAINS)
        ]
        totals = [k.variable(self.x.dtype, kind.number(0)) for _ in starts]
        with T.serial(width) as i:
            entry = k.bind(k.load(self.x, (i,), ROW))
            for start, total in zip(starts, totals, strict=True):
                difference = k.bind(entry - k.entry(self.points, start + i))
                total.set(total.get() + product(kind, difference, difference))
        for chain, total in enumerate(totals):
            k.store(self.distances, (first + chain,), ROW, total.get())

    def narrow(self, prefilter: Prefilter, best: Place) -> None:
        """Bound the scores by the distance of the last of the nearest so far.

        A point at squared distance d scores at most ``d + margin (3 + 2 d) - square``.
        """
        k = self.k
        kind = Kind(self.x.dtype, 1)
        unscaled = k.load(best, (prefilter.wanted - 1,), ROW)
        last = k.bind(unscaled * kind.number(prefilter.scale**2))
        bound = k.bind(last + (last + last + kind.number(3)) * kind.number(prefilter.margin))
        self.above.set(self.most.get())
        self.most.set(tirx.Cast(self.scores.dtype, bound) - self.square.get())

    def incomplete(self) -> Any:
        """Whether the row has no bound, or lost points."""
        infinity = literal(math.inf, self.scores.dtype, 1)
        return (self.lost.get() > 0) | ~(tirx.abs(self.most.get()) < infinity)

    def _read(self, place: Place, first: Any) -> Any:
        return self.k.load(place.view((1,)), (0,), tirx.Ramp(first, 1, self.tables.lanes))

    def _write(self, place: Place, first: Any, value: Any) -> None:
        self.k.store(place.view((1,)), (0,), tirx.Ramp(first, 1, self.tables.lanes), value)


@dataclass(frozen=True, eq=False)
class _Tables:
    """Points as they are scored, for vectors along them.

    Parameters
    ----------
    weights : ndarray of shape (groups, blocks, rank, VECTORS, lanes)
    norms : ndarray of shape (points and padding,)
        Infinite for the padding.
    """

    weights: npt.NDArray[Any]
    norms: npt.NDArray[Any]

    @property
    def groups(self) -> int:
        """Groups of blocks; each lane of one has a least score."""
        return int(self.weights.shape[0])

    @property
    def lanes(self) -> int:
        """Points of a vector."""
        return int(self.weights.shape[-1])

    @classmethod
    def of(cls, prefilter: Prefilter, vector: int) -> _Tables:
        """Arrange the points of a prefilter for vectors of so many bytes."""
        rank = prefilter.weights.shape[2]
        weights = prefilter.weights.transpose(0, 1, 3, 2).reshape(-1, rank)
        norms = prefilter.norms.reshape(-1)
        lanes = max(NARROW, vector // weights.itemsize)
        groups = -(-BLOCKS_PER_POINT * prefilter.wanted // lanes)
        blocks = -(-len(norms) // (groups * VECTORS * lanes))
        padding = groups * blocks * VECTORS * lanes - len(norms)
        weights = np.concatenate([weights, np.zeros((padding, rank), weights.dtype)])
        arranged = weights.reshape(groups, blocks, VECTORS, lanes, rank).transpose(0, 1, 4, 2, 3)
        infinite = np.full(padding, np.inf, norms.dtype)
        return cls(np.ascontiguousarray(arranged), np.concatenate([norms, infinite]))
