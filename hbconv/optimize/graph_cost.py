"""The predicted cost of a whole graph: what lowering writes, each shared node once."""

from __future__ import annotations

from hbconv.containers import Graph
from hbconv.lower import lower
from hbconv.optimize.program_cost import program_seconds
from hbconv.target import Target

__all__ = ["graph_seconds"]


def graph_seconds(graph: Graph, target: Target) -> float:
    """Predict the seconds of all outputs, computed together, for ``target.rows`` rows.

    Parameters
    ----------
    graph : Graph
        Its forests need no strategy yet: each costs what its cheapest strategy does.
    target : Target
    """
    return program_seconds(lower(graph, target.precision).program, target)
