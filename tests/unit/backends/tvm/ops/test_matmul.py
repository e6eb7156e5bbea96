"""Dense operators: functions to the last places, products and matrices of any shape."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tolerances import OWN, OWN_SIGMOID

from hbconv.backends.reference import evaluate
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.machine.machine import VARIABLE, Machine
from hbconv.backends.tvm.ops.mathematics import FUNCTIONS
from hbconv.target import Target
from hbconv.tensor import Builder

pytestmark = [pytest.mark.usefixtures("vector"), pytest.mark.share("vector")]

DTYPES = ("float32", "float64")
POINTS = 3000


def arguments(dtype):
    """Bit patterns of all kinds, the ranges where functions turn, and their edges."""
    rng, info = np.random.default_rng(0), np.finfo(dtype)
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    patterns = rng.integers(0, np.iinfo(word).max, POINTS, dtype=word, endpoint=True).view(dtype)
    ranges = [rng.uniform(-size, size, POINTS) for size in (2, 20, 110, 760)]
    near_one = 1 + rng.uniform(-1, 1, POINTS) * 10.0 ** -rng.integers(0, 12, POINTS)
    edges = [
        0,
        np.inf,
        info.tiny,
        info.smallest_subnormal,
        info.max,
        1,
        1 - info.epsneg,
        1 + info.eps,
        8,
        1000,
        88.7,
        103.9,
        709.7,
        745.1,
    ]
    return np.concatenate(
        [
            patterns,
            np.concatenate([*ranges, near_one, edges, np.negative(edges), [np.nan]]).astype(dtype),
        ]
    )


def true_values(name, x):
    """Compute in the longest floats; ``erf`` in float64, whose own error is below one unit."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        if name == "sigmoid":
            power = np.exp(-wide)
            return 1 / (1 + np.where(np.isinf(power.astype(x.dtype)), np.inf, power))
        return (
            np.array([math.erf(v) for v in x], np.longdouble)
            if name == "erf"
            else getattr(np, name)(wide)
        )


