"""Squared distances that are only added up, by products, err no more than sums of squares may."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.neighbors import KernelDensity

import hbconv
from hbconv.backends import find_backend
from hbconv.backends.onnx.emit import emit_model
from hbconv.backends.torch.jit import trace
from hbconv.backends.torch.module import TensorModule
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram
from hbconv.tensor.summed_squares import find_summed_squares, split_points

Floats = npt.NDArray[np.float64]
RNG = np.random.default_rng(0)
BACKENDS = ("onnx", "torch", "torchscript")


def program_of(points: Floats) -> TensorProgram:
    """Squares that are summed, each with a weight of 1 in a column of its own."""
    b = Builder()
    x = b.input("x", "float64", points.shape[1])
    squares = b.op("pairwise", x, b.constant(points), kind="square", p=2.0)
    return b.program({"y": b.matmul(squares, b.constant(np.eye(len(points))))})


def squares_of(rows: Floats, points: Floats, backend: str) -> Floats:
    artifact = find_backend(backend).compile(program_of(points), Target(backend))
    return artifact.run({"x": rows})["y"]


def uses_products(program: TensorProgram) -> set[bool]:
    """Whether ONNX and torch compute squares by products."""
    nodes = onnx.load_from_string(emit_model(program)).graph.node
    of_onnx = "Round" in [node.op_type for node in nodes]
    return {of_onnx, "summed_squares" in TensorModule(program).body.code}


def share_of_error(got: float, row: Floats, point: Floats) -> float:
    """The error, in halves of a unit in the last place of 1, of the exact squared distance."""
    pairs = zip(row.tolist(), point.tolist(), strict=True)
    exact = sum((Fraction(x) - Fraction(y)) ** 2 for x, y in pairs)
    if not exact:
        return abs(got) / 5e-324
    return float(abs(Fraction(got) - exact) / exact) * 2.0**53


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("offset", [0.0, 1e6, -3.7e7])
@pytest.mark.parametrize("width", [3, 8, 20])
@pytest.mark.parametrize("scale", [1e-40, 1.0, 1e60])
def test_they_err_no_more_than_a_sum_of_squares_may(width, offset, scale, backend):
    points = (RNG.standard_normal((40, width)) + offset) * scale
    assert split_points(points, "onnx") is not None
    rows = (RNG.standard_normal((8, width)) + offset) * scale
    near = points[:8] + RNG.standard_normal((8, width)) * scale * np.logspace(-12, 0, 8)[:, None]
    far = points[:4] + scale * np.array([[1e2], [1e8], [-1e20], [1e150]])
    rows = np.concatenate([rows, near, points[:4], far[: 4 if scale <= 1 else 3]])
    got = squares_of(rows, points, backend)
    shares = [share_of_error(got[i, j], rows[i], points[j]) for i, j in np.ndindex(got.shape)]
    assert max(shares) <= width + 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_that_are_no_numbers_are_measured_feature_by_feature(backend):
    points = RNG.standard_normal((60, 5))
    rows = RNG.standard_normal((6, 5))
    rows[[1, 3], [0, 4]] = np.nan, np.inf
    got = squares_of(rows, points, backend)
    with np.errstate(invalid="ignore"):
        want = ((rows[:, None] - points) ** 2).sum(axis=2) @ np.eye(60)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert squares_of(rows[:0], points, backend).shape == (0, 60)


@pytest.mark.parametrize(
    "points",
    [
        RNG.standard_normal((60, 2)),
        np.repeat(RNG.standard_normal((30, 5)), 2, axis=0),
        np.zeros((60, 5)),
        RNG.standard_normal((60, 5)) * 1e200,
        RNG.standard_normal((60, 5)) + 1e16,
    ],
    ids=["few features", "points twice", "one point", "huge", "far away"],
)
def test_points_that_products_do_not_suit_are_measured_feature_by_feature(points):
    assert split_points(points, "onnx") is None
    assert uses_products(program_of(points)) == {False}


def test_squares_that_are_compared_or_returned_stay_sums():
    points = RNG.standard_normal((60, 5))
    assert uses_products(program_of(points)) == {True}
    b = Builder()
    x = b.input("x", "float64", 5)
    squares = b.op("pairwise", x, b.constant(points), kind="square", p=2.0)
    weights = b.constant(np.ones((60, 1)))
    summed = b.matmul(b.op("exp", squares), weights)
    assert find_summed_squares(b.program({"y": summed}))
    assert not find_summed_squares(b.program({"y": summed, "z": squares}))
    is_near = b.cast(b.op("lt", squares, b.constant(1.0)), "float64")
    assert not find_summed_squares(b.program({"y": b.matmul(is_near, weights)}))


def test_a_module_answers_under_transforms_as_without():
    """Traces look at other rows; compilers, stacked tables and gradients take sums of squares."""
    points = RNG.standard_normal((60, 6))
    module = TensorModule(program_of(points))
    rows = torch.from_numpy(np.concatenate([RNG.standard_normal((7, 6)), points[:3]]))
    want = torch.from_numpy(((rows.numpy()[:, None] - points) ** 2).sum(axis=2))
    traced = trace(module, (rows[:2],))
    stacked = torch.vmap(module)(torch.stack([rows, rows]))
    exported = torch.export.export(module, (rows,)).module()
    one_by_one = torch.cat([module(row) for row in rows.split(1)])
    for got in (module(rows), one_by_one, traced(rows), stacked[1], exported(rows)):
        torch.testing.assert_close(got, want, rtol=1e-14, atol=1e-30)
    rows = rows[:7].requires_grad_()
    module(rows).sum().backward()
    gradient = 2 * (60 * rows.detach() - torch.from_numpy(points.sum(axis=0)))
    torch.testing.assert_close(rows.grad, gradient)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "estimator",
    [
        GaussianProcessRegressor(RBF(), optimizer=None),
        GaussianProcessRegressor(Matern(nu=0.5), optimizer=None),
        KernelDensity(),
    ],
    ids=["rbf", "matern", "density"],
)
def test_estimators_answer_as_before(estimator, backend):
    x = RNG.standard_normal((400, 6))
    estimator.fit(x, x[:, 0] + np.sin(x[:, 1]))
    model = hbconv.convert(estimator, backend=backend)
    ask = "score_samples" if isinstance(estimator, KernelDensity) else "predict"
    for rows in (RNG.standard_normal((700, 6)), x[:50], x[:50] + 1e-9):
        got, want = getattr(model, ask)(rows), getattr(estimator, ask)(rows)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
