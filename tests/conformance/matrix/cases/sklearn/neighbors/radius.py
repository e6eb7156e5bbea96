"""Neighbours within a radius."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import NEAR, fit
from sklearn import neighbors

NAME = "sklearn.neighbors.{}".format


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


CASES = (*within_a_radius(), *metrics_of_ties())
