"""The search by which scikit-learn finds neighbours, which decides among equally near ones."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    BoxDistances,
    Cast,
    Clip,
    CosineDistances,
    Formula,
    HeapSearch,
    NearestSearch,
    Node,
    PartitionSearch,
    ProductDistances,
    SharedProducts,
    SparseProducts,
    TermDistances,
    TreeSearch,
    WholeProducts,
    are_often_tied,
    reads_tied_points,
)
from hbconv.parse.common.distance_metrics import named_metric, read_metric
from hbconv.parse.common.fitted_arrays import dense
from hbconv.parse.step import Step

__all__ = ["TieRule", "read_tie_rule", "warn_of_graph", "warn_of_scaling"]

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


def read_tie_rule(step: Step, estimator: Any, x: Node, *, sparse: bool) -> TieRule:
    """Read how the source's search meets the fitted rows, for rows of an array or sparse ones."""
    if estimator._fit_method != "brute":
        return _tree_rule(step, estimator, x)
    metric = estimator.effective_metric_
    fitted = estimator._fit_X
    formula = _formula(estimator, sparse=sparse)
    both_sparse = sparse and hasattr(fitted, "tocsr")
    by_heap = metric in _BY_HEAP or not isinstance(metric, str)
    by_heap = by_heap and not (metric in _PRODUCTS and both_sparse)
    if by_heap and fitted.dtype in (np.float32, np.float64):
        search: NearestSearch = HeapSearch(fitted.dtype.name, _threads())
        return TieRule(search, x, formula=formula)
    return TieRule(PartitionSearch(), x, formula=formula)


def _formula(estimator: Any, *, sparse: bool) -> Formula | None:
    """Return how the source rounds distances by brute force."""
    metric, fitted = estimator.effective_metric_, estimator._fit_X
    points, points_are_sparse = Array(dense(fitted)), hasattr(fitted, "tocsr")
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
    given = None if weights is None else Array(np.asarray(weights, np.float64))
    if metric in _TERMS:
        return TermDistances(points, None, *_TERMS[metric], given, sparse)
    if metric not in ("minkowski", "p"):
        return None
    return TermDistances(points, None, "power", float(params.get("p", 2)), given, sparse)


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
    helpers = sys.modules.get("sklearn.utils._openmp_helpers")
    return int(helpers._openmp_effective_n_threads()) if helpers else 1


def _tree_rule(step: Step, estimator: Any, x: Node) -> TieRule:
    """Read the leaves of a search tree, and what bounds the distance to each node."""
    _, order, nodes, bounds = map(np.asarray, estimator._tree.get_arrays())
    leaves = nodes[len(nodes) // 2 :]
    starts = np.append(leaves["idx_start"], leaves["idx_end"][-1:])
    made = _boxes if estimator._fit_method == "kd_tree" else _balls
    wide = Cast(x, "float64")
    reach = made(step, estimator, wide, nodes, bounds)
    search = TreeSearch(Array.of(order, np.int64), Array(starts), True)
    points = Array(dense(estimator._fit_X).astype(np.float64))
    return TieRule(search, wide, (reach,), _terms(estimator, points, sparse=False))


def _boxes(
    step: Step,  # noqa: ARG001
    estimator: Any,
    x: Node,
    nodes: npt.NDArray[Any],  # noqa: ARG001
    bounds: npt.NDArray[Any],
) -> Node:
    """Bound by the distance to the faces of a box, in the unit of entries."""
    metric, params = named_metric(estimator.effective_metric_, estimator.effective_metric_params_)
    p = _POWERS.get(metric, float(params.get("p", 2)))
    return BoxDistances(x, Array(bounds[0]), Array(bounds[1]), p)


def _balls(
    step: Step,
    estimator: Any,
    x: Node,
    nodes: npt.NDArray[Any],
    bounds: npt.NDArray[Any],
) -> Node:
    """Bound by the distance to the surface of a ball, in the unit of entries."""
    metric, params = named_metric(estimator.effective_metric_, estimator.effective_metric_params_)
    surrogate = read_metric(step, x, bounds[0], metric, params)
    centre = surrogate.to_distance(surrogate.node)
    return surrogate.of_distances(Clip.of(Affine.of(centre, sub=nodes["radius"]), 0.0, np.inf))
