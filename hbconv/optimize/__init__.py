"""Optimize: rules rewrite the container DAG to a fixed point."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hbconv.containers import Graph, Node, source
from hbconv.optimize.rules.fold_affine_into_affine import fold_affine_into_affine
from hbconv.optimize.rules.fold_affine_into_linear import fold_affine_into_linear
from hbconv.optimize.rules.fold_linear_into_linear import fold_linear_into_linear
from hbconv.optimize.rules.fold_one_hot_into_linear import fold_one_hot_into_linear
from hbconv.optimize.rules.inject_selection import inject_selection
from hbconv.optimize.rules.push_selection import push_selection
from hbconv.optimize.rules.remove_identity import remove_identity

__all__ = ["RULES", "Rule", "applied_rules", "optimize"]

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
"""The rules, in the order they are tried at each node: columns are dropped before arithmetic is folded, and folding
comes before injection so that the folded weights say which columns matter."""

_ROUNDS = 100


def optimize(graph: Graph, rules: Sequence[Rule] = RULES) -> Graph:
    """Apply the rules bottom-up, again and again, until none applies. The checks of the input stay as they were.

    Rules go by the types of the columns at hand: a graph over columns of other dtypes is optimized anew.

    Equal sub-expressions become one on the way, because nodes are compared by content:

    >>> from hbconv.containers import Output, Schema
    >>> from hbconv.containers.columns import Columns
    >>> from hbconv.containers.elementwise import Map
    >>> from hbconv.containers.wiring import Concat
    >>> x = Columns.of(Schema.matrix(2))
    >>> twice = Graph(x.schema, {"transform": Output(Concat((Map(x, "exp"), Map(x, "exp"))))})
    >>> [node.name for node in optimize(twice).nodes()]
    ['columns', 'map', 'concat']
    """

    def visit(node: Node) -> Node:
        for rule in rules:
            with source(node.source):  # what a rule makes belongs to the step of what it replaces
                node = rule(node) or node
        return node

    for _ in range(_ROUNDS):
        after = graph.rewritten(visit)
        if after.output_roots == graph.output_roots:
            return after
        graph = after
    return graph


def applied_rules(graph: Graph) -> list[str]:
    """Say which rules ``optimize`` applies, in order, and at which step of the source.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Output, Schema
    >>> from hbconv.containers.columns import Columns
    >>> from hbconv.containers.wiring import Select
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> applied_rules(Graph(x.schema, {"transform": Output(Select(x, Array([1]), source="SelectKBest"))}))
    ['push_selection at SelectKBest']
    """
    applied: list[str] = []

    def recorded(rule: Rule) -> Rule:
        def record(node: Node) -> Node | None:
            after = rule(node)
            if after is not None:
                applied.append(f"{rule.__name__} at {node.source}")
            return after

        return record

    optimize(graph, [recorded(rule) for rule in RULES])
    return applied
