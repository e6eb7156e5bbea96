"""Search neighbours: the nearest of the fitted rows, or all within a radius.

Distances may be given: a full matrix, or a graph of neighbours.
The search by which scikit-learn finds neighbours decides among equally near ones.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, fields, replace
from math import pi
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    AdjacencyLists,
    Affine,
    BoxDistances,
    ByForm,
    Cast,
    CastLike,
    ChoosesNearest,
    Clip,
    Compare,
    ConstantRows,
    CosineDistances,
    Distances,
    EntriesAt,
    Formula,
    HeapSearch,
    Held,
    Map,
    MatrixTuple,
    Nearest,
    NearestPoints,
    NearestSearch,
    Node,
    Output,
    PartitionSearch,
    ProductDistances,
    Scatter,
    Select,
    SharedProducts,
    Sparse,
    SparseProducts,
    SquaredDistances,
    SquaresAt,
    TermDistances,
    TreeSearch,
    WholeProducts,
    are_often_tied,
    reads_tied_points,
)
from hbconv.parse.common.distance_metrics import (
    COUNTING,
    Surrogate,
    named_metric,
    read_metric,
    refuse_no_metric,
    squared_distances,
)
from hbconv.parse.common.linear_scores import dense, promote
from hbconv.parse.step import Step, concat

__all__ = [
    "Neighbors",
    "Within",
    "constant_like",
    "finite_rows",
    "fitted_rows",
    "kneighbors",
    "nearest",
    "nearest_center",
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

        A distance of -1 means none.
        """
        lists = Held(self.near, self.distances, absent=-1.0)
        graph = Held(self.near, constant_like(self.near, 1.0))
        return {
            "radius_neighbors": Output(lists, AdjacencyLists(self.order), on_demand=True),
            "radius_neighbors_graph": Output(graph, Sparse(), on_demand=True),
        }


def fitted_rows(estimator: Any) -> npt.NDArray[Any]:
    """Return the fitted rows as an array.

    ValueError where the search tree, which the source model asks, holds other rows.
    So it is where the model claims another number of rows.
    """
    rows = dense(estimator._fit_X)
    tree = getattr(estimator, "_tree", None)
    count = getattr(estimator, "n_samples_fit_", len(rows))
    if count != len(rows):
        raise ValueError(f"n_samples_fit_={count!r:.30}, for {len(rows)} rows of _fit_X")
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
        return precomputed_distances(step, estimator, x)
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
    # Such a graph has sorted its neighbours already, so nothing is searched.
    if estimator.metric == "precomputed" and step.x_sparse and isinstance(x, Scatter):
        return _first(step, x, count)
    surrogate = read_surrogate(step, estimator, x)
    if count > surrogate.node.type.width:
        raise step.refuse(
            "n_neighbors", count, f"It was fitted on {surrogate.node.type.width} rows."
        )
    if estimator.metric == "precomputed" and step.x_sparse:
        positions: Node = Nearest(surrogate.node, count)
        entries: Node = EntriesAt(surrogate.node, positions)
        require_neighbors(step, x, entries)
        warn_of_graph(step, x)
    else:
        warn_of_scaling(step, estimator)
        points = Array(dense(estimator._fit_X))
        of_dense, of_sparse = (
            # Searches of dense and of sparse rows differ, and so do their choices among ties.
            _smallest(
                surrogate.node, count, read_tie_rule(step, estimator, x, points, sparse=sparse)
            )
            for sparse in (False, True)
        )
        positions, entries = map(step.by_form, of_dense, of_sparse)
    return Neighbors(positions, surrogate.to_distance(entries))


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
        # Scores that bound distances pay only where most points can be left out.
        or count * _MANY > node.type.width
    ):
        smallest = Nearest(node, count, **rule.fields)
        return smallest, EntriesAt(node, smallest)
    x = Cast(node.x, "float64")
    points = Array.of(node.points, "float64")
    positions = NearestPoints(x, points, count, **rule.fields)
    return positions, SquaresAt(x, positions, points)


def nearest_center(step: Step, x: Node, centers: npt.NDArray[Any]) -> Node:
    """Return the position of the nearest of a few points, as ``pairwise_distances_argmin`` does.

    Far from all of them the source's distances are equal, and the rounding of its products decides.
    Rows and points have a common dtype there. Rows in Fortran order it rounds otherwise, and hbconv
    answers them as those in C order.
    """
    distances = squared_distances(Cast(x, "float64"), centers)
    rows, points = promote(x, centers), Array(centers)
    wide = ProductDistances(Array.of(centers, np.float64), None)
    formulas = ProductDistances(points, None, wide), SparseProducts(points, None, True, False)
    search = HeapSearch("float", _threads())
    rules = (TieRule(search, rows, formula=formula) for formula in formulas)
    return step.by_form(*(_smallest(distances, 1, rule)[0] for rule in rules))


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
    # The radius becomes a surrogate, so that no root decides rows that lie on it.
    near = Compare.of(surrogate.node, "le", surrogate.of_distance(float(est.radius)))
    return Within(near, surrogate.to_distance(surrogate.node), _search_order(est))


