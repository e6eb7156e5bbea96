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
    HeapSearch,
    Multiply,
    NearestSearch,
    Node,
    PartitionSearch,
    ProductDistances,
    SharedProducts,
    SparseProducts,
    TreeSearch,
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

_FORMULAS = {
    "euclidean": ProductDistances,
    "sqeuclidean": ProductDistances,
    "nan_euclidean": SharedProducts,
}
"""Metrics that scikit-learn computes by products of matrices."""


@dataclass(frozen=True)
class TieRule:
    """The search, and what it reads of the rows.

    Parameters
    ----------
    search : NearestSearch
    rows : Node, optional
        The rows, by whose dtype it goes.
    bounds : tuple of Node
    formula : ProductDistances, optional
        How the source computes distances, if it rounds otherwise.
    """

    search: NearestSearch
    rows: Node | None = None
    bounds: tuple[Node, ...] = ()
    formula: ProductDistances | None = None

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
    formula = _formula(metric, fitted, sparse=sparse)
    both_sparse = sparse and hasattr(fitted, "tocsr")
    by_heap = metric in _BY_HEAP or not isinstance(metric, str)
    by_heap = by_heap and not (formula and both_sparse)
    if by_heap and fitted.dtype in (np.float32, np.float64):
        search: NearestSearch = HeapSearch(fitted.dtype.name, _threads())
        return TieRule(search, x, formula=formula)
    return TieRule(PartitionSearch(), x, formula=formula)


def _formula(metric: Any, fitted: Any, *, sparse: bool) -> ProductDistances | None:
    """Return how the source rounds distances that it computes by products of matrices."""
    if not isinstance(metric, str) or metric not in _FORMULAS:
        return None
    points, points_are_sparse = Array(dense(fitted)), hasattr(fitted, "tocsr")
    if sparse or points_are_sparse:
        return SparseProducts(points, None, sparse, points_are_sparse)
    return _FORMULAS[metric](points)


def warn_of_graph(step: Step, graph: Node) -> None:
    """Warn where a graph of all within a radius holds equally near rows, of which some are taken.

    The source takes the first of those that its search for the radius met.
    """
    if reads_tied_points(graph):
        _warn(step, "In a graph of neighbours within a radius, those fitted on first are taken.")


def warn_of_scaling(step: Step, estimator: Any) -> None:
    """Warn of metrics whose weights hbconv multiplies into the columns, which rounds otherwise."""
    metric, params = named_metric(estimator.effective_metric_, estimator.effective_metric_params_)
    scaled = metric in ("seuclidean", "mahalanobis") or params.get("w") is not None
    if scaled and are_often_tied(dense(estimator._fit_X).astype(np.float64)):
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
    reach, prunes = made(step, estimator, Cast(x, "float64"), nodes, bounds)
    return TieRule(TreeSearch(Array.of(order, np.int64), Array(starts), prunes), None, (reach,))


def _boxes(
    step: Step,  # noqa: ARG001
    estimator: Any,
    x: Node,
    nodes: npt.NDArray[Any],  # noqa: ARG001
    bounds: npt.NDArray[Any],
) -> tuple[Node, bool]:
    """Bound by the distance to the faces of a box, in the unit of entries."""
    metric, params = named_metric(estimator.effective_metric_, estimator.effective_metric_params_)
    p = _POWERS.get(metric, float(params.get("p", 2)))
    return BoxDistances(x, Array(bounds[0]), Array(bounds[1]), p), True


def _balls(
    step: Step,
    estimator: Any,
    x: Node,
    nodes: npt.NDArray[Any],
    bounds: npt.NDArray[Any],
) -> tuple[Node, bool]:
    """Bound by the distance to the surface of a ball, squared where entries are squares."""
    metric, params = named_metric(estimator.effective_metric_, estimator.effective_metric_params_)
    surrogate = read_metric(step, x, bounds[0], metric, params)
    centre = surrogate.to_distance(surrogate.node)
    reach = Clip.of(Affine.of(centre, sub=nodes["radius"]), 0.0, np.inf)
    if centre == surrogate.node:
        return reach, True
    is_square = _POWERS.get(metric, float(params.get("p", 0) or 0)) == 2
    return (Multiply((reach, reach)), True) if is_square else (reach, False)
