"""Search neighbours: the nearest of the fitted rows, or all within a radius."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    AdjacencyLists,
    ByForm,
    Cast,
    CastLike,
    ChoosesNearest,
    Compare,
    ConstantRows,
    Distances,
    EntriesAt,
    Held,
    Map,
    MatrixTuple,
    Nearest,
    NearestPoints,
    Node,
    Output,
    Scatter,
    Select,
    Sparse,
    SquaredDistances,
    SquaresAt,
)
from hbconv.parse.common.distance_metrics import (
    COUNTING,
    Surrogate,
    named_metric,
    read_metric,
    refuse_no_metric,
    squared_distances,
)
from hbconv.parse.common.fitted_arrays import dense
from hbconv.parse.sklearn.neighbors.precomputed import given_distances, require_neighbors
from hbconv.parse.sklearn.neighbors.tie_rules import (
    TieRule,
    read_tie_rule,
    warn_of_graph,
    warn_of_scaling,
)
from hbconv.parse.step import Step, concat

__all__ = [
    "Neighbors",
    "Within",
    "constant_like",
    "finite_rows",
    "fitted_rows",
    "kneighbors",
    "nearest",
    "read_surrogate",
    "within",
]

_MANY = 12
"""Points for each neighbour from which on not all distances are computed."""
_SPARSE_METRICS = (
    "chebyshev", "cityblock", "cosine", "euclidean", "haversine",
    "l1", "l2", "manhattan", "minkowski", "seuclidean", "sqeuclidean",
)  # fmt: skip
"""Metrics by which sparse rows are compared, by brute force."""


@dataclass(frozen=True)
class Neighbors:
    """The nearest of the fitted rows, nearest first: their int32 positions and distances."""

    positions: Node
    distances: Node

    def outputs(self, size: int) -> dict[str, Output]:
        """Return what the methods of the source model return that find these of so many rows."""
        count = self.positions.type.width
        both = concat([self.distances, CastLike(_in_order(self.positions), self.distances)])
        ones = ConstantRows(self.positions, Array(np.ones(count)))
        graph = Scatter(ones, self.positions, size)
        return {
            "kneighbors": Output(both, MatrixTuple(((count, ""), (count, "int64")))),
            "kneighbors_graph": Output(graph, Sparse(), on_demand=True),
        }


@dataclass(frozen=True)
class Within:
    """Which of the fitted rows lie within the radius, and the distances to all of them.

    Parameters
    ----------
    near, distances : Node
    order : Array of int64, shape (n_samples_fit,)
        The fitted rows as the search of the source model meets them.
    """

    near: Node
    distances: Node
    order: Array

    @property
    def outputs(self) -> dict[str, Output]:
        """Return what the methods of the source model return that find these.

        A distance of -1 stands for none.
        """
        found = Held(self.near, self.distances, absent=-1.0)
        graph = Held(self.near, constant_like(self.near, 1.0))
        return {
            "radius_neighbors": Output(found, AdjacencyLists(self.order), on_demand=True),
            "radius_neighbors_graph": Output(graph, Sparse(), on_demand=True),
        }


def fitted_rows(estimator: Any) -> npt.NDArray[Any]:
    """Return the fitted rows as an array.

    ValueError where the search tree, which the source model asks, holds other rows.
    So it is where the model claims another number of rows.
    """
    rows = dense(estimator._fit_X)
    tree = getattr(estimator, "_tree", None)
    told = getattr(estimator, "n_samples_fit_", len(rows))
    if told != len(rows):
        raise ValueError(f"n_samples_fit_={told!r:.30}, for {len(rows)} rows of _fit_X")
    if tree is not None and not np.array_equal(np.asarray(tree.data), rows):
        raise ValueError("_fit_X does not hold the rows of _tree")
    return rows


def read_surrogate(step: Step, estimator: Any, x: Node) -> Surrogate:
    """Return what grows with the distance from x to each fitted row."""
    if not hasattr(estimator, "n_features_in_"):
        raise step.refuse(
            None,
            None,
            "It was fitted on a search tree or on another estimator, whose metric may be "
            "another. Fit it on rows.",
        )
    if estimator.metric == "precomputed":
        return given_distances(step, estimator, x)
    rows = fitted_rows(estimator)
    metric = estimator.effective_metric_
    brute = estimator._fit_method == "brute"
    if not brute or metric not in _SPARSE_METRICS:
        step.refuse_sparse(
            f"searches by {estimator._fit_method!r} and {metric!r}, which take no sparse matrix"
        )
    if brute and metric == "euclidean":
        return Surrogate(
            squared_distances(Cast(x, "float64"), rows),
            lambda node: Map(node, "sqrt"),
            lambda radius: radius * radius,
        )
    metric, params = named_metric(metric, estimator.effective_metric_params_)
    if estimator._fit_method == "kd_tree" and params.get("w") is not None:
        hint = "Its search tree misses some neighbours then. Use algorithm='ball_tree'."
        raise step.refuse("metric", "minkowski with weights", hint)
    if not brute:
        refuse_no_metric(step, metric)
    return read_metric(step, x, rows, metric, params)


def finite_rows(step: Step) -> Node:
    """Return x; rows with NaN are refused unless the metric knows missing values."""
    return step.require_finite(allow_nan=step.estimator.metric == "nan_euclidean")


def nearest(step: Step, estimator: Any, x: Node, count: int) -> Neighbors:
    """Return the nearest of the fitted rows; among equally near ones the source's search decides.

    Metrics with many ties are refused: which of the rows is taken depends on the search.
    """
    if estimator.metric in COUNTING:
        raise step.refuse(
            "metric",
            estimator.metric,
            "Many rows are equally far under it, and the source model takes some as its "
            "search meets them.",
        )
    if estimator.metric == "precomputed" and step.x_sparse and isinstance(x, Scatter):
        return _first(step, x, count)
    surrogate = read_surrogate(step, estimator, x)
    if count > surrogate.node.type.width:
        raise step.refuse(
            "n_neighbors", count, f"It was fitted on {surrogate.node.type.width} rows."
        )
    if estimator.metric == "precomputed" and step.x_sparse:
        positions: Node = Nearest(surrogate.node, count)
        found: Node = EntriesAt(surrogate.node, positions)
        require_neighbors(step, x, found)
        warn_of_graph(step, x)
    else:
        warn_of_scaling(step, estimator)
        dense, sparse = (
            _smallest(surrogate.node, count, read_tie_rule(step, estimator, x, sparse=sparse))
            for sparse in (False, True)
        )
        positions, found = map(step.by_form, dense, sparse)
    return Neighbors(positions, surrogate.to_distance(found))


def _first(step: Step, graph: Scatter, count: int) -> Neighbors:
    """Return the first neighbours of a graph, whose rows ascend by distance."""
    held = graph.positions.type.width
    if count > held:
        raise step.refuse(
            "n_neighbors",
            count,
            f"The graph given to it holds {held} neighbours of each row: make it of more.",
        )
    first = Array(np.arange(count, dtype=np.int32))
    return Neighbors(Select(_in_order(graph.positions), first), Select(graph.values, first))


def _in_order(positions: Node) -> Node:
    """Return positions of which equally near ones are in the order of the source."""
    if isinstance(positions, ByForm):
        return ByForm(_in_order(positions.dense), _in_order(positions.sparse))
    return positions.in_order() if isinstance(positions, ChoosesNearest) else positions


def _smallest(node: Node, count: int, rule: TieRule) -> tuple[Node, Node]:
    """Return the positions of the smallest entries, and the entries.

    Of many squared distances only those needed are computed.
    """
    if (
        not isinstance(node, SquaredDistances | Distances)
        or (isinstance(node, Distances) and node.kind != "square")
        or count * _MANY > node.type.width
    ):
        smallest = Nearest(node, count, **rule.fields)
        return smallest, EntriesAt(node, smallest)
    x = Cast(node.x, "float64")
    points = Array.of(node.points, "float64")
    positions = NearestPoints(x, points, count, **rule.fields)
    return positions, SquaresAt(x, positions, points)


def kneighbors(step: Step) -> Neighbors:
    """Return the neighbours of an estimator that has the parameter ``n_neighbors``."""
    if step.estimator.n_neighbors is None:
        raise step.refuse(
            "n_neighbors", None, "Without it the source model finds no neighbours of new rows."
        )
    return nearest(step, step.estimator, finite_rows(step), step.estimator.n_neighbors)


def within(step: Step) -> Within:
    """Return the neighbours of an estimator that has the parameter ``radius``."""
    est = step.estimator
    if est.radius is None:
        raise step.refuse(
            "radius", None, "Without it the source model finds no neighbours of new rows."
        )
    if est.metric == "haversine" and est.radius > pi:
        hint = (
            "No distance on a sphere exceeds pi, and beyond it scikit-learn leaves rows out whose "
            "distance it reads as a sine. Use radius=math.pi."
        )
        raise step.refuse("radius", est.radius, hint)
    surrogate = read_surrogate(step, est, finite_rows(step))
    near = Compare.of(surrogate.node, "le", surrogate.of_distance(float(est.radius)))
    return Within(near, surrogate.to_distance(surrogate.node), _search_order(est))


def _search_order(estimator: Any) -> Array:
    """Return the fitted rows in the order in which the search meets them.

    A search tree goes through its leaves from left to right, brute force through the rows.
    """
    tree = getattr(estimator, "_tree", None)
    order = np.arange(estimator.n_samples_fit_) if tree is None else np.asarray(tree.idx_array)
    return Array(order.astype(np.int64))


def constant_like(x: Node, value: float) -> Node:
    """Return one number in every column of x."""
    return ConstantRows(x, Array(np.full(x.type.width, value)))
