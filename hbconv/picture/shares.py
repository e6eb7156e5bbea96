"""The share of each node in the predicted time of a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hbconv.containers import Graph, Node
from hbconv.errors import BackendError
from hbconv.lower import lower
from hbconv.optimize.program_cost import source_seconds
from hbconv.target import Target

__all__ = ["predicted_shares"]


def predicted_shares(graph: Graph, nodes: Sequence[Node], target: Target) -> tuple[float, ...]:
    """Return the share of each node in the predicted time of all outputs together.

    The graph is lowered with the position of each node in place of its step, which operators carry
    on. Zeros stand for a graph that has no predicted time, such as one that a backend refuses.
    """
    number = {node: str(i) for i, node in enumerate(nodes)}
    tagged = graph.rewritten(lambda node: replace(node, step=number.get(node, "")))
    try:
        seconds = source_seconds(lower(tagged, target.precision).program, target)
    except BackendError:
        return (0.0,) * len(nodes)
    total = sum(seconds.values())
    if not 0 < total < math.inf:
        return (0.0,) * len(nodes)
    return tuple(seconds.get(str(i), 0.0) / total for i in range(len(nodes)))