def units(got, want, dtype):
    """Return the error in units in the last place; non-finite numbers must be equal."""
    with np.errstate(over="ignore"):
        rounded = want.astype(dtype)
    finite = np.isfinite(rounded) & np.isfinite(got)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[got == 0]))
    with np.errstate(over="ignore"):  # the unit of the largest number
        return np.abs(got[finite] - want[finite]) / np.spacing(np.abs(rounded[finite]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", ["", Machine.host().architecture])
def test_functions_are_within_few_units(dtype, level, monkeypatch):
    """With fused products where this machine has them, and without."""
    monkeypatch.setenv(VARIABLE, level)
    b, x = Builder(), arguments(dtype)
    column = b.input("x", dtype, 1)
    program = b.program({name: b.op(name, column) for name in FUNCTIONS})
    answers = BACKEND.compile(program, Target("tvm")).run({"x": x[:, None]})
    for name in FUNCTIONS:
        off = units(answers[name][:, 0], true_values(name, x), dtype)
        assert off.max() <= (OWN_SIGMOID if name == "sigmoid" else OWN), (
            name,
            x[np.isfinite(answers[name][:, 0])][off.argmax()],
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_are_within_two_units(dtype):
    b, x = Builder(), arguments(dtype)
    column, exponents = b.input("x", dtype, 1), (1.0, 2.0, 3.0, 4.0, 0.5, -1.0)
    program = b.program({str(p): b.op("pow", column, b.constant(p, dtype)) for p in exponents})
    answers = BACKEND.compile(program, Target("tvm")).run({"x": x[:, None]})
    with np.errstate(all="ignore"):
        true = {p: x.astype(np.longdouble) ** np.longdouble(p) for p in exponents}
    for p in exponents:
        assert units(answers[str(p)][:, 0], true[p], dtype).max() <= OWN, p


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (0, 3), (3, 2), (7, 3), (5, 7), (2, 4, 13)])
def test_products_of_any_shape(dtype, shape):
    rng = np.random.default_rng(1)
    x, w = (
        rng.integers(-9, 9, (70, math.prod(shape[:-1]))).astype(dtype),
        rng.integers(-9, 9, shape).astype(dtype),
    )
    b = Builder()
    matrix = b.reshape(b.input("x", dtype, x.shape[1]), *shape[:-1])
    program = b.program(
        {"y": b.reshape(b.matmul(matrix, b.constant(w)), math.prod(shape[:-2]) * shape[-1])}
    )
    got = BACKEND.compile(program, Target("tvm")).run({"x": x})["y"]
    want = np.einsum("r...k,...km->r...m", x.reshape(70, *shape[:-1]), w)
    np.testing.assert_array_equal(got, want.reshape(70, -1))


@pytest.mark.parametrize("dtype", [*DTYPES, "int32", "int64"])
def test_matrices_of_any_width_are_read_and_written(dtype):
    b, widths = Builder(), (1, 2, 3, 5, 8, 17)
    matrices = {
        f"x{width}": np.random.default_rng(2).integers(0, 99, (270, width)).astype(dtype)
        for width in widths
    }
    program = b.program({name: b.input(name, dtype, x.shape[1]) for name, x in matrices.items()})
    artifact = BACKEND.compile(program, Target("tvm"))
    for rows in (0, 1, 3, 8, 255, 256, 257, 270):
        cut = {name: x[:rows] for name, x in matrices.items()}
        for name, got in artifact.run(cut).items():
            np.testing.assert_array_equal(got, cut[name], err_msg=f"{name} {rows}")


@pytest.mark.parametrize("columns", [[9, 1], [-1], [3, 50, 51, 99], [0]])
def test_columns_that_are_taken_are_read(columns):
    x, b = np.random.default_rng(3).random((9, 100), dtype=np.float32), Builder()
    program = b.program({"y": b.take(b.input("x", "float32", 100), columns)})
    np.testing.assert_array_equal(
        BACKEND.compile(program, Target("tvm")).run({"x": x})["y"], x[:, columns]
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [3, 8, 13, 54])
def test_inputs_that_are_only_multiplied_are_read_by_rows(dtype, width):
    """NaN and infinities stay in their row, the last column's too."""
    rng, b = np.random.default_rng(4), Builder()
    x = rng.integers(-9, 9, (270, width)).astype(dtype)
    x[[5, 258], [width - 1, 0]], x[[6, 266], [0, width - 1]] = np.nan, np.inf
    weights = {
        f"y{columns}": rng.integers(1, 9, (width, columns)).astype(dtype)
        for columns in (1, 2, 3, 5, 13)
    }
    matrix = b.input("x", dtype, width)
    artifact = BACKEND.compile(
        b.program({name: b.matmul(matrix, b.constant(w)) for name, w in weights.items()}),
        Target("tvm"),
    )
    for rows in (0, 1, 3, 255, 257, 270):
        for name, got in artifact.run({"x": x[:rows]}).items():
            with np.errstate(invalid="ignore"):  # some instructions of the BLAS say so of NaN
                np.testing.assert_array_equal(
                    got, x[:rows] @ weights[name], err_msg=f"{name} {rows}"
                )


@pytest.mark.parametrize(("given", "dtype"), [DTYPES, DTYPES[::-1]])
@pytest.mark.parametrize("width", [3, 8, 13, 54])
def test_inputs_that_are_cast_and_multiplied_are_read_by_rows(given, dtype, width):
    """Each entry is rounded before it is scaled: 2**24 + 1 is no float32."""
    rng, b = np.random.default_rng(4), Builder()
    x = rng.integers(-9, 9, (270, width)).astype(given)
    x[[5, 258], [width - 1, 0]], x[[6, 266], [0, width - 1]] = np.nan, np.inf
    x[7:12] = np.eye(1, width) * (2**24 + 1)
    cast = b.cast(b.input("x", given, width), dtype)
    scaled = cast - b.constant(np.eye(1, width)[0] * 2, dtype)
    weights = b.constant(rng.integers(1, 9, (width, 3)), dtype)
    program = b.program({"y": b.matmul(cast, weights), "z": b.matmul(scaled, weights)})
    artifact = BACKEND.compile(program, Target("tvm"))
    for rows in (0, 1, 3, 255, 257, 270):
        want = evaluate(program, {"x": x[:rows]})
        for name, got in artifact.run({"x": x[:rows]}).items():
            np.testing.assert_array_equal(got, want[name], err_msg=f"{name} {rows}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_that_are_scaled_and_multiplied(dtype):
    """Each entry is rounded as it is scaled, also where others read the scaled values."""
    rng, b = np.random.default_rng(4), Builder()
    x = rng.integers(-9, 9, (70, 13)).astype(dtype)
    x[5, 12], x[6, 0] = np.nan, np.inf
    matrix, weights = b.input("x", dtype, 13), b.constant(rng.integers(1, 9, (13, 2)), dtype)
    scaled = (matrix - b.constant(rng.integers(-9, 9, 13), dtype)) / b.constant(
        2.0 ** rng.integers(-3, 4, 13), dtype
    )
    shared = matrix * b.constant([3.0], dtype)
    program = b.program(
        {
            "sums": b.matmul(scaled, weights) + b.constant([1.0, 2.0], dtype),
            "plain": b.matmul(matrix, weights),
        }
    )
    more = b.program({"sums": b.matmul(shared, weights), "shared": shared})
    for written in (program, more):
        artifact = BACKEND.compile(written, Target("tvm"))
        for rows in (0, 1, 9, 70):
            got, expected = artifact.run({"x": x[:rows]}), evaluate(written, {"x": x[:rows]})
            for name, values in expected.items():
                np.testing.assert_array_equal(got[name], values, err_msg=f"{name} {rows}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 54, 200])
def test_entries_by_themselves_are_computed_as_they_lie(dtype, width):
    rng, b = np.random.default_rng(5), Builder()
    x, scale, fill = (
        rng.random((270, width)).astype(dtype),
        rng.random(width).astype(dtype),
        rng.random(width).astype(dtype),
    )
    x[rng.random(x.shape) < 0.2] = np.nan
    matrix = b.input("x", dtype, width)
    filled = b.where(b.op("isnan", matrix), b.constant(fill), matrix)
    artifact = BACKEND.compile(
        b.program(
            {
                "missing": b.op("isnan", matrix),
                "scaled": filled * b.constant(scale) + b.constant(3.0, dtype),
            }
        ),
        Target("tvm"),
    )
    for rows in (0, 1, 19, 255, 270):
        got, missing = artifact.run({"x": x[:rows]}), np.isnan(x[:rows])
        np.testing.assert_array_equal(got["missing"], missing)
        np.testing.assert_allclose(
            got["scaled"], np.where(missing, fill, x[:rows]) * scale + 3, rtol=1e-6
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps_after_a_product(dtype: str) -> None:
    """Products with an epilogue equal the steps one by one, also where others read a step."""
    b = Builder()
    x = b.input("x", dtype, 40)
    weights = np.tril(np.random.default_rng(0).integers(-3, 4, (40, 40)))
    y = b.op(
        "maximum",
        b.matmul(x, b.constant(weights, dtype)) - b.constant(np.arange(40), dtype),
        b.constant(-2.0, dtype),
    )
    shared = b.matmul(x, b.constant(weights[:, :3], dtype)) * b.constant([2.0], dtype)
    program = b.program(
        {"squares": y * y, "shared": shared, "more": shared + b.constant([1.0], dtype)}
    )
    inputs = {"x": np.random.default_rng(1).integers(-9, 10, (300, 40)).astype(dtype)}
    answer, expected = (
        BACKEND.compile(program, Target("tvm")).run(inputs),
        evaluate(program, inputs),
    )
    for name, values in expected.items():
        np.testing.assert_array_equal(answer[name], values)
