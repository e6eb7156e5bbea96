"""Kernel ``pairwise``, emulated: the bits of the reference for every kind, over poisoned memory."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_cuda import Emulated, run_kernel

from hbconv.backends.cuda.plan import PlannedKernels, plan_pairwise
from hbconv.tensor.primitives import products

SIZES = ((1, 1, 1), (63, 65, 16), (65, 64, 17), (130, 129, 3), (7, 4096, 2))
"""Rows, points and features: tiles and steps that are full, and those that are not."""


def drawn(rng: np.random.Generator, count: int, n_features: int, dtype: str) -> np.ndarray:
    """Values with ties, both zeros, infinities, NaN and tiny ones."""
    values = rng.normal(size=(count, n_features)).round(1)
    odd = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-310], values.shape)
    return np.where(rng.random(values.shape) < 0.1, odd, values).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", products.PAIRWISE)
def test_terms_are_folded_as_in_the_reference(kind, dtype):
    for n_rows, n_points, n_features in SIZES:
        rng = np.random.default_rng(n_rows)
        x = drawn(rng, n_rows, n_features, dtype)
        points = drawn(rng, n_points, n_features, dtype)
        plan = plan_pairwise(dtype, kind, 3.0, n_features, n_points)
        got = run_kernel(PlannedKernels(plan, {"points": points}), x, Emulated())
        with np.errstate(all="ignore"):
            want = products.pairwise(x, points, kind, 3.0)
        tolerance = 4 * np.finfo(dtype).eps if kind == "power" else 0.0
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=tolerance, atol=0.0)
