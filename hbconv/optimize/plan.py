"""The plan: which strategy for each forest, what it is predicted to cost, and why the others were not taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hbconv.backends.base import Backend
from hbconv.containers import Graph, Node
from hbconv.containers.trees import TreeEnsemble, TreeLeaves
from hbconv.forest import Forest
from hbconv.target import Target

__all__ = ["Choice", "Plan", "make_plan"]


@dataclass(frozen=True)
class Choice:
    """What was decided for one forest.

    ``costs`` holds predicted seconds for ``target.rows`` rows of each strategy that may be used, ``refusals`` the reason
    of each that may not.
    """

    source: str
    strategy: str
    costs: Mapping[str, float] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The choices of a graph, by forest."""

    choices: tuple[tuple[Forest, Choice], ...] = ()

    def apply(self, graph: Graph) -> Graph:
        """Write the chosen strategies into the graph's tree nodes."""
        chosen = {id(forest): choice.strategy for forest, choice in self.choices}

        def visit(node: Node) -> Node:
            return node.planned(chosen[id(node.forest)]) if isinstance(node, TreeEnsemble | TreeLeaves) else node

        return graph.rewritten(visit)


def make_plan(graph: Graph, target: Target, backend: Backend) -> Plan:
    """Ask every strategy what it would cost, and take the cheapest, or the one the target forces."""
    raise NotImplementedError
