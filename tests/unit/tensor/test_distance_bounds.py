"""Bounds of distances are below the sums that decide, and the searches by them take hostile rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hbconv.backends import find_backend
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.tensor.distance_bounds import LARGEST, find_bounds, find_share
from hbconv.tensor.primitives import products

RNG = np.random.default_rng(0)
SPREADS = {
    "normal": 1.0,
    "far": 1.0,
    "near one another": 1e-9,
    "small": 1e-170,
    "large": 1e120,
    "uneven": 10.0 ** np.arange(-6, 6),
}


def drawn(kind, dtype):
    with np.errstate(over="ignore", under="ignore"):
        x = RNG.normal(size=(300, 12)) * SPREADS[kind] + (1e6 if kind == "far" else 0.0)
        x[200:215] = x[200]
        # Neighbours of one another by a unit in the last place.
        for before, after in pairwise(range(220, 240)):
            x[after] = np.nextafter(x[before].astype(dtype), dtype(np.inf))
        return x.astype(dtype)


def hostile(points):
    """Points, rows between them, and rows with odd values in one column."""
    rows = np.concatenate([points[::7], points[195:245], (points[1:40] + points[:39]) / 2])
    odd = np.repeat(points[:9], 1, axis=0)
    odd[:, 3] = [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e15, 1e16, 3e38, -3e38]
    return np.concatenate([rows, odd])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["normal", "far", "near one another", "uneven"])
def test_no_bound_is_above_the_sum_that_decides(kind, dtype):
    points = drawn(kind, dtype)
    bounds = find_bounds(points, 5)
    x = hostile(points)
    x = x[np.all(np.abs(x) <= LARGEST[bounds.norms.dtype.name], axis=1)]
    with np.errstate(under="ignore"):
        apart = x - bounds.centre
        product = apart.astype(bounds.norms.dtype) @ bounds.weights + bounds.norms
        share = dtype(find_share(12, bounds.norms.dtype.name))
        below = product + (apart**2).sum(axis=1, keepdims=True) * share
        assert np.all(below <= products.pairwise(x, points, "square", 2.0))


@pytest.mark.parametrize("backend", ["onnx", "torch", "torchscript"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", SPREADS)
def test_hostile_rows_have_the_neighbours_of_a_search_of_all_points(kind, dtype, backend):
    points = drawn(kind, dtype)
    if not np.all(np.isfinite(points)):
        points = np.nan_to_num(points, posinf=3e38, neginf=-3e38)
    b = Builder()
    x = b.input("x", dtype.__name__, 12)
    program = b.program({"y": b.op("nearest", x, b.constant(points), k=5)})
    artifact = find_backend(backend).compile(program, Target(backend))
    with np.errstate(all="ignore"):
        rows = hostile(points)
        expected = products.nearest(rows, points, 5)
    for few in (rows, rows[:1], rows[:0], rows[-9:]):
        found = artifact.run({"x": few})["y"]
        np.testing.assert_array_equal(
            found, expected[len(rows) - len(few) :] if len(few) == 9 else expected[: len(few)]
        )


@pytest.mark.parametrize(
    ("points", "dtype"),
    [
        (drawn("normal", np.float64), "float32"),
        (drawn("normal", np.float32), "float32"),
        (drawn("far", np.float64), "float32"),
        (drawn("uneven", np.float64)[:, ::-1] ** 3, "float64"),
        (drawn("large", np.float64), "float64"),
        (RNG.normal(size=(5000, 2)) * [1.0, 1e9], "float64"),
    ],
    ids=["spread", "of float32", "offset", "uneven", "large", "a wide column"],
)
def test_bounds_are_of_the_dtype_that_settles_rows(points, dtype):
    assert find_bounds(points, 5).norms.dtype == dtype


@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e200])
def test_odd_points_have_no_bounds(odd):
    points = drawn("normal", np.float64)
    assert find_bounds(points[:18], 5) is not None
    assert find_bounds(points[:17], 5) is None
    points[3, 3] = odd
    assert find_bounds(points, 5) is None