def _search_order(estimator: Any) -> Array:
    """Return the fitted rows in the order in which the search meets them.

    A search tree goes through its leaves from left to right, brute force through the rows.
    """
    tree = getattr(estimator, "_tree", None)
    # idx_array lists the rows leaf by leaf.
    order = np.arange(estimator.n_samples_fit_) if tree is None else np.asarray(tree.idx_array)
    return Array(order.astype(np.int64))


def constant_like(x: Node, value: float) -> Node:
    """Return one number in every column of x."""
    return ConstantRows(x, Array(np.full(x.type.width, value)))


_GIVE_ARRAY = (
    "Give the distances to all rows as an array, or convert the pipeline that makes the graph."
)


_GRAPHS = (
    "A graph has entries for neighbours alone. hbconv reads it straight from "
    "KNeighborsTransformer or RadiusNeighborsTransformer."
)


def precomputed_distances(step: Step, estimator: Any, x: Node) -> Surrogate:
    """Return the distances that an estimator with ``metric="precomputed"`` is given.

    They are infinite to rows that a graph does not hold.
    """
    if step.x_sparse:
        return Surrogate(_graph(step, x), of_distance=_finite)
    step.require_dense("takes the entries of a sparse matrix alone for neighbours", _GIVE_ARRAY)
    distances = promote(x, np.zeros(0, estimator._fit_X.dtype))
    step.check(
        Compare.of(distances, "lt", 0.0),
        f"Negative values in the distances given to {step.name} (step {step.where!r}).",
    )
    return Surrogate(distances)


def require_neighbors(step: Step, graph: Node, distances: Node) -> None:
    """Refuse rows for which a graph holds fewer neighbours than are needed.

    The distance to the last of them is then infinite.
    """
    if isinstance(graph, Held) and isinstance(graph.values, ConstantRows):
        raise step.refuse(
            "metric",
            "precomputed",
            "All neighbours in its graph are equally far. Make it with mode='distance'.",
        )
    last = Select(distances, Array(np.array([distances.type.width - 1], dtype=np.int32)))
    message = (
        f"{distances.type.width} neighbours are required, but the graph given to {step.name} (step "
        f"{step.where!r}) holds fewer of some rows."
    )
    # The nearest are in order, so the last one is the one that may be missing.
    step.check(Compare.of(last, "eq", np.inf), message)


def _graph(step: Step, x: Node) -> Node:
    if not isinstance(x, Scatter | Held):
        raise step.refuse("metric", "precomputed", _GRAPHS)
    # Rows that the graph lacks must never be nearest.
    return replace(x, absent=np.inf)


def _finite(radius: float) -> float:
    """Keep a radius below the distance to rows that a graph does not hold."""
    return min(radius, np.finfo(np.float64).max)


_BY_HEAP = (
    "braycurtis", "canberra", "chebyshev", "cityblock", "euclidean", "haversine", "infinity", "l1",
    "l2", "manhattan", "minkowski", "p", "seuclidean", "sokalmichener", "sqeuclidean",
)  # fmt: skip
"""Metrics by which scikit-learn's ArgKmin searches by brute force."""
_POWERS = {"manhattan": 1.0, "cityblock": 1.0, "l1": 1.0, "euclidean": 2.0, "l2": 2.0,
           "chebyshev": np.inf, "infinity": np.inf}  # fmt: skip

_PRODUCTS = ("euclidean", "sqeuclidean", "nan_euclidean")
"""Metrics that scikit-learn computes by products of matrices."""
_TERMS = {
    "manhattan": ("absolute", 1.0),
    "cityblock": ("absolute", 1.0),
    "l1": ("absolute", 1.0),
    "l2": ("square", 2.0),
    "chebyshev": ("largest", 1.0),
    "infinity": ("largest", 1.0),
    "canberra": ("canberra", 1.0),
    "seuclidean": ("standard", 2.0),
    "haversine": ("haversine", 2.0),
}
"""Metrics that it computes feature by feature: their terms, and by which power they grow."""


@dataclass(frozen=True)
class TieRule:
    """The search, and what it reads of the rows.

    Parameters
    ----------
    search : NearestSearch
    rows : Node, optional
        The rows, by whose dtype it goes.
    bounds : tuple of Node
    formula : Formula, optional
        How the source computes distances, if it rounds otherwise.
    """

    search: NearestSearch
    rows: Node | None = None
    bounds: tuple[Node, ...] = ()
    formula: Formula | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a node that chooses so."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def read_tie_rule(step: Step, estimator: Any, x: Node, points: Array, *, sparse: bool) -> TieRule:
    """Read how the source's search meets the fitted rows, for rows of an array or sparse ones."""
    if estimator._fit_method != "brute":
        return _tree_rule(step, estimator, x)
    metric = estimator.effective_metric_
    fitted = estimator._fit_X
    formula = _formula(estimator, points, sparse=sparse)
    both_sparse = sparse and hasattr(fitted, "tocsr")
    by_heap = metric in _BY_HEAP or not isinstance(metric, str)
    # ArgKmin of scikit-learn leaves two sparse arrays to scipy (its issue 28191).
    by_heap = by_heap and not (metric in _PRODUCTS and both_sparse)
    if by_heap and fitted.dtype in (np.float32, np.float64):
        search: NearestSearch = HeapSearch(fitted.dtype.name, _threads())
        return TieRule(search, x, formula=formula)
    return TieRule(PartitionSearch(), x, formula=formula)


