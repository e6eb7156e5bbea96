"""Kernel density is a mean of bumps: the sum that defines it, where the source's own, of
bounds, leaves rounding alone.
"""

from __future__ import annotations

import numpy as np
import pytest
from matrix.data import fit_rows, rows
from scipy.integrate import quad
from scipy.special import logsumexp
from sklearn.neighbors import KernelDensity

import hbconv

BUMPS = {
    "gaussian": lambda u: np.exp(-0.5 * u**2),
    "tophat": lambda u: np.where(u < 1, 1.0, 0.0),
    "epanechnikov": lambda u: np.maximum(1 - u**2, 0),
    "exponential": lambda u: np.exp(-u),
    "linear": lambda u: np.maximum(1 - u, 0),
    "cosine": lambda u: np.where(u < 1, np.cos(np.pi / 2 * u), 0.0),
}
WIDTH = 4.0


def log_sums(kernel: str, new: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Logarithms of the sums of bumps."""
    with np.errstate(divide="ignore"):
        bumps = np.log(BUMPS[kernel](np.sqrt(((new[:, None] - x) ** 2).sum(axis=2)) / WIDTH))
    return logsumexp(bumps, axis=1)


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.parametrize("kernel", BUMPS)
def test_sum_of_bumps(kernel, backend):
    """Hostile rows, far from all that was fitted on: densities down to nothing."""
    x = fit_rows()
    new = rows(200, large=100.0)
    estimator = KernelDensity(kernel=kernel, bandwidth=WIDTH).fit(x)
    height = estimator.score_samples(x[:1]) - log_sums(kernel, x[:1], x)
    got = hbconv.convert(estimator, backend=backend).score_samples(new)
    want = log_sums(kernel, new, x) + height
    assert np.array_equal(np.isinf(got), np.isinf(want))
    np.testing.assert_allclose(got[np.isfinite(got)], want[np.isfinite(want)], rtol=1e-10)


@pytest.mark.parametrize("kernel", BUMPS)
def test_volume_is_one(kernel):
    """In one dimension, the density of a single row fitted on integrates to one."""
    model = hbconv.convert(
        KernelDensity(kernel=kernel, bandwidth=0.5).fit(np.zeros((1, 1))), backend="reference"
    )
    volume, _ = quad(
        lambda x: float(np.exp(model.score_samples(np.array([[x]]))[0])),
        -20,
        20,
        points=[-0.5, 0, 0.5],
        limit=200,
    )
    assert volume == pytest.approx(1.0, abs=1e-6)
