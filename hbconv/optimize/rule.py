"""Rules as records, and how they are applied.

A ``NodeRule`` is always worth while, and ``simplify`` applies it until it changes nothing. A
``GraphRule`` proposes derivations, and the cost chooses among them (``search.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from hbconv.containers import Graph, Node, at_step, topological

__all__ = [
    "Declined",
    "Derivation",
    "Exactness",
    "GraphRule",
    "Key",
    "NodeRule",
    "Rule",
    "apply_together",
    "find_decisive",
    "simplify",
]

Key = tuple[str, frozenset[str]]
"""What a derivation keeps when the graph is derived again: its rule, and the nodes it replaces."""


class Exactness(IntEnum):
    """How near the rewritten graph's values are to those before, the nearest first.

    1. ``BITS``: equal to the last bit, so the rule may run anywhere.
    2. ``TOLERANCE``: rounded otherwise, within the tolerance of the dtype. It never runs before a
       node that a last bit sends elsewhere (``Node.decides``).
    """

    BITS = 1
    TOLERANCE = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Derivation:
    """One rewrite of a graph: all its nodes are replaced together, or none.

    Parameters
    ----------
    rule : str
        Name of the rule.
    replacements : mapping of Node to Node
        What replaces each node, over the nodes of the graph before. What replaces one may read
        another of them.
    proof : str
        Why the values stay, in a few words: ``"240 codes enumerated"``.
    required : bool
        It is made whatever it costs, because the answer is the source model's only with it.
    """

    rule: str
    replacements: Mapping[Node, Node]
    proof: str
    required: bool = False

    @property
    def key(self) -> Key:
        """What stays the same when the graph is derived again: the rule and the nodes replaced."""
        return self.rule, frozenset(node.key for node in self.replacements)

    def apply(self, graph: Graph) -> Graph:
        """Replace the nodes in the outputs of the graph; the checks stay."""
        return apply_together(graph, [self])

    @property
    def step(self) -> str:
        """Step of the source model that the first replaced node comes from."""
        return next(iter(self.replacements)).step


def apply_together(graph: Graph, derivations: Sequence[Derivation]) -> Graph:
    """Apply derivations of one graph, each of other nodes, at once.

    What one of them reads may be what another replaces.
    """
    replaced = {b: a for d in derivations for b, a in d.replacements.items()}
    mapping: dict[Node, Node] = {}
    for node in graph.nodes():
        mapping[node] = (
            _rebuilt(replaced[node], mapping) if node in replaced else node.with_inputs(mapping)
        )
    outputs = {name: o.of(mapping[o.node]) for name, o in graph.outputs.items()}
    return replace(graph, outputs=outputs)


def _rebuilt(node: Node, mapping: Mapping[Node, Node]) -> Node:
    """Replace what the mapping holds, at any depth."""
    local: dict[Node, Node] = {}
    for n in topological((node,)):
        # A replacement may read what another derivation replaces, at any depth.
        local[n] = mapping[n] if n in mapping else n.with_inputs(local)
    return local[node]


@dataclass(frozen=True)
class Declined:
    """A rewrite that a rule considered and did not propose, with the reason."""

    rule: str
    node: Node
    reason: str


@dataclass(frozen=True)
class Rule:
    """What all rules have.

    Parameters
    ----------
    function : callable
    exactness : Exactness
        How near the values stay.
    proof : str
        Why the values stay, for every place where the rule applies.
    """

    function: Callable[..., Any]
    exactness: Exactness
    proof: str

    @property
    def name(self) -> str:
        """Name of its function, of its file, and of its golden file."""
        return str(self.function.__name__)


@dataclass(frozen=True)
class NodeRule(Rule):
    """A rule that is always worth while: it is applied at each node, to a fixed point.

    Its function takes a node, and returns what replaces it, or None where it does not apply.
    """

    function: Callable[[Node], Node | None]


@dataclass(frozen=True)
class GraphRule(Rule):
    """A rule whose rewrites are chosen by the predicted cost of the whole graph.

    Its function takes a graph, and yields the rewrites that it may make, and those that it
    declines. Sites that pay off only together are one derivation.
    """

    function: Callable[[Graph], Iterator[Derivation | Declined]]


# Longer chains are optimized as far as the rounds go: an error there had blamed the rules.
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
        # Nodes are compared by digests, so a whole graph is compared by its outputs.
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
        # A rule that rounds otherwise could send a row to another leaf or neighbour from here.
        for rule in exact if original in decisive else rules:
            # What a rule makes belongs to the step of what
            # it replaces, in ``explain`` and in costs.
            with at_step(node.step):
                node = rule.function(node) or node
        mapping[original] = node
    return replace(
        graph, outputs={name: o.of(mapping[o.node]) for name, o in graph.outputs.items()}
    )


def find_decisive(graph: Graph) -> set[Node]:
    """Find the nodes whose last bit can send a row to another leaf, bin, category or neighbour."""
    decided = tuple(x for node in graph.nodes() if node.decides for x in node.inputs)
    return set(topological(decided))