def _formula(estimator: Any, points: Array, *, sparse: bool) -> Formula | None:
    """Return how the source rounds distances by brute force."""
    metric, fitted = estimator.effective_metric_, estimator._fit_X
    points_are_sparse = hasattr(fitted, "tocsr")
    either = sparse or points_are_sparse
    if metric == "cosine":
        return CosineDistances(points, None, sparse, points_are_sparse)
    if metric not in _PRODUCTS:
        return _terms(estimator, points, sparse=either)
    if either:
        return SparseProducts(points, None, sparse, points_are_sparse)
    if metric == "nan_euclidean":
        return SharedProducts(points)
    return ProductDistances(points, None, WholeProducts(points) if metric == "euclidean" else None)


def _terms(estimator: Any, points: Array, *, sparse: bool) -> TermDistances | None:
    """Return the terms of a metric that is a sum of them."""
    metric, params = named_metric(estimator.effective_metric_, estimator.effective_metric_params_)
    weights = params.get("V" if metric == "seuclidean" else "w")
    scales = None if weights is None else Array(np.asarray(weights, np.float64))
    if metric in _TERMS:
        return TermDistances(points, None, *_TERMS[metric], scales, sparse)
    if metric not in ("minkowski", "p"):
        return None
    return TermDistances(points, None, "power", float(params.get("p", 2)), scales, sparse)


def warn_of_graph(step: Step, graph: Node) -> None:
    """Warn where a graph of all within a radius holds equally near rows, of which some are taken.

    The source takes the first of those that its search for the radius met.
    """
    if reads_tied_points(graph):
        _warn(step, "In a graph of neighbours within a radius, those fitted on first are taken.")


def warn_of_scaling(step: Step, estimator: Any) -> None:
    """Warn of a metric whose weights hbconv multiplies into the columns, which rounds otherwise."""
    metric = estimator.effective_metric_
    fitted = estimator._fit_X
    other = metric == "mahalanobis" or (metric == "seuclidean" and fitted.dtype.kind != "f")
    if other and are_often_tied(dense(fitted).astype(np.float64)):
        _warn(step, f"By metric={metric!r} rounding chooses among them. Scale in a step before it.")


def _warn(step: Step, why: str) -> None:
    warnings.warn(
        f"{step.name} (step {step.where!r}) was fitted on rows of which several are often equally "
        f"near, as rows of ints are. hbconv may take others of them than the source. {why}",
        UserWarning,
        stacklevel=2,
    )


def _threads() -> int:
    """Return how many threads scikit-learn's search takes on this machine."""
    # Of few rows each thread searches a part of the fitted rows, which decides among ties.
    helpers = sys.modules.get("sklearn.utils._openmp_helpers")
    return int(helpers._openmp_effective_n_threads()) if helpers else 1


def _tree_rule(step: Step, estimator: Any, x: Node) -> TieRule:
    """Read the leaves of a search tree, and what bounds the distance to each node."""
    _, order, nodes, bounds = map(np.asarray, estimator._tree.get_arrays())
    # A search tree is a full binary heap, so its second half is the leaves.
    leaves = nodes[len(nodes) // 2 :]
    # Leaves are adjacent: each ends where the next one starts.
    starts = np.append(leaves["idx_start"], leaves["idx_end"][-1:])
    wide = Cast(x, "float64")
    if estimator._fit_method == "kd_tree":
        reach = _boxes(estimator, wide, bounds)
    else:
        reach = _balls(step, estimator, wide, nodes, bounds)
    search = TreeSearch(Array.of(order, np.int64), Array(starts), True)
    points = Array(dense(estimator._fit_X).astype(np.float64))
    return TieRule(search, wide, (reach,), _terms(estimator, points, sparse=False))


def _boxes(estimator: Any, x: Node, bounds: npt.NDArray[Any]) -> Node:
    """Bound by the distance to the faces of a box, in the unit of entries."""
    metric, params = named_metric(estimator.effective_metric_, estimator.effective_metric_params_)
    p = _POWERS.get(metric, float(params.get("p", 2)))
    return BoxDistances(x, Array(bounds[0]), Array(bounds[1]), p)


def _balls(
    step: Step, estimator: Any, x: Node, nodes: npt.NDArray[Any], bounds: npt.NDArray[Any]
) -> Node:
    """Bound by the distance to the surface of a ball, in the unit of entries."""
    metric, params = named_metric(estimator.effective_metric_, estimator.effective_metric_params_)
    surrogate = read_metric(step, x, bounds[0], metric, params)
    centre = surrogate.to_distance(surrogate.node)
    # A row inside of the ball has a bound of 0.
    return surrogate.of_distances(Clip.of(Affine.of(centre, sub=nodes["radius"]), 0.0, np.inf))
