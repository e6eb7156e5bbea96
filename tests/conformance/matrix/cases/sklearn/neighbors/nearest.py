"""Nearest neighbours by every metric, a radius, densities, outliers, centroids, projections."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import numpy as np
from matrix.case import Case
from matrix.data import WIDTH, fit_rows, target
from matrix.fitting import NEAR, fit, known
from sklearn import neighbors
from sklearn.neighbors import NeighborhoodComponentsAnalysis

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


def metrics_of_ties() -> Iterator[Case]:
    """Metrics under which many rows are equally far: distances to all within a radius,
    whichever would be the nearest.
    """
    case = partial(Case, NAME("RadiusNeighborsTransformer"), rows=NEAR)
    near = partial(neighbors.RadiusNeighborsTransformer, radius=0.77)
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


def apart(x: np.ndarray) -> np.ndarray:
    """Distances to the rows fitted on."""
    return np.sqrt(((x[:, None] - fit_rows()) ** 2).sum(axis=2))


def within_a_radius() -> Iterator[Case]:
    """Classifiers, regressors and transformers by radius; those without an outlier label refuse
    what has no neighbours.
    """
    classifier, regressor = (
        partial(Case, NAME(name), rows=NEAR)
        for name in ("RadiusNeighborsClassifier", "RadiusNeighborsRegressor")
    )
    vote = neighbors.RadiusNeighborsClassifier
    average = neighbors.RadiusNeighborsRegressor
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
            NAME("RadiusNeighborsTransformer"),
            mode,
            fit(neighbors.RadiusNeighborsTransformer(mode=mode, radius=5.0)),
            rows=NEAR,
        )


def outliers() -> Iterator[Case]:
    """The local outlier factor of new rows."""
    case = partial(Case, NAME("LocalOutlierFactor"), rows=NEAR)
    factor = partial(neighbors.LocalOutlierFactor, novelty=True)
    yield case("default", fit(factor()))
    yield case("contamination, float32", fit(factor(5, contamination=0.1, p=1), dtype="float32"))


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


def centroids() -> Iterator[Case]:
    """Nearest centroids; with unequal priors it is a discriminant analysis."""
    case = partial(Case, NAME("NearestCentroid"), rows=NEAR)
    centroid = neighbors.NearestCentroid
    yield case("default", fit(centroid(), "three_text"))
    yield case(
        "priors, shrunk",
        fit(known(centroid, priors=[0.2, 0.5, 0.3])(shrink_threshold=0.5), "three"),
    )
    yield case(
        "two classes, empirical", fit(known(centroid, priors="empirical")(), "flag", "float32")
    )
    yield case("Manhattan", fit(centroid(metric="manhattan"), "three_text"))
    yield case(
        "Manhattan, priors", fit(known(centroid, priors=[0.2, 0.8])(metric="manhattan"), "two")
    )


def learned() -> Iterator[Case]:
    """A learned projection."""
    case = partial(Case, "sklearn.neighbors.NeighborhoodComponentsAnalysis", rows=NEAR)
    learn = NeighborhoodComponentsAnalysis
    yield case("default", fit(learn(3, max_iter=5, random_state=0), "three"))
    yield case("identity, float32", fit(learn(init="identity", max_iter=2), "three", "float32"))


CASES = (
    *metrics(),
    *voters(),
    *graphs(),
    *within_a_radius(),
    *metrics_of_ties(),
    *outliers(),
    *densities(),
    *centroids(),
    *learned(),
)
