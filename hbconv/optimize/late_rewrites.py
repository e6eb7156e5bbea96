"""Rewrites after the search: for some methods alone, and for conditions beside the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hbconv.containers import FindCode, Graph, Node, Output, topological
from hbconv.optimize import RULES
from hbconv.optimize.rule import Declined, Derivation, Exactness, apply_together, simplify
from hbconv.optimize.rules.merge_codes import merge_codes
from hbconv.optimize.rules.merge_elementwise import merge_elementwise
from hbconv.optimize.rules.narrow_forests import narrow_forests, narrow_together
from hbconv.target import Target

__all__ = ["join_conditions", "narrow_to", "share_codes"]


def share_codes(graph: Graph, conditions: Sequence[Node]) -> tuple[Graph, tuple[Node, ...]]:
    """Find the codes that conditions and outputs read at once, each column once.

    Rules rewrite outputs alone, so a condition finds the codes of its column again until here.

    Parameters
    ----------
    graph : Graph
    conditions : sequence of Node
        Over the same input, simplified by the bit-exact rules.

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Columns, Compare, Concat, Schema
    >>> schema = Schema.table(["a", "b"])
    >>> codes = [
    ...     FindCode(Columns(schema, Array.of([i], np.int32)), (Array([0.0, 1.0]),))
    ...     for i in range(2)
    ... ]
    >>> graph = Graph(schema, {"transform": Output(Concat(tuple(codes)))})
    >>> shared, (unseen,) = share_codes(graph, [Compare.of(codes[1], "eq", -1)])
    >>> sum(isinstance(node, FindCode) for node in topological((*shared.output_roots, unseen)))
    1
    """
    if not _find_codes(conditions):
        return graph, tuple(conditions)
    # Conditions become outputs for a moment, because rules rewrite outputs alone.
    names = [f"condition {i}" for i in range(len(conditions))]
    named = dict(zip(names, map(Output, conditions), strict=True))
    both = _apply(replace(graph, outputs={**graph.outputs, **named}), merge_codes)
    outputs = {name: both.outputs[name] for name in graph.outputs}
    joined = join_conditions(graph, {name: both.outputs[name].node for name in names})
    return replace(graph, outputs=outputs), tuple(joined.values())


def join_conditions(graph: Graph, conditions: Mapping[str, Node]) -> dict[str, Node]:
    """Find the codes of all conditions at once, and compare them at once.

    Conditions that read no codes stay as they are.
    """
    if not _find_codes(conditions.values()):
        return dict(conditions)
    alone = replace(graph, outputs={name: Output(node) for name, node in conditions.items()})
    # Codes first: equal comparisons of one node can be merged once the codes are one node.
    joined = _apply(_apply(alone, merge_codes), merge_elementwise)
    return {name: output.node for name, output in joined.outputs.items()}


def _find_codes(nodes: Iterable[Node]) -> bool:
    return any(isinstance(node, FindCode) for node in topological(tuple(nodes)))


def _apply(graph: Graph, rule: Callable[[Graph], Iterator[Derivation | Declined]]) -> Graph:
    """Make all rewrites of a bit-exact rule."""
    exact = [r for r in RULES if r.exactness is Exactness.BITS]
    simple = simplify(graph, exact)
    return simplify(
        apply_together(simple, [d for d in rule(simple) if isinstance(d, Derivation)]), exact
    )


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
    # Rules that keep all bits alone: a method compiled apart must answer as beside the others.
    rules = [r for r in RULES if r.exactness is Exactness.BITS and r.name not in target.without]
    allowed = [r for r in (narrow_forests, narrow_together) if r.__name__ not in target.without]
    narrow = graph.only(*methods)
    # A narrower forest may leave columns unread below it, so this repeats until nothing changes.
    while len(methods) < len(graph.outputs):
        proposals = (d for narrowing in allowed for d in narrowing(narrow))
        derivations = [d for d in proposals if isinstance(d, Derivation)]
        if not derivations:
            break
        narrow = simplify(apply_together(narrow, derivations), rules)
    return narrow
