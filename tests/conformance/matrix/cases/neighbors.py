"""Neighbours: nearest, within a radius, by density; every metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import WIDTH, fit_rows, rows, target
from sklearn import neighbors, semi_supervised

NAME = "sklearn.neighbors.{}".format
NEAR = partial(rows, large=100.0)


def fit(estimator: Any, y: str | None = None, dtype: str = "float64") -> Callable[[], Any]:
    """Return a function that fits the estimator to a target."""
    return lambda: estimator.fit(fit_rows().astype(dtype), None if y is None else target(y))


def metrics() -> Iterator[Case]:
    """Distances to the nearest by every metric; positions too, by those under which no two rows are equally far."""
    case, nearest = partial(Case, NAME("NearestNeighbors"), rows=NEAR), neighbors.NearestNeighbors
    yield case("default", fit(nearest(n_neighbors=4)))
    yield case("brute, float32", fit(nearest(algorithm="brute"), dtype="float32"))
    weights = {"w": np.arange(1.0, WIDTH + 1)}
    for p in (1, 1.5, 3):
        yield case(f"power {p}", fit(nearest(p=p)))
    yield case("power 0.5", fit(nearest(p=0.5, algorithm="brute")))
    yield case("power 3, weights", fit(nearest(p=3, metric_params=weights)))
    yield case("weights", fit(nearest(metric_params=weights, algorithm="ball_tree")))
    inverse, variance = np.linalg.inv(np.cov(fit_rows().T)), fit_rows().var(axis=0)
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


def metrics_of_ties() -> Iterator[Case]:
    """Metrics under which many rows are equally far: distances to all within a radius, whichever would be the nearest."""
    case, near = (
        partial(Case, NAME("RadiusNeighborsTransformer"), rows=NEAR),
        partial(neighbors.RadiusNeighborsTransformer, radius=0.77),
    )
    for metric in (
        "hamming",
        "jaccard",
        "canberra",
        "rogerstanimoto",
        "russellrao",
        "sokalsneath",
        "sokalmichener",
        "chebyshev",
    ):
        yield case(metric, fit(near(metric=metric, algorithm="ball_tree")))
    for metric in ("yule", "dice", "cityblock"):
        yield case(metric, fit(near(metric=metric, algorithm="brute")))


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
    vote, average = neighbors.KNeighborsClassifier, neighbors.KNeighborsRegressor
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


def apart(x: np.ndarray) -> np.ndarray:
    """Distances to the rows fitted on."""
    return np.sqrt(((x[:, None] - fit_rows()) ** 2).sum(axis=2))


def within_a_radius() -> Iterator[Case]:
    """Classifiers, regressors and transformers by radius; those without an outlier label refuse what has no neighbours."""
    classifier, regressor = (
        partial(Case, NAME(name), rows=NEAR)
        for name in ("RadiusNeighborsClassifier", "RadiusNeighborsRegressor")
    )
    vote, average = neighbors.RadiusNeighborsClassifier, neighbors.RadiusNeighborsRegressor
    yield classifier(
        "outliers are a class", fit(vote(5.0, outlier_label="most_frequent"), "three_text")
    )
    yield classifier(
        "outliers are no class", fit(vote(5.0, weights="distance", outlier_label=9), "three")
    )
    yield classifier("all near", fit(vote(1e6, weights="distance", algorithm="brute"), "two_text"))
    yield classifier("labels", fit(vote(8.0, p=1, outlier_label=[0, 1, 7]), "labels"))
    precomputed = vote(20.5, metric="precomputed", weights="distance", outlier_label=1)
    yield classifier(
        "precomputed",
        lambda: precomputed.fit(apart(fit_rows()), target("three")),
        rows=lambda n: apart(NEAR(n)),
    )
    yield regressor("default", fit(average(5.0), "value"))
    yield regressor("distance, two targets", fit(average(8.0, weights="distance", p=3), "values"))
    yield regressor("ints", fit(average(5.0, algorithm="brute"), "flag"))
    for mode in ("distance", "connectivity"):
        yield Case(
            NAME("KNeighborsTransformer"),
            mode,
            fit(neighbors.KNeighborsTransformer(mode=mode)),
            rows=NEAR,
        )
        yield Case(
            NAME("RadiusNeighborsTransformer"),
            mode,
            fit(neighbors.RadiusNeighborsTransformer(mode=mode, radius=5.0)),
            rows=NEAR,
        )


def outliers() -> Iterator[Case]:
    """The local outlier factor of new rows."""
    case, factor = (
        partial(Case, NAME("LocalOutlierFactor"), rows=NEAR),
        partial(neighbors.LocalOutlierFactor, novelty=True),
    )
    yield case("default", fit(factor()))
    yield case("contamination, float32", fit(factor(5, contamination=0.1, p=1), dtype="float32"))


def centroids() -> Iterator[Case]:
    """Nearest centroids; with unequal priors it is a discriminant analysis."""
    case, centroid = partial(Case, NAME("NearestCentroid"), rows=NEAR), neighbors.NearestCentroid
    yield case("default", fit(centroid(), "three_text"))
    yield case(
        "priors, shrunk", fit(centroid(priors=[0.2, 0.5, 0.3], shrink_threshold=0.5), "three")
    )
    yield case("two classes, empirical", fit(centroid(priors="empirical"), "flag", "float32"))
    yield case("Manhattan", fit(centroid(metric="manhattan"), "three_text"))
    yield case("Manhattan, priors", fit(centroid(metric="manhattan", priors=[0.2, 0.8]), "two"))


def densities() -> Iterator[Case]:
    """Kernels, where the density is not so small that the source's sums and differences of bounds leave rounding alone."""
    case, density = partial(Case, NAME("KernelDensity"), rows=cloud), neighbors.KernelDensity
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


def propagations() -> Iterator[Case]:
    """Labels passed on from row to row."""
    labels = np.where(np.arange(len(fit_rows())) % 3, target("three"), -1)
    for each in ("LabelPropagation", "LabelSpreading"):
        estimator, case = (
            getattr(semi_supervised, each),
            partial(Case, f"sklearn.semi_supervised.{each}", rows=NEAR),
        )
        same_as = "" if each == "LabelPropagation" else "LabelPropagation"
        yield case(
            "rbf",
            lambda estimator=estimator: estimator(gamma=0.01, max_iter=30).fit(fit_rows(), labels),
            same_as=same_as,
        )
        yield case(
            "knn",
            lambda estimator=estimator: estimator("knn", n_neighbors=5).fit(
                fit_rows().astype(np.float32), labels
            ),
            same_as=same_as,
        )


CASES = (
    *metrics(),
    *voters(),
    *within_a_radius(),
    *metrics_of_ties(),
    *outliers(),
    *centroids(),
    *densities(),
    *propagations(),
)
