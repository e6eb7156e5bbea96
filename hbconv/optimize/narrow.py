"""Narrow a graph to some of its methods: what only the others read is not computed."""

from __future__ import annotations

from hbconv.containers import Graph
from hbconv.optimize import RULES
from hbconv.optimize.fixed_point import simplify
from hbconv.optimize.rule import Derivation, Exactness, apply_together
from hbconv.optimize.rules.narrow_forests import narrow_forests, narrow_together
from hbconv.target import Target

__all__ = ["narrow_to"]


def narrow_to(graph: Graph, methods: tuple[str, ...], target: Target) -> Graph:
    """Keep the named outputs, and compute only the columns that they read.

    Rules merged nodes for all methods together. The strategies chosen for forests stay.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Columns, Linear, Output, Schema, Select, Together
    >>> x = Columns.of(Schema.table(["a"]))
    >>> both = Together(Linear.of(x, [[1.0, 2.0]]))
    >>> outputs = {m: Output(Select(both, Array([i]))) for i, m in enumerate(("mean", "std"))}
    >>> narrow_to(Graph(x.schema, outputs), ("std",), Target()).output_roots[0].detail
    '[[2.]] + [0.]'
    """
    rules = [r for r in RULES if r.exactness is Exactness.BITS and r.name not in target.without]
    allowed = [r for r in (narrow_forests, narrow_together) if r.__name__ not in target.without]
    narrow = graph.only(*methods)
    while len(methods) < len(graph.outputs):
        found = (d for narrowing in allowed for d in narrowing(narrow))
        derivations = [d for d in found if isinstance(d, Derivation)]
        if not derivations:
            break
        narrow = simplify(apply_together(narrow, derivations), rules)
    return narrow
