"""Boxes of points give the neighbours that a search of all points gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hbconv.backends.torch import nearest as nearest_points
from hbconv.backends.torch.jit import trace
from hbconv.backends.torch.nearest import nearest, prepare_points
from hbconv.tensor.primitives import products

RNG = np.random.default_rng(0)


def drawn(kind, columns, count=2100):
    points = RNG.normal(size=(count, columns))
    if kind == "ties":
        return points.round(1)
    if kind == "same":
        return np.zeros_like(points)
    return points * [1e-40, 1e30, 1.0, 1e-3, 1.0, 1.0][:columns] if kind == "scales" else points


def rows(points):
    """Points, between and far from them, and rows without distances."""
    some = points[::97]
    odd = np.zeros((6, points.shape[1]))
    odd[:, 0] = [np.nan, np.inf, -np.inf, -0.0, 1e300, -1e300]
    between = (points[1:60] + points[:59]) / 2
    return np.concatenate([some, between, RNG.normal(size=(20, points.shape[1])) * 3, odd])


@pytest.fixture(scope="module")
def traced():
    class Search(torch.nn.Module):
        def forward(self, x, *points):
            return nearest(x, *points, k=5)

    points = torch_tuple(prepare_points(drawn("normal", 3)))
    return trace(Search(), (torch.zeros(2, 3, dtype=torch.float64), *points))


def torch_tuple(arrays):
    return tuple(map(torch.from_numpy, arrays))


@pytest.mark.parametrize("kind", ["normal", "ties", "same", "scales"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 3, 6])
def test_boxes_find_what_a_search_of_all_finds(columns, dtype, kind):
    points = drawn(kind, columns).astype(dtype)
    with np.errstate(over="ignore"):
        x = rows(points).astype(dtype)
    prepared = torch_tuple(prepare_points(points))
    assert len(prepared) == 5
    for k in (1, 5, 40):
        with np.errstate(all="ignore"):
            expected = products.nearest(x, points, k)
        found = nearest(torch.from_numpy(x), *prepared, k=k)
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("kind", ["normal", "ties"])
def test_a_traced_search_takes_any_rows(traced, kind):
    points = drawn(kind, 3)
    for x in (rows(points), rows(points)[:1], rows(points)[:0]):
        with np.errstate(all="ignore"):
            expected = products.nearest(x, points, 5)
        found = traced(*torch_tuple((x, *prepare_points(points))))
        np.testing.assert_array_equal(found.numpy(), expected)


def test_rows_that_few_boxes_do_not_settle_are_searched_in_many(monkeypatch):
    searched = []
    original = nearest_points._search_boxes

    def search(*arguments):
        searched.append((len(arguments[0]), arguments[-1]))
        return original(*arguments)

    monkeypatch.setattr(nearest_points, "_search_boxes", search)
    points = drawn("normal", 6, 12_000)
    x = RNG.normal(size=(20, 6))
    found = nearest(torch.from_numpy(x), *torch_tuple(prepare_points(points)), k=5)
    np.testing.assert_array_equal(found.numpy(), products.nearest(x, points, 5))
    assert [count for _, count in searched] == [32, nearest_points.MANY]
    assert 0 < searched[1][0] <= 20


@pytest.mark.parametrize(
    ("points", "operands"),
    [
        (drawn("normal", 7), 1),
        (drawn("normal", 3)[:512], 1),
        (np.append(drawn("normal", 2), [[np.inf, 0.0]], axis=0), 1),
        (drawn("normal", 6).repeat(3, axis=1), 3),
    ],
    ids=["seven columns", "few points", "an infinite point", "wide"],
)
def test_other_points_lie_in_no_boxes(points, operands):
    assert len(prepare_points(points)) == operands
