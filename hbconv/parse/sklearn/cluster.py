"""Clusters: the nearest of a few centres, and the distances to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Affine,
    ArgMax,
    Cast,
    ConstantRows,
    Linear,
    LookupRows,
    Map,
    Node,
    Output,
    Pool,
    Select,
    sparse_form,
)
from hbconv.parse.common.distance_metrics import squared_distances
from hbconv.parse.common.linear_scores import dense, promote
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.neighbors.search import nearest_center
from hbconv.parse.step import Step


def _distances(x: Node, centers: npt.NDArray[Any]) -> Node:
    return Map(squared_distances(x, centers), "sqrt")


def _closeness(x: Node, centers: npt.NDArray[Any]) -> Node:
    """Return ``2 x @ center - |center|^2``, which is larger for nearer centres.

    The source model compares this value, in this dtype.
    """
    return Linear.of(promote(x, centers), 2.0 * centers.T, -np.einsum("ij,ij->i", centers, centers))


@parses("sklearn.cluster.KMeans", "sklearn.cluster.MiniBatchKMeans")
def parse_k_means(step: Step) -> dict[str, Output]:
    """Return the nearest centre, and the distances to all."""
    x = step.require_finite()
    centers = step.estimator.cluster_centers_
    return {
        "predict": Output(ArgMax(_closeness(x, centers)), VECTOR),
        "transform": Output(_distances(x, centers)),
    }


@parses("sklearn.cluster.BisectingKMeans")
def parse_bisecting_k_means(step: Step) -> dict[str, Output]:
    """Walk down the tree of clusters, always towards the nearer half.

    A label counts the turns on its way that a row takes; only the right label has them all.
    """
    est = step.estimator
    x = step.require_finite()
    inner = _inner_clusters(est._bisecting_tree)
    labels: Node = ConstantRows(x, Array(np.zeros(1, np.int32)))
    if inner:
        centers = np.concatenate([[cluster.left.center, cluster.right.center] for cluster in inner])
        # Fitting on dense rows centres them, and the tree keeps the centred means.
        centers = centers + est._X_mean if hasattr(est, "_X_mean") else centers
        # All halvings are decided at once, also those that a row does not pass.
        turns = Cast(ArgMax(_closeness(x, centers), len(inner)), "float64")
        ways = _ways(inner)
        # Right turns count 1, wrong ones -1: less the turns needed, only the label reached has 0.
        labels = ArgMax(Linear.of(turns, ways, -(ways == 1.0).sum(axis=0).astype(np.float64)))
    return {
        "predict": Output(labels, VECTOR),
        "transform": Output(_distances(x, est.cluster_centers_)),
    }


def _inner_clusters(cluster: Any) -> list[Any]:
    """List the clusters that were bisected, each before its halves."""
    return (
        []
        if cluster.left is None
        else [cluster, *_inner_clusters(cluster.left), *_inner_clusters(cluster.right)]
    )


def _ways(inner: list[Any]) -> npt.NDArray[np.float64]:
    """Return the way to each label (column) at each bisected cluster (row).

    1 is a right turn, -1 a left turn, 0 a cluster that the way does not pass.
    """
    ways = np.zeros((len(inner), len(inner) + 1))
    for row, cluster in zip(ways, inner, strict=True):
        row[_labels(cluster.left)] = -1.0
        row[_labels(cluster.right)] = 1.0
    return ways


def _labels(cluster: Any) -> list[int]:
    """Return the labels of the leaves below a cluster."""
    return (
        [cluster.label]
        if cluster.left is None
        else [*_labels(cluster.left), *_labels(cluster.right)]
    )


@parses("sklearn.cluster.Birch")
def parse_birch(step: Step) -> dict[str, Output]:
    """Return the label of the nearest subcluster, and the distances to all subclusters."""
    est = step.estimator
    x = step.require_finite()
    # The source predicts by the stored norms, hbconv by the centres.
    if not np.allclose((est.subcluster_centers_**2).sum(axis=1), est._subcluster_norms):
        raise step.damaged("_subcluster_norms are not those of subcluster_centers_")
    labels = LookupRows(
        nearest_center(step, x, est.subcluster_centers_),
        Array(np.asarray(est.subcluster_labels_)[:, None]),
    )
    return {
        "predict": Output(labels, VECTOR),
        "transform": Output(_distances(x, est.subcluster_centers_)),
    }


@parses("sklearn.cluster.MeanShift")
def parse_mean_shift(step: Step) -> dict[str, Output]:
    """Return the nearest centre."""
    return {
        "predict": Output(
            nearest_center(step, step.require_finite(), step.estimator.cluster_centers_),
            VECTOR,
            dtype="int64",
        )
    }


@parses("sklearn.cluster.AffinityPropagation")
def parse_affinity_propagation(step: Step) -> dict[str, Output]:
    """Return the nearest exemplar; -1 where fitting did not converge and left none."""
    est = step.estimator
    step.require("affinity", "euclidean")
    x = step.require_finite()
    centers = dense(est.cluster_centers_)
    labels = (
        nearest_center(step, x, centers) if len(centers) else ConstantRows(x, Array(np.array([-1])))
    )
    return {"predict": Output(labels, VECTOR, dtype="int64")}


_POOLS: dict[Callable[..., Any], str] = {
    np.amax: "max",
    np.amin: "min",
    np.max: "max",
    np.mean: "mean",
    np.median: "median",
    np.min: "min",
    np.sum: "sum",
}


@parses("sklearn.cluster.FeatureAgglomeration")
def parse_feature_agglomeration(step: Step) -> Node:
    """Pool each cluster of columns by a function of numpy.

    The mean is computed in float64, as the source model does.
    """
    est = step.estimator
    x = step.require_finite()
    function = est.pooling_func
    labels = np.asarray(est.labels_)
    # A label without columns would make a cluster that nothing is pooled from.
    if not np.array_equal(np.unique(labels), np.arange(labels.max() + 1)):
        raise step.damaged(f"labels_ leaves out a cluster below its largest, {labels.max()}")
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    pool = next((kind for pooling, kind in _POOLS.items() if pooling is function), None)
    if pool is None:
        kinds = ", ".join(sorted({*_POOLS.values()}))
        raise step.refuse("pooling_func", function, f"hbconv handles numpy's {kinds}.")
    # The source sums by np.bincount, whose weights are float64.
    if pool == "mean":
        members = np.stack([labels == label for label in np.unique(labels)], axis=1).astype(
            np.float64
        )
        return Affine.of(Linear.of(Cast(x, "float64"), members), div=members.sum(axis=0))
    return Pool(x, tuple(tuple(group.tolist()) for group in groups), pool)


@inverts("sklearn.cluster.FeatureAgglomeration", takes_sparse=True)
def invert_feature_agglomeration(step: Step) -> Output:
    """Give each column the value of its cluster; the source model looks at no values."""
    columns = Select(step.x, Array(np.asarray(step.estimator.labels_).astype(np.int32)))
    return Output(columns, sparse_form(step.x_sparse, "kept", arrays=True))
