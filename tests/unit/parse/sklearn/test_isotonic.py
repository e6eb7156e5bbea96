"""IsotonicRegression: what the matrix does not say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

import hbconv
from hbconv.errors import InputError

KNOTS = np.array([1.0, 2.0, 3.5, 7.0])


def around(knots: np.ndarray) -> np.ndarray:
    """Knots, the numbers beside them, and midpoints."""
    return np.concatenate(
        [
            knots,
            np.nextafter(knots, -np.inf),
            np.nextafter(knots, np.inf),
            (knots[1:] + knots[:-1]) / 2,
        ]
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_takes_one_dimension(dtype: str) -> None:
    """At the knots and beside them the answer is numpy's, in float32 scipy's, to the last bit."""
    source = IsotonicRegression(out_of_bounds="clip").fit(
        KNOTS.astype(dtype), np.array([0.1, 0.3, 5.0, 5.5], dtype)
    )
    x = around(KNOTS.astype(dtype))
    got = hbconv.convert(source, backend="reference").predict(x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, source.predict(x))


@pytest.mark.parametrize("beyond", [0.999, 7.001])
def test_refuses_values_out_of_bounds(beyond: float) -> None:
    """A value beyond the thresholds is an error where asked for."""
    source = IsotonicRegression(out_of_bounds="raise").fit(KNOTS, KNOTS)
    model = hbconv.convert(source, backend="reference")
    np.testing.assert_array_equal(model.predict(KNOTS), source.predict(KNOTS))
    with pytest.raises(ValueError, match="interpolation range"):
        source.predict([beyond])
    with pytest.raises(InputError, match="outside the range"):
        model.predict(np.array([beyond]))
