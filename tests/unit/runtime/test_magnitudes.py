"""Magnitudes of arrays longer than one block, with values made to hurt in any block."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.runtime.checks import DOT_ENTRIES, are_within, long_dot

WIDTH = 7
ROWS = 3 * DOT_ENTRIES // WIDTH
BOUND = 1e3


def expected(x, bound, strict):
    within = np.abs(x) <= bound
    allowed = np.isnan(x)
    allowed[:, strict] = False
    return bool((within | allowed).all())


@pytest.mark.parametrize("strict", [[], [2], [0, 1, 2, 3, 4, 5], list(range(WIDTH))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_value_anywhere_is_seen(dtype, strict):
    for row in (0, ROWS // 2, ROWS - 1):
        for column in (0, 2, WIDTH - 1):
            for value in (np.nan, np.inf, -np.inf, BOUND, -BOUND, 1001.0, -1001.0, 1e30, -0.0):
                x = np.full((ROWS, WIDTH), 0.5, dtype)
                x[row, column] = value
                assert are_within(x, BOUND, strict) == expected(x, BOUND, strict)


@pytest.mark.parametrize("shape", [(0, WIDTH), (ROWS, 0), (1, 1), (DOT_ENTRIES, 1)])
def test_ordinary_values_of_any_shape_are_within(shape):
    assert are_within(np.zeros(shape), BOUND, list(range(shape[1])))


def test_a_strided_matrix_is_read_where_it_lies():
    x = np.zeros((ROWS, 2 * WIDTH))
    x[:, 1::2] = np.nan
    assert are_within(x[:, ::2], BOUND, list(range(WIDTH)))
    assert not are_within(x[:, 1::2], BOUND, [0])


def test_the_dot_product_of_many_blocks_is_that_of_one():
    x = np.arange(float(ROWS * WIDTH)).reshape(ROWS, WIDTH)
    assert long_dot(x, x) == pytest.approx(float((x * x).sum()))
    x[ROWS // 2, 0] = np.nan
    assert np.isnan(long_dot(x, x))
