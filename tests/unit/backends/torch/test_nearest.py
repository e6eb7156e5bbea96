"""Boxes and bounds of points give the neighbours that a search of all points gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hbconv.backends.torch import nearest as nearest_points
from hbconv.backends.torch.jit import trace
from hbconv.backends.torch.nearest import nearest, prepare_donors, prepare_points, topk_donors
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


class SearchOfFive(torch.nn.Module):
    def forward(self, x, *points):
        return nearest(x, *points, k=5)


@pytest.fixture(scope="module")
def traced():
    points = torch_tuple(prepare_points(drawn("normal", 3), 5))
    return trace(SearchOfFive(), (torch.zeros(2, 3, dtype=torch.float64), *points))


def torch_tuple(arrays):
    return tuple(map(torch.from_numpy, arrays))


@pytest.mark.parametrize("kind", ["normal", "ties", "same", "scales"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 3, 4])
def test_boxes_find_what_a_search_of_all_finds(columns, dtype, kind):
    points = drawn(kind, columns).astype(dtype)
    with np.errstate(over="ignore"):
        x = rows(points).astype(dtype)
    prepared = torch_tuple(prepare_points(points, 5))
    assert len(prepared) == 5
    for k in (1, 5, 40):
        with np.errstate(all="ignore"):
            expected = products.nearest(x, points, k)
        found = nearest(torch.from_numpy(x), *prepared, k=k)
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("count", [2560, 2561, 2559])
@pytest.mark.parametrize("kind", ["normal", "ties", "same"])
@pytest.mark.parametrize("columns", [12, 18])
def test_runs_find_what_a_search_of_all_finds(columns, kind, count):
    """Ties within a run and between runs, of which the last may have to be filled up."""
    points = np.repeat(drawn(kind, 6, count), columns // 6, axis=1)
    points[7::11] = points[3]
    prepared = torch_tuple(prepare_points(points, 5))
    assert len(prepared) == 6
    assert prepared[3].shape[0] == (count if count < 2560 else -(-count // 64))
    x = np.concatenate([rows(points), points[-3:], 3 * points[:20] + 0.25])
    with np.errstate(all="ignore"):
        expected = products.nearest(x, points, 5)
    found = nearest(torch.from_numpy(x), *prepared, k=5)
    np.testing.assert_array_equal(found, expected)
    traced = trace(SearchOfFive(), (torch.from_numpy(x[:2]), *prepared))
    # TorchScript compiles once more for what the first calls were like.
    for rows_of_call in (9, 9, 9, len(x), 0):
        few = torch.from_numpy(x[:rows_of_call])
        np.testing.assert_array_equal(traced(few, *prepared), expected[:rows_of_call])


def test_rows_that_no_candidates_settle_are_compared_with_all_points(monkeypatch):
    compared = []
    original = nearest_points._search_all

    def search(x, *arguments):
        compared.append(len(x))
        return original(x, *arguments)

    monkeypatch.setattr(nearest_points, "_search_all", search)
    points = drawn("normal", 6, 600).repeat(2, axis=1)
    points[100:120] = points[100]
    x = torch.from_numpy(np.concatenate([points[:90], points[[100, 119]]]))
    found = nearest(x, *torch_tuple(prepare_points(points, 5)), k=5)
    np.testing.assert_array_equal(found, products.nearest(x.numpy(), points, 5))
    # Bounds in float32 leave a few others.
    assert len(compared) == 1
    assert 2 <= compared[0] < 10


@pytest.mark.parametrize("kind", ["normal", "ties"])
def test_a_traced_search_takes_any_rows(traced, kind):
    points = drawn(kind, 3)
    for x in (rows(points), rows(points)[:1], rows(points)[:0]):
        with np.errstate(all="ignore"):
            expected = products.nearest(x, points, 5)
        found = traced(*torch_tuple((x, *prepare_points(points, 5))))
        np.testing.assert_array_equal(found.numpy(), expected)


def test_rows_that_few_boxes_do_not_settle_are_searched_in_many(monkeypatch):
    searched = []
    original = nearest_points._search_boxes

    def search(*arguments):
        searched.append((len(arguments[0]), arguments[-1]))
        return original(*arguments)

    monkeypatch.setattr(nearest_points, "_search_boxes", search)
    points = drawn("normal", 4, 12_000)
    x = RNG.normal(size=(200, 4)) * 1.5
    found = nearest(torch.from_numpy(x), *torch_tuple(prepare_points(points, 5)), k=5)
    np.testing.assert_array_equal(found.numpy(), products.nearest(x, points, 5))
    assert [count for _, count in searched] == [16, nearest_points.MANY]
    assert 0 < searched[1][0] <= 200


@pytest.mark.parametrize(
    ("points", "operands"),
    [
        (drawn("normal", 7)[:17], 1),
        (drawn("normal", 3)[:512], 6),
        (np.append(drawn("normal", 2), [[np.inf, 0.0]], axis=0), 1),
        (drawn("normal", 6).repeat(3, axis=1), 6),
    ],
    ids=["few points", "too few for boxes", "an infinite point", "wide"],
)
def test_other_points_lie_in_no_boxes(points, operands):
    assert len(prepare_points(points, 5)) == operands


def test_donors_of_tables_that_are_mapped_over():
    """Under ``vmap`` no host looks at the rows that miss a column."""
    rng = np.random.default_rng(0)
    points, x = rng.standard_normal((9, 4)), rng.standard_normal((3, 5, 4))
    points[rng.random(points.shape) < 0.3] = np.nan
    x[rng.random(x.shape) < 0.4] = np.nan
    lacks = torch.from_numpy(prepare_donors(points, 2)[0])
    tables = torch.from_numpy(rng.random((3, 5, 9))), torch.from_numpy(x)
    got = torch.vmap(lambda squares, rows: topk_donors(squares, rows, lacks, 2))(*tables)
    want = [topk_donors(squares, rows, lacks, 2) for squares, rows in zip(*tables, strict=True)]
    assert torch.equal(got, torch.stack(want))
