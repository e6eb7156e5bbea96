"""Bins by look-ups of bytes: exactly as many edges below a value as there are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from shaped_forests import grown

from hbconv.array import Array
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.trees.bins.tables import (
    ENTRIES,
    can_search_bytes,
    find_halved_cells,
    make_bins,
    make_search_tables,
)
from hbconv.target import Target
from hbconv.tensor import Builder

RNG = np.random.default_rng(0)
EDGES = {
    "even": np.arange(40) / 7,
    "normal, as many as a byte numbers": RNG.standard_normal(255),
    "skewed": np.exp(3 * RNG.standard_normal(200)),
    "near one another": 1 + np.arange(60) * 2.0**-23,
    "denormal": np.arange(1, 31) * 1e-44,
    "as far apart as can be": np.append(np.linspace(-1, 1, 20), [-3.4e38, 3.4e38]),
    "beside zero": np.append(np.arange(20), [-1e-35, 1e-35]),
    "infinite": np.append(np.arange(20), [-np.inf, np.inf]),
}


def chain(edges):
    """One tree that asks for each of some edges."""
    forest = grown(np.random.default_rng(1), 1, len(edges) + 1, "chain", n_features=1)
    return replace(forest, threshold=Array(np.array(edges, np.float64)))


def values_beside(edges, dtype):
    edges = np.array(edges, dtype)
    with np.errstate(all="ignore"):
        beside = [np.nextafter(edges, edges.dtype.type(end)) for end in (-np.inf, np.inf)]
    far = [0.0, -0.0, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).min, 1e-45, np.nan]
    return np.concatenate([edges, *beside, np.array(far, dtype)])


def found(tables, dtype, values):
    """Find values among the edges of the first feature as the kernel does."""
    padded = np.ascontiguousarray(tables.edges[0].T).view(dtype).ravel()
    with np.errstate(all="ignore"):
        position = (values - tables.low[0]) * tables.scale[0]
        inside = np.where(position < ENTRIES - 1, position, dtype(ENTRIES - 1))
    cell = np.where(inside > 0, inside, 0).astype(np.int64)
    bins = tables.before[0, cell].astype(np.int64)
    for step in range(tables.steps[0]):
        half = 1 << (tables.steps[0] - 1 - step)
        edge = padded[np.minimum(bins + half - 1, ENTRIES - 1)]
        bins += np.where(values <= edge, 0, half)
    return bins


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EDGES)
def test_bins_are_exact(name, dtype):
    bins = make_bins(chain(EDGES[name]), dtype.__name__)
    assert can_search_bytes(bins).tolist() == [True]
    edges = bins.edges[: bins.edge_count[0]]
    values = values_beside(edges, dtype)
    values = values[~np.isnan(values)]
    got = found(make_search_tables(bins, np.array([0])), dtype, values)
    np.testing.assert_array_equal(got, np.searchsorted(edges, values, side="left"))


def test_uneven_edges_are_halved_more_often():
    even, skewed = (
        make_search_tables(make_bins(chain(EDGES[name]), "float64"), np.array([0]))
        for name in ("even", "skewed")
    )
    assert even.steps[0] == 1 < skewed.steps[0] <= 8


def test_what_a_byte_cannot_number_is_searched_otherwise():
    assert not can_search_bytes(make_bins(chain(np.arange(256)), "float64")).any()
    assert not can_search_bytes(make_bins(chain([np.nan, *range(20)]), "float64")).any()


MANY = EDGES | {
    "more than a byte numbers": RNG.standard_normal(700),
    "skewed, many": np.exp(4 * RNG.standard_normal(600)),
    "one cell for most": np.append(1 + np.arange(300) * 2.0**-20, [-1e30, 1e30]),
    "NaN, below which nothing is": np.append(RNG.standard_normal(400), np.nan),
}


def halved(edges, values):
    """Find values as the kernel does: by their cell, whose edges are halved."""
    found = find_halved_cells(edges)
    cells = found.cells
    with np.errstate(all="ignore"):
        position = (values - cells.low) * cells.scale
        inside = np.where(position <= cells.last, position, edges.dtype.type(cells.last))
    cell = np.where(inside >= 0, inside, 0).astype(np.int64)
    below = cells.before[np.where(np.isnan(values), cells.last + 1, cell)].astype(np.int64)
    padded = np.append(edges, np.full(1 << found.steps, np.inf, edges.dtype))
    for step in range(found.steps):
        half = 1 << (found.steps - 1 - step)
        below += np.where(values > padded[below + half - 1], half, 0)
    return below


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MANY)
def test_edges_of_a_cell_are_halved_exactly(name, dtype):
    bins = make_bins(chain(MANY[name]), dtype.__name__)
    edges = bins.edges[: bins.edge_count[0]]
    values = values_beside(MANY[name], dtype)
    # Not "<=": an edge NaN has all values right of it, and NaN is right of all edges.
    want = (~(values[:, None] <= edges)).sum(axis=1)
    np.testing.assert_array_equal(halved(edges, values), want)


@pytest.mark.usefixtures("vector")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MANY)
def test_kernels_bin_values_on_edges_and_beside_them(name, dtype):
    """NaN goes left in some splits and right in others, so it has two columns."""
    forest = chain(MANY[name])
    b = Builder()
    leaves = b.op("tree_leaves", b.input("x", dtype, 1), forest=forest, strategy="select")
    artifact = BACKEND.compile(b.program({"leaves": leaves}), Target("tvm"))
    values = values_beside(MANY[name], dtype)
    for rows in (values, np.tile(values, 3)[:300], values[-1:]):
        x = rows[:, None]
        np.testing.assert_array_equal(artifact.run({"x": x})["leaves"], forest.leaves(x))
