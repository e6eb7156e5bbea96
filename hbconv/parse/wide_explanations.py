"""Leave out methods on demand whose answers are too wide: interactions grow with the square."""

from __future__ import annotations

from dataclasses import replace

from hbconv.containers import Graph

__all__ = ["MOST_NUMBERS", "without_wide"]

MOST_NUMBERS = 1 << 24
"""Numbers of one row that a method on demand may return: 128 MB, 4,095 columns of interactions."""


def without_wide(graph: Graph) -> Graph:
    """Return the graph without the methods that are too wide, which it refuses with the reason.

    Examples
    --------
    >>> from hbconv.containers import Columns, Output, Schema
    >>> schema = Schema.matrix(3)
    >>> graph = Graph(schema, {"contributions": Output(Columns.of(schema), on_demand=True)})
    >>> without_wide(graph) is graph
    True
    """
    too_wide = {
        method: output.node.type.width
        for method, output in graph.outputs.items()
        if output.on_demand and output.node.type.width > MOST_NUMBERS
    }
    if not too_wide:
        return graph
    kept = {method: output for method, output in graph.outputs.items() if method not in too_wide}
    reasons = {
        method: f"This Model of {graph.traits.estimator} has no {method}: a row of them has "
        f"{width:,} numbers, and hbconv gives up to {MOST_NUMBERS:,}. Fit fewer columns, or ask "
        f"{' or '.join(kept)}."
        for method, width in too_wide.items()
    }
    return replace(graph, outputs=kept, refused={**graph.refused, **reasons})
