"""Apply rules that are always worth while, at each node, until none applies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hbconv.containers import Graph, Node, at_step, topological
from hbconv.optimize.rule import Exactness, NodeRule

__all__ = ["find_decisive", "simplify"]

MAX_ROUNDS = 100
"""Rounds over a graph. A selection moves past one node a round, so a longer chain keeps it."""


def simplify(graph: Graph, rules: Sequence[NodeRule]) -> Graph:
    """Apply the rules bottom-up, again and again, until none applies or ``MAX_ROUNDS`` are over.

    The checks of the input stay as they are. Equal sub-expressions become one on the way, because
    nodes are compared by content:

    >>> from hbconv.containers import Columns, Concat, Map, Output, Schema, show
    >>> x = Columns.of(Schema.matrix(2))
    >>> twice = Graph(x.schema, {"transform": Output(Concat((Map(x, "exp"), Map(x, "exp"))))})
    >>> [node.name for node in simplify(twice, []).nodes()]
    ['columns', 'map', 'concat']
    """
    for _ in range(MAX_ROUNDS):
        after = _round(graph, rules)
        if after.output_roots == graph.output_roots:
            return after
        graph = after
    return graph


def _round(graph: Graph, rules: Sequence[NodeRule]) -> Graph:
    """Try every rule once at every node; before a decision, only the bit-exact ones."""
    decisive = find_decisive(graph)
    exact = [rule for rule in rules if rule.exactness is Exactness.BITS]
    mapping: dict[Node, Node] = {}
    for original in graph.nodes():
        node = original.with_inputs(mapping)
        for rule in exact if original in decisive else rules:
            with at_step(node.step):  # what a rule makes belongs to the step of what it replaces
                node = rule.function(node) or node
        mapping[original] = node
    return replace(
        graph, outputs={name: o.of(mapping[o.node]) for name, o in graph.outputs.items()}
    )


def find_decisive(graph: Graph) -> set[Node]:
    """Find the nodes whose last bit can send a row to another leaf, bin, category or neighbour."""
    decided = tuple(x for node in graph.nodes() if node.decides for x in node.inputs)
    return set(topological(decided))
