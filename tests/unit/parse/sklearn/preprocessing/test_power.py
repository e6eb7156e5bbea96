"""PowerTransformer: what the matrix does not say."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, refuses_as_source, transform
from sklearn.preprocessing import PowerTransformer

from hbconv.errors import InputError

X = np.random.default_rng(0).lognormal(size=(50, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("power", [-2.0, 0.0, 1e-300, 1.0, 2.0, 3.5])
def test_yeo_johnson_on_both_sides_of_zero(power: float, dtype: str) -> None:
    """Zeros of both signs, the smallest numbers, and powers at which a side becomes a logarithm."""
    source = PowerTransformer(standardize=False).fit(X)
    source.lambdas_[:] = power
    rows = np.array(
        [0.0, -0.0, 5e-324, -5e-324, 1e-9, -1e-9, 0.5, -0.5, 30.0, -30.0, np.nan]
    ).astype(dtype)
    agree(source, np.repeat(rows[:, None], 3, axis=1), rtol=1e-14 if dtype == "float64" else 1e-6)


def test_box_cox_takes_positive_numbers() -> None:
    """Zero and below are refused; so are powers that overflow, for which the source has a
    formula of its own.
    """
    source = PowerTransformer(method="box-cox", standardize=False).fit(X)
    refuses_as_source(source, np.zeros((1, 3)), "positive")
    refuses_as_source(source, -X, "positive")
    source.lambdas_[:] = [2.0, -2.0, 0.0]
    agree(source, np.array([[1e150, 1e-150, 1e300], [1e-300, 1e300, np.nan]]), rtol=1e-12)
    for row in ([1e155, 1.0, 1.0], [1.0, 1e-155, 1.0]):
        with pytest.raises(InputError, match="overflow"):
            transform(source, np.array([row]))
