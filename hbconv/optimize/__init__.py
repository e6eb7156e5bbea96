"""Optimize: rules rewrite the container DAG to a fixed point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

from hbconv.containers import (
    Bins,
    FindCode,
    Graph,
    Node,
    Output,
    TreeEnsemble,
    TreeLeaves,
    at_step,
    topological,
)
from hbconv.optimize.rules.fold_affine_into_affine import fold_affine_into_affine
from hbconv.optimize.rules.fold_affine_into_linear import fold_affine_into_linear
from hbconv.optimize.rules.fold_linear_into_linear import fold_linear_into_linear
from hbconv.optimize.rules.fold_one_hot_into_linear import fold_one_hot_into_linear
from hbconv.optimize.rules.inject_selection import inject_selection
from hbconv.optimize.rules.push_selection import push_selection
from hbconv.optimize.rules.remove_identity import remove_identity

__all__ = ["RULES", "Rule", "applied_rules", "optimize", "optimize_exactly"]

Rule = Callable[[Node], Node | None]
"""A rule takes a node and returns what replaces it, or None where it does not apply."""

RULES: tuple[Rule, ...] = (
    remove_identity,
    push_selection,
    fold_affine_into_affine,
    fold_affine_into_linear,
    fold_linear_into_linear,
    fold_one_hot_into_linear,
    inject_selection,
)
"""The rules, in the order they are tried at each node.

Columns are dropped before arithmetic is folded. Folding comes before injection, since the folded
weights show which columns matter.
"""

ROUNDING = frozenset(
    {"fold_affine_into_linear", "fold_linear_into_linear", "fold_one_hot_into_linear"}
)
"""Rules that round differently from the source model, within the tolerance of its dtype."""

_ROUNDS = 100


def optimize(graph: Graph, rules: Sequence[Rule] = RULES) -> Graph:
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
    exact = [rule for rule in RULES if rule.__name__ not in ROUNDING]
    return optimize(replace(graph, outputs=outputs), exact).output_roots


def _round(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """Try every rule once at every node; before a threshold, only the bit-exact ones."""
    decisive = _before_thresholds(graph)
    mapping: dict[Node, Node] = {}
    for original in graph.nodes():
        node = original.with_inputs(mapping)
        for rule in rules:
            if original in decisive and rule.__name__ in ROUNDING:
                continue
            with at_step(node.step):  # what a rule makes belongs to the step of what it replaces
                node = rule(node) or node
        mapping[original] = node
    return replace(
        graph, outputs={name: o.of(mapping[o.node]) for name, o in graph.outputs.items()}
    )


def _before_thresholds(graph: Graph) -> set[Node]:
    """Find the nodes whose last bit can send a row to another leaf, bin or category."""
    thresholds = tuple(
        x
        for n in graph.nodes()
        if isinstance(n, TreeEnsemble | TreeLeaves | Bins | FindCode)
        for x in n.inputs
    )
    return set(topological(thresholds))


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

    def recorded(rule: Rule) -> Rule:
        @wraps(rule)
        def record(node: Node) -> Node | None:
            after = rule(node)
            if after is not None:
                applied.append(f"{rule.__name__} at {node.step}")
            return after

        return record

    optimize(graph, [recorded(rule) for rule in RULES])
    return applied
