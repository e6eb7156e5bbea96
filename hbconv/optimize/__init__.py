"""Optimize: rules rewrite the container DAG to a fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hbconv.containers import Graph, Node, Output, at_step, topological
from hbconv.optimize.rule import Exactness, GraphRule, NodeRule
from hbconv.optimize.rules.fold_affine_into_affine import fold_affine_into_affine
from hbconv.optimize.rules.fold_affine_into_linear import fold_affine_into_linear
from hbconv.optimize.rules.fold_linear_into_linear import fold_linear_into_linear
from hbconv.optimize.rules.fold_one_hot_into_linear import fold_one_hot_into_linear
from hbconv.optimize.rules.inject_selection import inject_selection
from hbconv.optimize.rules.push_selection import push_selection
from hbconv.optimize.rules.remove_identity import remove_identity

__all__ = ["REWRITES", "RULES", "applied_rules", "find_decisive", "optimize", "optimize_exactly"]

RULES: tuple[NodeRule, ...] = (
    NodeRule(remove_identity, Exactness.BITS, "no row changes"),
    NodeRule(push_selection, Exactness.BITS, "each column is computed alone", duplicates=True),
    NodeRule(inject_selection, Exactness.BITS, "the columns left out are multiplied by zero"),
    NodeRule(fold_affine_into_affine, Exactness.BITS, "the steps and their order stay"),
    NodeRule(fold_affine_into_linear, Exactness.TOLERANCE, "products are associative"),
    NodeRule(fold_linear_into_linear, Exactness.TOLERANCE, "products are associative"),
    NodeRule(fold_one_hot_into_linear, Exactness.TOLERANCE, "sums are associative"),
)
"""The rules that are always worth while, in the order they are tried at each node.

Columns are dropped before arithmetic is folded.
"""

REWRITES: tuple[GraphRule, ...] = ()
"""The rules chosen by cost, in the order they are tried."""

_ROUNDS = 100


def optimize(graph: Graph, rules: Sequence[NodeRule] = RULES) -> Graph:
    """Apply the rules bottom-up, again and again, until none applies.

    The checks of the input stay as they are. Rules depend on the dtypes of the columns, so a graph
    over columns of other dtypes is optimized anew. Equal sub-expressions become one on the way,
    because nodes are compared by content:

    >>> from hbconv.containers import Columns, Concat, Map, Output, Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> twice = Graph(x.schema, {"transform": Output(Concat((Map(x, "exp"), Map(x, "exp"))))})
    >>> [node.name for node in optimize(twice).nodes()]
    ['columns', 'map', 'concat']
    """
    for _ in range(_ROUNDS):
        after = _round(graph, rules)
        if after.output_roots == graph.output_roots:
            return after
        graph = after
    return graph


def optimize_exactly(graph: Graph, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Optimize nodes over a graph's input by the bit-exact rules alone.

    They then share equal sub-expressions with the graph's outputs.
    """
    outputs = {str(position): Output(node) for position, node in enumerate(nodes)}
    exact = [rule for rule in RULES if rule.exactness is Exactness.BITS]
    return optimize(replace(graph, outputs=outputs), exact).output_roots


def _round(graph: Graph, rules: Sequence[NodeRule]) -> Graph:
    """Try every rule once at every node; before a decision, only the bit-exact ones."""
    decisive = find_decisive(graph)
    mapping: dict[Node, Node] = {}
    for original in graph.nodes():
        node = original.with_inputs(mapping)
        for rule in rules:
            if original in decisive and rule.exactness is not Exactness.BITS:
                continue
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


def applied_rules(graph: Graph) -> list[str]:
    """List the rules that ``optimize`` applies, in order, each with its step in the source model.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Columns, Output, Schema, Select
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> selected = Select(x, Array([1]), step="SelectKBest")
    >>> applied_rules(Graph(x.schema, {"transform": Output(selected)}))
    ['push_selection at SelectKBest']
    """
    applied: list[str] = []

    def recorded(rule: NodeRule) -> NodeRule:
        def record(node: Node) -> Node | None:
            after = rule.function(node)
            if after is not None:
                applied.append(f"{rule.name} at {node.step}")
            return after

        return replace(rule, function=record)

    optimize(graph, [recorded(rule) for rule in RULES])
    return applied
