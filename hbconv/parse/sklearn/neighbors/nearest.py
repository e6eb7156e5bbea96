"""Nearest neighbours: the nearest of the fitted rows, their votes, their means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Cast,
    CastLike,
    ConstantRows,
    Distances,
    EntriesAt,
    GroupSums,
    InverseDistances,
    LabelColumns,
    Labels,
    Map,
    MatrixList,
    MatrixTuple,
    Nearest,
    NearestPoints,
    Node,
    Output,
    Quotient,
    Scatter,
    Select,
    Sparse,
    SquaredDistances,
    SquaresAt,
    WeightedLookup,
)
from hbconv.parse.common.distance_metrics import (
    COUNTING,
    Surrogate,
    read_metric,
    refuse_no_metric,
    squared_distances,
)
from hbconv.parse.common.fitted_arrays import dense
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.neighbors.precomputed import given_distances, require_neighbors
from hbconv.parse.step import Step, concat

__all__ = ["Neighbors", "fitted_rows", "kneighbors", "nearest", "one_hot", "read_surrogate", "vote"]

_MANY = 12
"""Points for each neighbour from which on not all distances are computed."""
_SPARSE_METRICS = (
    "canberra", "chebyshev", "cityblock", "cosine", "euclidean", "haversine",
    "l1", "l2", "manhattan", "minkowski", "seuclidean", "sqeuclidean",
)  # fmt: skip
"""Metrics by which sparse rows are compared, by brute force."""
_VOTED_INSIDE = (
    "braycurtis", "canberra", "chebyshev", "cityblock", "haversine", "infinity", "l1", "l2",
    "manhattan", "minkowski", "p", "seuclidean", "sokalmichener",
)  # fmt: skip
"""Metrics by which the source can count votes inside its search by brute force."""
_PLAIN = {"manhattan": 1, "euclidean": 2, "chebyshev": np.inf}
"""Powers of the metrics that scikit-learn replaces by Minkowski's."""


@dataclass(frozen=True)
class Neighbors:
    """The nearest of the fitted rows, nearest first: their int32 positions and distances."""

    positions: Node
    distances: Node

    @property
    def output(self) -> Output:
        """Return the pair that ``kneighbors`` of the source model returns."""
        count = self.positions.type.width
        both = concat([self.distances, CastLike(self.positions, self.distances)])
        return Output(both, MatrixTuple(((count, ""), (count, "int64"))))


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
    if not brute:
        refuse_no_metric(step, metric)
    if brute and metric == "euclidean":
        return Surrogate(
            squared_distances(Cast(x, "float64"), rows),
            lambda node: Map(node, "sqrt"),
            lambda radius: radius * radius,
        )
    return read_metric(step, x, rows, metric, estimator.effective_metric_params_)


def finite_rows(step: Step) -> Node:
    """Return x; rows with NaN are refused unless the metric knows missing values."""
    return step.require_finite(allow_nan=step.estimator.metric == "nan_euclidean")


