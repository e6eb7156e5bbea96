"""Nearest centroids."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import NEAR, fit
from sklearn import neighbors

NAME = "sklearn.neighbors.{}".format


def centroids() -> Iterator[Case]:
    """Nearest centroids; with unequal priors it is a discriminant analysis."""
    case = partial(Case, NAME("NearestCentroid"), rows=NEAR)
    centroid = neighbors.NearestCentroid
    yield case("default", fit(centroid(), "three_text"))
    yield case(
        "priors, shrunk", fit(centroid(priors=[0.2, 0.5, 0.3], shrink_threshold=0.5), "three")
    )
    yield case("two classes, empirical", fit(centroid(priors="empirical"), "flag", "float32"))
    yield case("Manhattan", fit(centroid(metric="manhattan"), "three_text"))
    yield case("Manhattan, priors", fit(centroid(metric="manhattan", priors=[0.2, 0.8]), "two"))


CASES = (*centroids(),)
