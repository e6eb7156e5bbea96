"""Clusters of rows, and of columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.fitting import NEAR, fit
from sklearn import cluster
from sources import ask

NAME = "sklearn.cluster.{}".format


def ask_in_own_dtype(estimator: Any, method: str, x: Any) -> Any:
    """Ask k-means, whose ``predict`` takes no rows of another dtype than its centres'."""
    return ask(
        estimator, method, x.astype(estimator.cluster_centers_.dtype) if method == "predict" else x
    )


def means() -> Iterator[Case]:
    """K-means in all forms."""
    for each in ("KMeans", "MiniBatchKMeans", "BisectingKMeans"):
        case = partial(
            Case,
            NAME(each),
            rows=NEAR,
            ask=ask_in_own_dtype,
            same_as="KMeans" if each == "MiniBatchKMeans" else "",
        )
        means = partial(getattr(cluster, each), random_state=0)
        yield case("default", fit(means(5)))
        yield case("float32", fit(means(3), dtype="float32"))
    yield case("one cluster", fit(cluster.BisectingKMeans(1)))
    yield case(
        "largest cluster first",
        fit(cluster.BisectingKMeans(6, bisecting_strategy="largest_cluster", random_state=1)),
    )


def others() -> Iterator[Case]:
    """Clusters by other means."""
    birch, shift, affinity = (
        partial(Case, NAME(each), rows=NEAR)
        for each in ("Birch", "MeanShift", "AffinityPropagation")
    )
    yield birch("default", fit(cluster.Birch(threshold=2.0)))
    yield birch(
        "subclusters, float32", fit(cluster.Birch(threshold=4.0, n_clusters=None), dtype="float32")
    )
    yield birch(
        "another clusterer",
        fit(cluster.Birch(threshold=3.0, n_clusters=cluster.KMeans(2, random_state=0))),
    )
    yield shift("default", fit(cluster.MeanShift(bandwidth=8.0)))
    yield shift(
        "float32", fit(cluster.MeanShift(bandwidth=12.0, cluster_all=False), dtype="float32")
    )
    yield affinity("default", fit(cluster.AffinityPropagation(random_state=0)))
    yield affinity("no centres", fit(cluster.AffinityPropagation(max_iter=1, random_state=0)))


def agglomerations() -> Iterator[Case]:
    """Columns put together."""
    case = partial(Case, NAME("FeatureAgglomeration"), kind="elementwise")
    for function in (np.mean, np.median, np.max, np.min, np.sum):
        yield case(function.__name__, fit(cluster.FeatureAgglomeration(3, pooling_func=function)))
    yield case("amax", fit(cluster.FeatureAgglomeration(5, pooling_func=np.amax)))


CASES = (*means(), *others(), *agglomerations())
