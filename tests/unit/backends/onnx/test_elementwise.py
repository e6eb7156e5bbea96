"""Functions that ONNX Runtime has not in every version, or not exactly: sines and what is made of
them, far from 0 and near it.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from primitive_cases import CASES, FLOATS

from hbconv.backends.onnx import BACKEND
from hbconv.target import Target
from hbconv.tensor import Builder

LARGEST = np.finfo("float64").max
RNG = np.random.default_rng(0)
TURNS = np.arange(-2000.0, 2000.0) * np.pi / 2
ARGUMENTS = {
    "tiny": RNG.uniform(-1, 1, 2000) * 10.0 ** RNG.integers(-300, 0, 2000),
    "beside quarter turns": np.concatenate([np.nextafter(TURNS, -np.inf), TURNS]),
    "ordinary": RNG.uniform(-1e6, 1e6, 2000),
    "far": RNG.uniform(-1, 1, 2000) * 10.0 ** RNG.integers(6, 300, 2000),
    "where the form changes": np.array([np.nextafter(1e6, 0), 1e6, LARGEST / 2, LARGEST]),
}
UNITS = 8
"""ONNX Runtime's own sine errs by up to 4, and a quotient of two by twice as much."""
is_extended = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant


def ask(function, x):
    b = Builder()
    program = b.program({"y": b.op(function, b.input("x", str(x.dtype), 1))})
    return BACKEND.compile(program, Target("onnx")).run({"x": x[:, np.newaxis]})["y"][:, 0]


@pytest.mark.skipif(not is_extended, reason="nothing here is more exact than float64")
@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
@pytest.mark.parametrize("kind", ARGUMENTS)
def test_functions_of_turns_keep_their_digits(function, kind):
    x = ARGUMENTS[kind]
    exact = getattr(np, function)(x.astype(np.longdouble))
    error = np.abs(ask(function, x) - exact) / np.spacing(np.abs(exact.astype(np.float64)))
    assert error.max() <= UNITS


@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_what_has_no_angle_has_no_sine(function):
    assert np.isnan(ask(function, np.array([np.nan, np.inf, -np.inf]))).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_cosine_is_written(case):
    """ONNX Runtime up to 1.28 has that of float32 alone; ``make versions`` asks for all others."""
    for dtype in (dtype for dtype in FLOATS if dtype in case.dtypes):
        program = case.program(dtype)
        if program.primitives & set(BACKEND.refuses):
            continue
        model = onnx.load_from_string(BACKEND.compile(program, Target("onnx")).model)
        assert "Cos" not in {node.op_type for node in model.graph.node}
