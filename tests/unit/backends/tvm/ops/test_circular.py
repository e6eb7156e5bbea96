"""Sine and cosine beside those of longer numbers: near multiples of half of pi, and far out."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hbconv.backends.tvm import BACKEND
from hbconv.target import Target
from hbconv.tensor import Builder

pytestmark = pytest.mark.usefixtures("vector")

FUNCTIONS = {"sin": np.sin, "cos": np.cos}
AWKWARD = (0.0, -0.0, 1e-300, -1e-30, 2.0**-27, 1048576.0, -1048577.0, 1e22, 1e300)


@cache
def compiled(dtype, vector):
    """Both functions of a column; the vector is that of the fixture."""
    b = Builder()
    x = b.input("x", dtype, 1)
    return BACKEND.compile(b.program({name: b.op(name, x) for name in FUNCTIONS}), Target("tvm"))


def arguments(dtype):
    """Multiples of half of pi and their neighbours, small and large numbers."""
    rng = np.random.default_rng(0)
    turns = np.concatenate([np.arange(-2000, 2000), rng.integers(-600_000, 600_000, 4000)])
    near = (turns * (np.pi / 2)).astype(dtype)
    drawn = rng.uniform(-1, 1, 4000) * 10.0 ** rng.integers(-9, 7, 4000)
    with np.errstate(over="ignore"):
        rest = np.concatenate([drawn, AWKWARD]).astype(dtype)
    finite = np.concatenate([near, np.nextafter(near, dtype(np.inf)), rest])
    return finite[np.isfinite(finite)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_within_a_unit_in_the_last_place(name, dtype, vector):
    x = arguments(dtype)
    got = compiled(np.dtype(dtype).name, vector).run({"x": x[:, None]})[name][:, 0]
    want = FUNCTIONS[name](x.astype(np.longdouble))
    unit = np.spacing(np.abs(want).astype(dtype)).astype(np.longdouble)
    assert (np.abs(got.astype(np.longdouble) - want) / unit).max() < 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_keep_their_signs_and_no_number_has_no_sine(dtype, vector):
    x = np.array([[0.0], [-0.0], [np.nan], [np.inf], [-np.inf]], dtype)
    got = compiled(np.dtype(dtype).name, vector).run({"x": x})
    np.testing.assert_array_equal(np.signbit(got["sin"][:2, 0]), [False, True])
    np.testing.assert_array_equal(got["cos"][:2, 0], 1)
    assert np.isnan(got["sin"][2:]).all()
    assert np.isnan(got["cos"][2:]).all()


@pytest.mark.parametrize("rows", [1, 33, 300])
def test_large_arguments_change_no_other_row(rows, vector):
    x = np.linspace(-3, 3, rows)[:, None]
    x[rows // 2] = 1e9
    got = compiled("float64", vector).run({"x": x})
    for name, function in FUNCTIONS.items():
        np.testing.assert_allclose(got[name], function(x), rtol=4e-16, atol=1e-17)
