"""Densities by kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import numpy as np
from matrix.case import Case
from sklearn import neighbors

NAME = "sklearn.neighbors.{}".format


def densities() -> Iterator[Case]:
    """Kernels, where the density is not so small that the source's sums and differences of
    bounds leave rounding alone.
    """
    case = partial(Case, NAME("KernelDensity"), rows=cloud)
    density = neighbors.KernelDensity
    for kernel in ("gaussian", "epanechnikov", "exponential", "linear", "cosine", "tophat"):
        yield case(
            kernel, lambda kernel=kernel: density(kernel=kernel, bandwidth=12.0).fit(cloud(150))
        )
    yield case(
        "Scott, ball tree",
        lambda: density(
            bandwidth="scott", metric="minkowski", algorithm="ball_tree", metric_params={"p": 3}
        ).fit(cloud(150)),
    )
    yield case(
        "Silverman, weights",
        lambda: density(bandwidth="silverman", metric="manhattan").fit(
            cloud(150), sample_weight=np.arange(1.0, 151)
        ),
    )


@cache
def cloud(n: int) -> np.ndarray:
    """Rows that lie close together."""
    return np.random.default_rng(n).uniform(-1.0, 1.0, (n, 3))


CASES = (*densities(),)
