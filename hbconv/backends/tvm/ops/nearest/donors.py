"""Emit ``nearest_donors`` and ``donor_distances``, row by row: vectors run along the points.

Rows that miss nothing cost nothing, and others cost one distance to each point, whichever columns
they miss. Each column missed then takes the points that have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, product
from hbconv.backends.tvm.ops.nearest.best_lists import NARROW, bits
from hbconv.backends.tvm.tir.kernel import Kernel, Register, lanes, literal, spread
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["EMITTERS"]

select = tirx.Select
VECTORS = 4
"""Vectors of points in flight: sums and counts of each are in registers."""
FLAGS = 31
"""Features whose flags share an int32, without its sign."""


def nearest_donors(k: Kernel, out: Place, x: Place, points: Place) -> None:
    """Emit ``nearest_donors``."""
    tables = _Tables.of(points.numpy(), k.machine.vector)
    _fill(k, out, 0)
    with _Row.take(k, x, tables, out.shape[-1]) as own, k.rows() as row:
        own.read(row)
        with T.If(own.count.get() < x.shape[0]), T.Then():
            own.measure()
            with T.serial(x.shape[0]) as column, _if_missing(k, x, column, row):
                own.search(column)
                own.complete(column)
                with T.serial(out.shape[-1]) as slot:
                    k.store(out, (column, slot), row, own.load(own.numbers, slot))


def donor_distances(k: Kernel, out: Place, x: Place, positions: Place, points: Place) -> None:
    """Emit ``donor_distances``: columns that a row has stay NaN."""
    width, count = out.shape
    _fill(k, out, math.nan)
    with (
        k.rows() as row,
        T.serial(width) as column,
        _if_missing(k, x, column, row),
        T.serial(count) as slot,
    ):
        first = k.bind(k.load(positions, (column, slot), row) * width)
        square = _square(k, x, points, first, row)
        lacks = tirx.isnan(k.entry(points, first + column))
        nothing = literal(math.nan, out.dtype, 1)
        k.store(out, (column, slot), row, select(lacks, nothing, square))


@contextmanager
def _if_missing(k: Kernel, x: Place, column: Any, row: Any) -> Iterator[None]:
    """Run what follows where a row misses a column."""
    with T.If(tirx.isnan(k.load(x, (column,), row))), T.Then():
        yield


def _square(k: Kernel, x: Place, points: Place, first: Any, row: Any) -> Any:
    """Return the squared distance of a row to a point, over what both have."""
    kind = Kind(x.dtype, 1)
    total = k.variable(x.dtype, kind.number(0))
    shared = k.variable(x.dtype, kind.number(0))
    with T.serial(x.shape[0]) as feature:
        value = k.bind(k.load(x, (feature,), row))
        other = k.bind(k.entry(points, first + feature))
        total.set(total.get() + _term(kind, k.bind(value - other)))
        is_shared = ~(tirx.isnan(value) | tirx.isnan(other))
        shared.set(shared.get() + select(is_shared, kind.number(1), kind.number(0)))
    return total.get() / shared.get() * kind.number(x.shape[0])


def _term(kind: Kind, apart: Any) -> Any:
    """Return the square of a difference, 0 if it is NaN."""
    return select(tirx.isnan(apart), kind.number(0), product(kind, apart, apart))


def _fill(k: Kernel, out: Place, value: float) -> None:
    with k.over(out.shape) as index, k.vectors() as row:
        k.store(out, index, row, literal(value, out.dtype, lanes(row)))


@dataclass(frozen=True, eq=False)
class _Tables:
    """Points for vectors along them. Those that fill up the last vector have no value.

    Parameters
    ----------
    points : ndarray of shape (groups, width, VECTORS, lanes)
    flags : ndarray of int32, shape (words, points and padding)
        A bit for each feature that a point has.
    donors : ndarray of int32, shape (width, vectors)
        A bit for each point that has a feature.
    """

    points: npt.NDArray[Any]
    flags: npt.NDArray[np.int32]
    donors: npt.NDArray[np.int32]

    @property
    def lanes(self) -> int:
        """Points of a vector."""
        return int(self.points.shape[-1])

    @property
    def padded(self) -> int:
        """Points, and those that fill up."""
        return int(self.flags.shape[1])

    @classmethod
    def of(cls, points: npt.NDArray[Any], vector: int) -> _Tables:
        """Arrange points for vectors of so many bytes."""
        count, width = points.shape
        lanes = max(NARROW, vector // points.itemsize)
        padded = np.full((count + -count % (VECTORS * lanes), width), np.nan, points.dtype)
        padded[:count] = points
        has = ~np.isnan(padded)
        grouped = padded.reshape(-1, VECTORS, lanes, width).transpose(0, 3, 1, 2)
        words = [has[:, first : first + FLAGS] for first in range(0, width, FLAGS)]
        flags = [word @ (1 << np.arange(word.shape[1])) for word in words]
        donors = has.T.reshape(width, -1, lanes) @ (1 << np.arange(lanes))
        return cls(
            np.ascontiguousarray(grouped), np.array(flags, np.int32), donors.astype(np.int32)
        )


@dataclass(frozen=True, eq=False)
class _Row:
    """Scratch of one row: what it has, how far the points are, and the nearest so far.

    Parameters
    ----------
    wanted : int
        Points to be found.
    count, held : Register
        How many values the row has, and points have been found.
    reach : Register
        A point is not nearer than the last found if its sum exceeds this for each of its terms.
    values, features, flags : Place
        What the row has: values, their features, and a bit for each feature.
    totals, shared : Place
        Of each point, the sum of squares and the number of its terms.
    nearest, numbers : Place
        The nearest points so far, in order.
    """

    k: Kernel
    x: Place
    tables: _Tables
    wanted: int
    count: Register
    held: Register
    reach: Register
    values: Place
    features: Place
    flags: Place
    totals: Place
    shared: Place
    nearest: Place
    numbers: Place

    @classmethod
    @contextmanager
    def take(cls, k: Kernel, x: Place, tables: _Tables, wanted: int) -> Iterator[_Row]:
        """Take scratch for as long as the block lasts."""
        width = x.shape[0]
        sizes = [
            (x.dtype, width),
            ("int32", width),
            ("int32", len(tables.flags)),
            (x.dtype, tables.padded),
            (x.dtype, tables.padded),
            (x.dtype, wanted),
            ("int32", wanted),
        ]
        with ExitStack() as stack:
            # The scratch of a tile, of which one row makes use at a time.
            places = [
                stack.enter_context(k.temporary(dtype, (-(-size // k.tile),)))
                for dtype, size in sizes
            ]
            count, held = (k.variable("int32", literal(0, "int32", 1)) for _ in range(2))
            reach = k.variable(x.dtype, literal(0, x.dtype, 1))
            yield cls(k, x, tables, wanted, count, held, reach, *places)

    def load(self, place: Place, first: Any, lanes: int = 1) -> Any:
        """Read a number, or several."""
        return self.k.load(place, (0,), first if lanes == 1 else tirx.Ramp(first, 1, lanes))

    def store(self, place: Place, first: Any, value: Any, lanes: int = 1) -> None:
        """Write a number, or several."""
        self.k.store(place, (0,), first if lanes == 1 else tirx.Ramp(first, 1, lanes), value)

    def read(self, row: Any) -> None:
        """Gather what the row has."""
        k = self.k
        zero, one = (literal(number, "int32", 1) for number in range(2))
        self.count.set(zero)
        with T.serial(len(self.tables.flags)) as word:
            self.store(self.flags, word, zero)
        with T.serial(self.x.shape[0]) as feature:
            value = k.bind(k.load(self.x, (feature,), row))
            has = k.bind(select(tirx.isnan(value), zero, one))
            at = k.bind(self.count.get())
            # The next one overwrites what is missing.
            self.store(self.values, at, value)
            self.store(self.features, at, feature)
            self.count.set(at + has)
            word = k.bind(feature // FLAGS)
            self.store(self.flags, word, self.load(self.flags, word) | (has << (feature % FLAGS)))

    def measure(self) -> None:
        """Sum squares of differences to each point over what both have, and count its terms."""
        k, tables = self.k, self.tables
        groups, width, vectors, lanes = tables.points.shape
        kind = Kind(self.x.dtype, lanes)
        points, flags = k.constant(tables.points), k.constant(tables.flags)
        with T.serial(groups) as group:
            totals = [k.register(kind.dtype, kind.number(0), lanes) for _ in range(vectors)]
            with T.serial(self.count.get()) as i:
                value = spread(k.bind(self.load(self.values, i)), lanes)
                first = k.bind((group * width + self.load(self.features, i)) * (vectors * lanes))
                for v, total in enumerate(totals):
                    apart = k.bind(value - k.entries(points, first + v * lanes, lanes))
                    total.set(total.get() + _term(kind, apart))
            for v, total in enumerate(totals):
                point = k.bind((group * vectors + v) * lanes)
                self.store(self.totals, point, total.get(), lanes)
                shared = k.register("int32", literal(0, "int32", lanes), lanes)
                with T.serial(len(tables.flags)) as word:
                    has = spread(k.bind(self.load(self.flags, word)), lanes)
                    both = k.entries(flags, word * tables.padded + point, lanes) & has
                    ones = tirx.call_llvm_pure_intrin(f"int32x{lanes}", "llvm.ctpop", both)
                    shared.set(shared.get() + ones)
                self.store(
                    self.shared, point, tirx.Cast(f"{kind.dtype}x{lanes}", shared.get()), lanes
                )

    def search(self, column: Any) -> None:
        """Find the nearest points that have a column, in order of their numbers."""
        k, tables = self.k, self.tables
        lanes = tables.lanes
        vectors = tables.padded // lanes
        donors = k.constant(tables.donors)
        self.held.set(literal(0, "int32", 1))
        self.reach.set(literal(math.inf, self.x.dtype, 1))
        with T.serial(vectors) as vector:
            first = k.bind(vector * lanes)
            shared = self.load(self.shared, first, lanes)
            near = self.load(self.totals, first, lanes) <= shared * spread(self.reach.get(), lanes)
            left = k.variable(
                "int32", bits(near, lanes) & k.entry(donors, column * vectors + vector)
            )
            with T.While(tirx.NE(left.get(), 0)):
                lowest = tirx.call_llvm_pure_intrin(
                    "int32", "llvm.cttz", left.get(), tirx.IntImm("bool", 1)
                )
                self._offer(k.bind(first + lowest))
                left.set(left.get() & (left.get() - 1))  # clears the lowest bit

    def _offer(self, point: Any) -> None:
        """Insert a point behind those as near, if it is nearer than the last or there is room."""
        k, wanted = self.k, self.wanted
        width = literal(self.x.shape[0], self.x.dtype, 1)
        square = k.bind(self.load(self.totals, point) / self.load(self.shared, point) * width)
        held = k.bind(self.held.get())
        is_nearer = square < self.load(self.nearest, wanted - 1)
        with T.If((held < wanted) & ~tirx.isnan(square) | (held >= wanted) & is_nearer), T.Then():
            at = k.variable("int32", tirx.min(held, wanted - 1))
            with T.While(
                (at.get() > 0) & (self.load(self.nearest, tirx.max(at.get() - 1, 0)) > square)
            ):
                for place in (self.nearest, self.numbers):
                    self.store(place, at.get(), self.load(place, at.get() - 1))
                at.set(at.get() - 1)
            self.store(self.nearest, at.get(), square)
            self.store(self.numbers, at.get(), point)
            self.held.set(tirx.min(held + 1, wanted))
            with T.If(tirx.EQ(self.held.get(), wanted)), T.Then():
                self.reach.set(self._reach(self.load(self.nearest, wanted - 1)))

    def _reach(self, last: Any) -> Any:
        """Return what no sum of a nearer point exceeds, for each of its terms.

        The quotient and the products round, each by half a unit; the least number covers what
        underflows.
        """
        info = np.finfo(self.x.dtype)
        more = literal(1 + 8 * float(info.eps), self.x.dtype, 1)
        least = literal(float(info.tiny), self.x.dtype, 1)
        return last / literal(self.x.shape[0], self.x.dtype, 1) * more + least

    def complete(self, column: Any) -> None:
        """Let points of no distance follow, in order of their numbers, where others are too few."""
        k, tables = self.k, self.tables
        lanes, vectors = tables.lanes, tables.padded // tables.lanes
        donors = k.constant(tables.donors)
        one = literal(1, "int32", 1)
        with T.If(self.held.get() < self.wanted), T.Then(), T.serial(tables.padded) as point:
            word = k.bind(k.entry(donors, column * vectors + point // lanes))
            lacks = tirx.EQ((word >> (point % lanes)) & one, 0)
            apart = self.load(self.shared, point) <= literal(0, self.x.dtype, 1)
            with T.If((self.held.get() < self.wanted) & (lacks | apart)), T.Then():
                self.store(self.numbers, self.held.get(), point)
                self.held.set(self.held.get() + 1)


EMITTERS: dict[str, Callable[..., None]] = {
    "nearest_donors": lambda kernel, out, x, points, k: nearest_donors(kernel, out, x, points),
    "donor_distances": donor_distances,
}
