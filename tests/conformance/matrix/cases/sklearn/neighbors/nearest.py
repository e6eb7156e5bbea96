"""Nearest neighbours, by every metric."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import WIDTH, fit_rows, target
from matrix.fitting import NEAR, fit
from sklearn import neighbors

NAME = "sklearn.neighbors.{}".format


def metrics() -> Iterator[Case]:
    """Distances to the nearest by every metric; positions too, by those under which no two rows
    are equally far.
    """
    case = partial(Case, NAME("NearestNeighbors"), rows=NEAR)
    nearest = neighbors.NearestNeighbors
    yield case("default", fit(nearest(n_neighbors=4)))
    yield case("brute, float32", fit(nearest(algorithm="brute"), dtype="float32"))
    weights = {"w": np.arange(1.0, WIDTH + 1)}
    for p in (1, 1.5, 3):
        yield case(f"power {p}", fit(nearest(p=p)))
    yield case("power 0.5", fit(nearest(p=0.5, algorithm="brute")))
    yield case("power 3, weights", fit(nearest(p=3, metric_params=weights)))
    yield case("weights", fit(nearest(metric_params=weights, algorithm="ball_tree")))
    inverse = np.linalg.inv(np.cov(fit_rows().T))
    variance = fit_rows().var(axis=0)
    for metric, params in {"seuclidean": {"V": variance}, "mahalanobis": {"VI": inverse}}.items():
        yield case(metric, fit(nearest(metric=metric, metric_params=params)))
    for metric in ("cosine", "sqeuclidean", "nan_euclidean"):
        yield case(metric, fit(nearest(metric=metric, algorithm="brute")))
    yield case("cosine, float32", fit(nearest(metric="cosine"), dtype="float32"))
    yield case("wide", lambda: nearest().fit(wide(fit_rows())), rows=lambda n: wide(NEAR(n)))
    yield case(
        "haversine",
        lambda: nearest(metric="haversine").fit(on_sphere(fit_rows())),
        rows=lambda n: on_sphere(NEAR(n)),
    )


def wide(x: np.ndarray) -> np.ndarray:
    """So many columns that brute force is chosen."""
    return np.concatenate([x, np.sin(x), np.cos(x[:, ::-1])], axis=1)


def on_sphere(x: np.ndarray) -> np.ndarray:
    """Latitudes and longitudes."""
    return np.stack([np.arctan(x[:, 5]), np.arctan(x[:, 2]) * 2], axis=1)


def voters() -> Iterator[Case]:
    """Classifiers and regressors."""
    classifier, regressor = (
        partial(Case, NAME(name), rows=NEAR)
        for name in ("KNeighborsClassifier", "KNeighborsRegressor")
    )
    vote = neighbors.KNeighborsClassifier
    average = neighbors.KNeighborsRegressor
    yield classifier("default", fit(vote(), "three_text"))
    yield classifier("distance, Manhattan", fit(vote(7, weights="distance", p=1), "three"))
    yield classifier(
        "labels, float32, brute",
        fit(vote(weights="distance", algorithm="brute"), "labels", "float32"),
    )
    yield classifier(
        "power in metric_params",
        fit(vote(weights=None, p=None, metric_params={"p": 1}), "two_bool"),
    )
    yield regressor("default", fit(average(), "value"))
    yield regressor("distance, two targets", fit(average(weights="distance"), "values"))
    yield regressor(
        "float32 targets", lambda: average().fit(fit_rows(), target("values").astype(np.float32))
    )
    yield regressor("count", fit(average(3, p=3, algorithm="brute"), "flag", "float32"))


def graphs() -> Iterator[Case]:
    """Graphs of the nearest."""
    for mode in ("distance", "connectivity"):
        yield Case(
            NAME("KNeighborsTransformer"),
            mode,
            fit(neighbors.KNeighborsTransformer(mode=mode)),
            rows=NEAR,
        )


CASES = (*metrics(), *voters(), *graphs())
