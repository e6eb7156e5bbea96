"""Rows placed, or filled, by the neighbours that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows, target, with_missing
from sklearn import manifold
from sklearn.impute import KNNImputer
from sklearn.neighbors import NeighborhoodComponentsAnalysis

NEAR = partial(rows, large=100.0)


def fit(estimator: Any, dtype: str = "float64") -> Callable[[], Any]:
    """Return a function that fits the estimator."""
    return lambda: estimator.fit(fit_rows().astype(dtype), target("three"))


def places() -> Iterator[Case]:
    """Places among the rows fitted on."""
    components, isomap, linear = (
        partial(Case, name, rows=NEAR)
        for name in (
            "sklearn.neighbors.NeighborhoodComponentsAnalysis",
            "sklearn.manifold.Isomap",
            "sklearn.manifold.LocallyLinearEmbedding",
        )
    )
    yield components("default", fit(NeighborhoodComponentsAnalysis(3, max_iter=5, random_state=0)))
    yield components(
        "identity, float32",
        fit(NeighborhoodComponentsAnalysis(init="identity", max_iter=2), "float32"),
    )
    yield isomap("default", fit(manifold.Isomap()))
    yield isomap(
        "Manhattan, float32", fit(manifold.Isomap(n_neighbors=8, n_components=3, p=1), "float32")
    )
    yield linear("default", fit(manifold.LocallyLinearEmbedding(n_neighbors=6)))
    for method in ("modified", "hessian", "ltsa"):
        yield linear(
            method,
            fit(
                manifold.LocallyLinearEmbedding(
                    n_neighbors=7, method=method, neighbors_algorithm="brute"
                )
            ),
        )
    yield linear(
        "regularized, float32",
        fit(manifold.LocallyLinearEmbedding(n_neighbors=12, n_components=3, reg=0.1), "float32"),
    )


def gaps(n: int) -> np.ndarray:
    """Rows with missing values, the last of nothing else."""
    x = with_missing(NEAR(n))
    x[8:][-1:] = np.nan
    return x


def fit_gaps(estimator: Any, dtype: str = "float64", missing: float = np.nan) -> Callable[[], Any]:
    """Return a function that fits the estimator on rows of which the second column is all missing."""
    x = with_missing(fit_rows()).astype(dtype)
    x[:, 1] = np.nan
    return lambda: estimator.fit(np.where(np.isnan(x), np.array(missing, dtype), x))


def imputers() -> Iterator[Case]:
    """Means of neighbours."""
    case = partial(Case, "sklearn.impute.KNNImputer", rows=gaps)
    yield case("default", fit_gaps(KNNImputer()))
    yield case(
        "distance, empty columns",
        fit_gaps(KNNImputer(weights="distance", n_neighbors=3, keep_empty_features=True)),
    )
    yield case(
        "indicator, all donors, float32",
        fit_gaps(KNNImputer(n_neighbors=1000, add_indicator=True), "float32"),
    )
    yield case(
        "number",
        fit_gaps(KNNImputer(missing_values=-1), missing=-1.0),
        rows=lambda n: np.where(np.isnan(gaps(n)), -1.0, gaps(n)),
    )


CASES = (*places(), *imputers())
