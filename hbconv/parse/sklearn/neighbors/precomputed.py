"""Precomputed distances: a full matrix, or a graph of neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Compare, ConstantRows, Held, Node, Scatter, Select
from hbconv.parse.common.distance_metrics import Surrogate
from hbconv.parse.common.promotion import promoted
from hbconv.parse.step import Step

_MEND = "Give the distances to all rows as an array, or convert the pipeline that makes the graph."

__all__ = ["given_distances", "require_neighbors"]

_GRAPHS = (
    "A graph has entries for neighbours alone. hbconv reads it straight from "
    "KNeighborsTransformer or RadiusNeighborsTransformer."
)


def given_distances(step: Step, estimator: Any, x: Node) -> Surrogate:
    """Return the distances that an estimator with ``metric="precomputed"`` is given.

    They are infinite to rows that a graph does not hold.
    """
    if step.x_sparse:
        return Surrogate(_graph(step, x), of_distance=_finite)
    step.require_dense("takes the entries of a sparse matrix alone for neighbours", _MEND)
    distances = promoted(x, np.zeros(0, estimator._fit_X.dtype))
    step.check(
        Compare.of(distances, "lt", 0.0),
        f"Negative values in the distances given to {step.name} (step {step.where!r}).",
    )
    return Surrogate(distances)


def require_neighbors(step: Step, graph: Node, found: Node) -> None:
    """Refuse rows for which a graph holds fewer neighbours than are needed.

    The distance to the last of them is then infinite.
    """
    if isinstance(graph, Held) and isinstance(graph.values, ConstantRows):
        raise step.refuse(
            "metric",
            "precomputed",
            "All neighbours in its graph are equally far. Make it with mode='distance'.",
        )
    last = Select(found, Array(np.array([found.type.width - 1], dtype=np.int32)))
    message = (
        f"{found.type.width} neighbours are required, but the graph given to {step.name} (step "
        f"{step.where!r}) holds fewer of some rows."
    )
    step.check(Compare.of(last, "eq", np.inf), message)


def _graph(step: Step, x: Node) -> Node:
    if not isinstance(x, Scatter | Held):
        raise step.refuse("metric", "precomputed", _GRAPHS)
    return replace(x, absent=np.inf)


def _finite(radius: float) -> float:
    """Keep a radius below the distance to rows that a graph does not hold."""
    return min(radius, np.finfo(np.float64).max)
