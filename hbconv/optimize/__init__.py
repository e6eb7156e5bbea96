"""Optimize: rules rewrite the container DAG to a fixed point, then the plan picks a strategy for each forest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hbconv.containers import Graph, Node

__all__ = ["RULES", "Rule", "apply_rules"]

Rule = Callable[[Node], Node | None]
"""A rule takes a node and returns what replaces it, or None where it does not apply."""

RULES: tuple[Rule, ...] = ()
"""The rules in the order they are tried at each node."""

_ROUNDS = 50


def apply_rules(graph: Graph, rules: Sequence[Rule] = RULES) -> Graph:
    """Apply the rules bottom-up, again and again, until none applies."""

    def visit(node: Node) -> Node:
        for rule in rules:
            node = rule(node) or node
        return node

    for _ in range(_ROUNDS):
        after = graph.rewritten(visit)
        if after.output_roots == graph.output_roots:
            break
        graph = after
    return graph
