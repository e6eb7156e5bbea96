"""Cells: exactly as many edges below a value as there are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbconv.backends.tvm.ops.edge_search import MAX_EDGES_IN_CELL, find_cells


def places(cells, edges, values):
    """Find values as the kernel does: a look-up, then a few compares."""
    with np.errstate(all="ignore"):
        position = (values - cells.low) * cells.scale
    inside = np.where(position <= cells.last, position, edges.dtype.type(cells.last))
    cell = np.where(
        np.isnan(values), cells.last + 1, np.where(inside >= 0, inside, 0).astype(np.int64)
    )
    below, padded = (
        cells.before[cell].astype(np.int64),
        np.append(edges, np.full(MAX_EDGES_IN_CELL, np.inf, edges.dtype)),
    )
    return below + sum(
        (values > padded[below + i]).astype(np.int64) for i in range(MAX_EDGES_IN_CELL)
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 300),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from([1.0, 1e-30, 1e30]),
    st.integers(0, 2**32 - 1),
)
def test_places_are_exact(count, dtype, scale, seed):
    rng = np.random.default_rng(seed)
    edges = np.unique((rng.standard_normal(count) * scale).astype(dtype))
    cells = find_cells(edges)
    if cells is None:
        return
    beside = [np.nextafter(edges, edges.dtype.type(end)) for end in (-np.inf, np.inf)]
    far = np.array(
        [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.finfo(dtype).max,
            np.finfo(dtype).min,
            np.finfo(dtype).tiny / 2,
        ],
        dtype,
    )
    values = np.concatenate([edges, *beside, far])
    np.testing.assert_array_equal(
        places(cells, edges, values), np.searchsorted(edges, values, side="left")
    )
    assert places(cells, edges, np.full(1, np.nan, dtype)) == len(edges)


@pytest.mark.parametrize(
    "edges",
    [[0.0], [0.0, np.inf], [0.0, 1.0, 1.0 + 2e-16, 1.0 + 4e-16, 1e9], [-1.7e308, 1.7e308, 0.0]],
)
def test_edges_that_cells_do_not_tell_apart_are_left_to_a_search(edges):
    assert find_cells(np.unique(edges)) is None


def test_infinite_edges_are_counted():
    edges = np.array([-np.inf, *range(40), np.inf])
    cells = find_cells(edges)
    values = np.array([-np.inf, -5.0, 0.0, 0.5, 39.0, 1e300, np.inf])
    np.testing.assert_array_equal(
        places(cells, edges, values), np.searchsorted(edges, values, side="left")
    )
