"""Nearest points: every search gives the points that a search of all gives, in the same order."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.backends.reference import evaluate
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.ops.nearest.block_search import _Search
from hbconv.backends.tvm.ops.nearest.point_blocks import PointBlocks
from hbconv.backends.tvm.ops.nearest.tables import Prefilter
from hbconv.backends.tvm.tir.kernel import literal
from hbconv.target import Target
from hbconv.tensor import Builder

pytestmark = [pytest.mark.usefixtures("vector"), pytest.mark.share("vector")]

DTYPES = ("float32", "float64")


def program_of(points, count):
    """Find so many of the points."""
    b = Builder()
    x = b.input("x", points.dtype.name, points.shape[1])
    return b.program({"y": b.op("nearest", x, b.constant(points), k=count)})


@pytest.mark.parametrize("dtype", DTYPES)
def test_nearest_points_of_few_dimensions(dtype):
    """Points near a plane are scored on its axes alone, and then ordered by distance.

    Equal distances are in order of the numbers. Rows far away or not finite try all points.
    """
    rng = np.random.default_rng(0)
    points = (
        rng.normal(size=(700, 2)) @ rng.normal(size=(2, 40))
        + 0.01 * rng.normal(size=(700, 40))
        + 5.0
    ).astype(dtype)
    points[600:] = points[rng.integers(0, 600, 100)]
    rows = np.concatenate(
        [
            points[::2],
            (points[:99] + points[1:100]) / 2,
            1e20 * points[:3],
            np.full((2, 40), np.nan),
            np.full((2, 40), np.inf),
        ]
    ).astype(dtype)
    prefilter = Prefilter.of(points, 4)
    assert prefilter.axes.shape[1] < 40
    program = program_of(points, 4)
    np.testing.assert_array_equal(
        BACKEND.compile(program, Target()).run({"x": rows})["y"],
        evaluate(program, {"x": rows})["y"],
    )


def clusters(rng):
    """Points about twenty centres."""
    return 9 * rng.normal(size=(20, 3))[rng.integers(0, 20, 3000)] + rng.normal(size=(3000, 3))


def lattice(rng):
    """Points of a grid, many of them twice: most distances are equal to others."""
    return rng.integers(-7, 8, (3000, 3)).astype(np.float64)


def line(rng):
    """Points on one line, whose boxes are flat."""
    return np.column_stack([rng.normal(size=3000), np.zeros(3000), np.full(3000, 2.0)])


def spread(rng):
    """Points from near zero to far away."""
    return rng.normal(size=(3000, 3)) * 10.0 ** rng.integers(-6, 7, (3000, 1))


def sphere(rng):
    """Points that are about equally near to one row, the centre."""
    points = rng.normal(size=(3000, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def rows_about(points, rng):
    """Points, rows between and one unit beside them, far rows, zeros, rows without a distance."""
    some = points[rng.integers(0, len(points), 40)]
    with np.errstate(over="ignore"):
        return np.concatenate(
            [
                some,
                (some[:20] + some[20:]) / 2,
                np.nextafter(some[:20], np.inf),
                *(scale * some[:3] for scale in (30.0, 1e10, 1e20, 1e38)),
                np.zeros((1, points.shape[1])),
                np.full((1, points.shape[1]), np.nan),
                np.full((1, points.shape[1]), -np.inf),
            ]
        ).astype(points.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 6, 40])
@pytest.mark.parametrize("kind", [clusters, lattice, line, spread, sphere])
def test_blocks_of_neighbours_are_searched(kind, count, dtype):
    """A batch and each of its rows alone find what a search of all points finds.

    A block that was visited twice gave one point twice among the nearest.
    """
    rng = np.random.default_rng(count)
    points = kind(rng).astype(dtype)
    rows = rows_about(points, rng)
    program = program_of(points, count)
    compiled = BACKEND.compile(program, Target())
    expected = evaluate(program, {"x": rows})["y"]
    np.testing.assert_array_equal(compiled.run({"x": rows})["y"], expected)
    alone = [compiled.run({"x": rows[i : i + 1]})["y"][0] for i in range(len(rows))]
    np.testing.assert_array_equal(alone, expected)


@pytest.mark.parametrize(("width", "by_blocks"), [(3, True), (20, False)])
def test_blocks_are_searched_where_most_are_left_out(width, by_blocks):
    """Of few columns rows visit few blocks; of many they visit most, and a product is faster."""
    points = np.random.default_rng(0).normal(size=(10_000, width))
    prefilter = Prefilter.of(points, 5)
    blocks = PointBlocks.of(prefilter, Machine.host().vector)
    assert blocks.are_cheaper(prefilter) is by_blocks
    assert sorted(blocks.numbers[: len(points)]) == list(range(len(points)))


def count_visits(monkeypatch):
    """Let kernels answer how many blocks a row visited, in place of its nearest point."""
    visits = {}
    begin, visit = _Search.begin, _Search._visit

    def counted_begin(self, coordinates, row):
        begin(self, coordinates, row)
        visits["row"] = self.k.variable("int32", literal(0, "int32", 1))

    def counted_visit(self, block, row):
        visit(self, block, row)
        visits["row"].set(visits["row"].get() + 1)

    def answer(self, row):
        self.k.store(self.out, (0,), row, visits["row"].get())
        return visits["row"].get() < 0

    monkeypatch.setattr(_Search, "begin", counted_begin)
    monkeypatch.setattr(_Search, "_visit", counted_visit)
    monkeypatch.setattr(_Search, "incomplete", answer)


@pytest.mark.parametrize("count", [1, 40, 100])
def test_few_blocks_are_visited(count, monkeypatch, tmp_path):
    """Until enough points are found, the next nearest block is visited, not any.

    Rows wanted more points than a block has, and visited the blocks of a line one by one.
    """
    monkeypatch.setenv("HBCONV_CACHE", str(tmp_path))
    count_visits(monkeypatch)
    # No other test has so many points: the process keeps compiled kernels.
    points = line(np.random.default_rng(0))[:2911]
    blocks = PointBlocks.of(Prefilter.of(points, count), Machine.host().vector)
    monkeypatch.setattr(PointBlocks, "are_cheaper", lambda *_: True)
    rows = points[::20] + 1e-6
    visited = BACKEND.compile(program_of(points, count), Target()).run({"x": rows})["y"][:, 0]
    assert visited.min() >= -(-count // blocks.size)
    assert visited.max() <= 4 + 2 * -(-count // blocks.size)


def test_a_row_that_all_points_are_near_to_soon_tries_every_point(monkeypatch, tmp_path):
    """Ordering the points of each block took three times as long as trying every point."""
    monkeypatch.setenv("HBCONV_CACHE", str(tmp_path))
    count_visits(monkeypatch)
    points = sphere(np.random.default_rng(0))[:2907]
    blocks = PointBlocks.of(Prefilter.of(points, 5), Machine.host().vector)
    monkeypatch.setattr(PointBlocks, "are_cheaper", lambda *_: True)
    visited = BACKEND.compile(program_of(points, 5), Target()).run({"x": np.zeros((1, 3))})["y"]
    assert visited[0, 0] < len(blocks.weights) / 2
