"""Manifolds: place new rows by their neighbours among the fitted rows."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Barycentric,
    Cast,
    CastLike,
    Map,
    Node,
    ShortestPaths,
    WeightedLookup,
)
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.neighbors.search import fitted_rows, nearest
from hbconv.parse.step import Step

_MOST = 50
"""Largest number of neighbours, for which the program that solves for weights stays short."""


@parses("sklearn.manifold.Isomap")
def parse_isomap(step: Step) -> Node:
    """Project minus half the squared shortest paths, as kernel PCA projects a kernel."""
    est = step.estimator
    x = step.require_finite()
    if est.n_neighbors is None:
        raise step.refuse(
            "radius",
            est.radius,
            "Within a radius all rows fitted on may begin a shortest way. Use n_neighbors.",
        )
    neighbors = nearest(step, est.nbrs_, x, est.n_neighbors)
    # A new row reaches a fitted one through one of its neighbours.
    paths = ShortestPaths(neighbors.positions, neighbors.distances, Array(est.dist_matrix_))
    # Isomap.transform fills an array in the dtype of the rows before it squares.
    kernel = Affine.of(Map(CastLike(paths, Cast(x, "float")), "square"), mul=-0.5)
    return step.transform(est.kernel_pca_, kernel, "kernel_pca_")


@parses("sklearn.manifold.LocallyLinearEmbedding")
def parse_locally_linear_embedding(step: Step) -> Node:
    """Place a row by the weights with which its neighbours make it up.

    The weights have the dtype of float rows.
    """
    est = step.estimator
    x = step.require_finite()
    if est.n_neighbors > _MOST:
        raise step.refuse(
            "n_neighbors",
            est.n_neighbors,
            f"Their system of equations is solved step by step in the program: at most {_MOST}.",
        )
    neighbors = nearest(step, est.nbrs_, x, est.n_neighbors)
    weights = Barycentric(x, neighbors.positions, Array(fitted_rows(est.nbrs_)), float(est.reg))
    return WeightedLookup(
        neighbors.positions,
        CastLike(weights, Cast(x, "float")),
        Array(np.asarray(est.embedding_, dtype=np.float64)),
    )