def nearest(step: Step, estimator: Any, x: Node, count: int) -> Neighbors:
    """Return the nearest of the fitted rows; ties go by their order.

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
    positions, found = _smallest(surrogate.node, count)
    if estimator.metric == "precomputed" and step.x_sparse:
        require_neighbors(step, x, found)
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
    return Neighbors(Select(graph.positions, first), Select(graph.values, first))


def _smallest(node: Node, count: int) -> tuple[Node, Node]:
    """Return the positions of the smallest entries, and the entries.

    Of many squared distances only those needed are computed.
    """
    if (
        not isinstance(node, SquaredDistances | Distances)
        or (isinstance(node, Distances) and node.kind != "square")
        or count * _MANY > node.type.width
    ):
        smallest = Nearest(node, count)
        return smallest, EntriesAt(node, smallest)
    x = Cast(node.x, "float64")
    points = Array.of(node.points, "float64")
    positions = NearestPoints(x, points, count)
    return positions, SquaresAt(x, positions, points)


def kneighbors(step: Step) -> Neighbors:
    """Return the neighbours of an estimator that has the parameter ``n_neighbors``."""
    if step.estimator.n_neighbors is None:
        raise step.refuse(
            "n_neighbors", None, "Without it the source model finds no neighbours of new rows."
        )
    return nearest(step, step.estimator, finite_rows(step), step.estimator.n_neighbors)


def vote(step: Step, neighbors: Neighbors) -> Node:
    """Return the weight of each neighbour."""
    weights = step.require("weights", "uniform", "distance", None)
    if weights == "distance":
        return InverseDistances(Cast(neighbors.distances, "float64"))
    return ConstantRows(neighbors.positions, Array(np.ones(neighbors.positions.type.width)))


def one_hot(codes: npt.NDArray[Any], n_classes: int) -> Array:
    """Return a row for each code, with a one at the code."""
    return Array(np.equal.outer(codes, np.arange(n_classes)).astype(np.float64))


def votes_inside_search(estimator: Any) -> bool:
    """Tell whether the source counts votes inside its search, for rows of the fitted dtype alone.

    It never does so by Euclidean distance, which Minkowski's is where the parameter p is 2.
    """
    metric = estimator.metric
    return (
        estimator.weights == "uniform"
        and not estimator.outputs_2d_
        and estimator._fit_method == "brute"
        and metric in _VOTED_INSIDE
        and not (metric == "minkowski" and estimator.p == 2)
    )


def refuse_two_metrics(step: Step) -> None:
    """Refuse two metrics: the parameter p for the fitted dtype, ``metric_params`` for others."""
    est = step.estimator
    if est.metric != "minkowski" or not votes_inside_search(est):
        return
    p = _PLAIN.get(est.effective_metric_, est.effective_metric_params_.get("p"))
    if p != est.p:
        hint = (
            f"By brute force scikit-learn takes p={est.p} for rows of some dtypes, and p={p} for "
            "others. Give the same p, or use algorithm='ball_tree'."
        )
        raise step.refuse("metric_params", est.metric_params, hint)


@parses("sklearn.neighbors.KNeighborsClassifier")
def parse_neighbors_classifier(step: Step) -> dict[str, Output]:
    """Let the neighbours vote; each output has classes of its own."""
    est = step.estimator
    refuse_two_metrics(step)
    neighbors = kneighbors(step)
    weights = vote(step, neighbors)
    classes = est.classes_ if est.outputs_2d_ else [est.classes_]
    codes = est._y if est.outputs_2d_ else est._y.reshape(-1, 1)
    votes = [
        WeightedLookup(neighbors.positions, weights, one_hot(codes[:, k], len(labels)))
        for k, labels in enumerate(classes)
    ]
    return {
        **classify_outputs(votes, classes, is_list=est.outputs_2d_),
        "kneighbors": neighbors.output,
    }


def classify_outputs(
    votes: Sequence[Node], classes: Sequence[npt.NDArray[Any]], *, is_list: bool
) -> dict[str, Output]:
    """Return the classes of most votes and the shares of votes, a list for several outputs."""
    labels = tuple(Array(labels) for labels in classes)
    shares = concat([Quotient((each, GroupSums(each, 1))) for each in votes])
    if not is_list:
        return {
            "predict": Output(ArgMax(votes[0]), Labels(labels[0])),
            "predict_proba": Output(shares),
        }
    codes = concat([ArgMax(each) for each in votes])
    return {
        "predict": Output(codes, LabelColumns(labels)),
        "predict_proba": Output(shares, MatrixList(tuple(len(each) for each in labels))),
    }


@parses("sklearn.neighbors.KNeighborsRegressor")
def parse_neighbors_regressor(step: Step) -> dict[str, Output]:
    """Average the targets of the neighbours, weighted where they count by distance."""
    targets = np.asarray(step.estimator._y)
    neighbors = kneighbors(step)
    weights = vote(step, neighbors)
    table = targets.reshape(len(targets), -1)
    if isinstance(weights, ConstantRows):
        dtype = table.dtype if table.dtype.kind == "f" else np.dtype(np.float64)
        ones = ConstantRows(neighbors.positions, Array(weights.values.data.astype(dtype)))
        mean: Node = Affine.of(
            WeightedLookup(neighbors.positions, ones, Array(table.astype(dtype))),
            div=len(weights.values),
        )
    else:
        mean = Quotient(
            (
                WeightedLookup(neighbors.positions, weights, Array(table.astype(np.float64))),
                GroupSums(weights, 1),
            )
        )
    return {
        "predict": Output(mean, VECTOR if targets.ndim == 1 else MATRIX),
        "kneighbors": neighbors.output,
    }


@parses("sklearn.neighbors.NearestNeighbors")
def parse_nearest_neighbors(step: Step) -> dict[str, Output]:
    """Return the neighbours themselves."""
    return {"kneighbors": kneighbors(step).output}


@parses("sklearn.neighbors.KNeighborsTransformer")
def parse_neighbors_transformer(step: Step) -> dict[str, Output]:
    """Put distances, or ones, in the places of the neighbours.

    With distances there is one neighbour more.
    """
    est = step.estimator
    mode = step.require("mode", "distance", "connectivity")
    neighbors = kneighbors(step)
    size = est.n_samples_fit_
    found = nearest(step, est, step.x, est.n_neighbors + 1) if mode == "distance" else neighbors
    values = (
        found.distances
        if mode == "distance"
        else ConstantRows(found.positions, Array(np.ones(est.n_neighbors)))
    )
    return {
        "transform": Output(Scatter(values, found.positions, size), Sparse()),
        "kneighbors": neighbors.output,
    }
