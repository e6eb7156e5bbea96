"""Distances of a device, by kernels that are emulated on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from emulated_device import emulate_launches, launched

from hbconv.backends.torch import distances, launches, nearest
from hbconv.backends.torch.launches import PlacedKernels
from hbconv.backends.torch.nearest import prepare_points
from hbconv.tensor.primitives import products

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(2600, 4)).round(1)
X = np.concatenate([POINTS[::100], RNG.normal(size=(20, 4))])


@pytest.fixture(autouse=True)
def _device(monkeypatch):
    emulate_launches(monkeypatch)
    for module in (distances, nearest):
        monkeypatch.setattr(module, "takes_launches", lambda x: True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["square", "largest", "canberra"])
def test_terms_have_the_bits_of_the_reference(kind, dtype):
    x, points = X.astype(dtype), POINTS[:70].astype(dtype)
    for rows in (x, x[:1], x[:0], x[::2]):
        got = distances.pairwise(torch.tensor(rows), torch.tensor(points), kind, 2.0)
        with np.errstate(all="ignore"):
            want = products.pairwise(rows, points, kind, 2.0)
        assert got.numpy().tobytes() == want.tobytes()
    assert {name.partition("<")[0] for name in launched} == {"pairwise"}


def test_rows_and_points_that_are_views_are_read_as_they_are():
    x, points = torch.tensor(X.T.copy()).T, torch.tensor(POINTS[:70])[::2]
    got = distances.pairwise(x, points, "square", 2.0)
    np.testing.assert_array_equal(got, products.pairwise(X, POINTS[:70:2], "square", 2.0))


def test_more_rows_than_a_kernel_numbers_come_in_parts(monkeypatch):
    counts = []
    call = PlacedKernels.__call__

    def noted(placed, n_rows, given):
        counts.append(n_rows)
        return call(placed, n_rows, given)

    monkeypatch.setattr(PlacedKernels, "__call__", noted)
    monkeypatch.setattr(launches, "MAX_ROWS", 20)
    got = distances.pairwise(torch.tensor(X), torch.tensor(POINTS[:70]), "square", 2.0)
    np.testing.assert_array_equal(got, products.pairwise(X, POINTS[:70], "square", 2.0))
    assert counts == [20, 20, 6]


@pytest.mark.parametrize("count", [100, 2600])
def test_the_nearest_are_those_of_the_reference(count):
    """In boxes and runs, or few: a device searches all points."""
    points = POINTS[:count]
    prepared = map(torch.from_numpy, prepare_points(points, 3))
    got = nearest.nearest(torch.from_numpy(X), *prepared, k=3)
    np.testing.assert_array_equal(got, products.nearest(X, points, 3))


def test_terms_of_rows_with_a_gradient_keep_it():
    x, points = torch.tensor(X, requires_grad=True), torch.tensor(POINTS[:70])
    distances.pairwise(x, points, "square", 2.0).sum().backward()
    want = 2 * (X[:, None] - POINTS[None, :70]).sum(axis=1)
    np.testing.assert_allclose(x.grad, want, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        assert not launched
        distances.pairwise(x, points, "square", 2.0)
    assert launched
