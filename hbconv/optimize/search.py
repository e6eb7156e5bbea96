"""Choose among rewrites by the predicted cost of the whole graph.

``Search.derive`` applies all derivations but those refused, rule after rule, so the set of refused
ones says all there is to say of a graph. The search starts from the cheaper of two sets, none and
all, and toggles one group at a time while the cost falls:

1. all derivations of one rule;
2. one derivation.

A derivation replaces a group of nodes, so fifty heads of one projection are toggled at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from hbconv.containers import Graph, Node
from hbconv.optimize.rule import (
    Declined,
    Derivation,
    Exactness,
    GraphRule,
    Key,
    NodeRule,
    apply_together,
    find_decisive,
    simplify,
)

__all__ = ["Decision", "Optimized", "Refused", "Search"]

Cost = Callable[[Graph], float]
"""Predicted seconds of a graph."""

# A bagging of 100 pipelines has 709 nodes and takes a second for each derivation: it gets 7.
MAX_TRIALS = 40
"""Graphs that are derived and priced for one model."""
MAX_NODES_TRIED = 5_000
"""Nodes of all these graphs: a node takes about a millisecond to derive and to price."""
MAX_SINGLE = 12
"""Derivations that are tried one by one, where a rule makes more only as a whole."""
# merge_elementwise, predicted at 520 ns against 519,
# made five calibrated forests 1.15 times slower.
LEAST_GAIN = 0.02
"""Share of the cost that a derivation must save to be taken up again, once it was left out."""
MAX_PASSES = 2
"""Times that the rules are tried after each other: one rule's result may be another's input."""


@dataclass(frozen=True)
class Refused:
    """Which derivations are refused.

    Parameters
    ----------
    keys : frozenset of Key
        Single derivations.
    rules : frozenset of str
        All derivations of these rules.
    """

    keys: frozenset[Key] = frozenset()
    rules: frozenset[str] = frozenset()

    def refuses(self, derivation: Derivation) -> bool:
        """Whether the derivation is left out; a required one never is."""
        refused = derivation.key in self.keys or derivation.rule in self.rules
        return refused and not derivation.required

    def exceeds(self, other: Refused) -> bool:
        """Whether the other refuses less."""
        return len(self.rules) + len(self.keys) > len(other.rules) + len(other.keys)


@dataclass(frozen=True)
class Decision:
    """A derivation that was applied or refused.

    Parameters
    ----------
    derivation : Derivation
    applied : bool
    otherwise : float
        Predicted seconds of the whole graph had it been decided otherwise; None: not tried.
    """

    derivation: Derivation
    applied: bool
    otherwise: float | None = None


@dataclass(frozen=True)
class Optimized:
    """A graph as the rules leave it, and how it came about.

    Parameters
    ----------
    graph : Graph
    refused : Refused
    seconds : float
        Predicted for the graph.
    decisions : tuple of Decision
        The derivations that applied and those refused, in the order they were proposed.
    declined : tuple of Declined
        Rewrites that a rule considered and did not propose.
    """

    graph: Graph
    refused: Refused
    seconds: float
    decisions: tuple[Decision, ...] = ()
    declined: tuple[Declined, ...] = ()


@dataclass
class Search:
    """The search over the rewrites of one graph.

    Parameters
    ----------
    graph : Graph
        Without rewrites.
    rules : sequence of NodeRule
        Applied to a fixed point after each rewrite.
    rewrites : sequence of GraphRule
        Tried in this order.
    cost : callable
        Predicts the seconds of a graph.
    """

    graph: Graph
    rules: Sequence[NodeRule]
    rewrites: Sequence[GraphRule]
    cost: Cost
    _proposals: dict[tuple[str, tuple[Node, ...]], list[Derivation | Declined]] = field(
        default_factory=dict
    )
    _derived: dict[Refused, Optimized] = field(default_factory=dict)
    _simple: dict[tuple[Node, ...], Graph] = field(default_factory=dict)

    def best(self) -> Optimized:
        """Return the graph of least predicted cost that was found."""
        everything = self.derive(Refused())
        if not everything.decisions:
            return everything
        best = min(everything, self.derive(self._nothing), key=lambda o: o.seconds)
        for toggles in (self._toggle_rules, self._toggle_keys):
            best = self._descend(best, toggles)
        return replace(best, decisions=tuple(map(partial(self._compare, best), best.decisions)))

    @property
    def _nothing(self) -> Refused:
        return Refused(rules=frozenset(rule.name for rule in self.rewrites))

    @cached_property
    def _most_trials(self) -> int:
        return min(MAX_TRIALS, MAX_NODES_TRIED // max(1, len(self.graph.nodes())))

    def _descend(
        self, best: Optimized, toggles: Callable[[Optimized], Iterator[Refused]]
    ) -> Optimized:
        """Take the first toggle that saves time, again and again.

        Leaving out must save anything; taking up again more, for predictions are no better.
        """
        for refused in toggles(best):
            if len(self._derived) >= self._most_trials:
                return best
            trial = self.derive(refused)
            least = LEAST_GAIN if best.refused.exceeds(refused) else 0.0
            if trial.seconds < best.seconds * (1 - least):
                return self._descend(trial, toggles)
        return best

    def _toggle_rules(self, best: Optimized) -> Iterator[Refused]:
        """Toggle each rule that proposed something."""
        for name in dict.fromkeys(d.derivation.rule for d in best.decisions):
            yield replace(best.refused, rules=best.refused.rules ^ {name})

    def _toggle_keys(self, best: Optimized) -> Iterator[Refused]:
        """Toggle each derivation, of rules that are not refused as a whole."""
        # A required derivation is one of correctness: its cost does not count.
        keys = [d.derivation.key for d in best.decisions if not d.derivation.required]
        for key in keys[:MAX_SINGLE]:
            if key[0] not in best.refused.rules:
                yield replace(best.refused, keys=best.refused.keys ^ {key})

    def _compare(self, best: Optimized, decision: Decision) -> Decision:
        """Say what the graph would cost otherwise, where that was tried."""
        key = decision.derivation.key
        # Toggling twice is undoing, so one expression serves what was applied and what was refused.
        other = replace(best.refused, keys=best.refused.keys ^ {key})
        if key[0] in best.refused.rules or len(best.decisions) == 1:
            other = replace(best.refused, rules=best.refused.rules ^ {key[0]})
        tried = self._derived.get(other)
        return decision if tried is None else replace(decision, otherwise=tried.seconds)

    def derive(self, refused: Refused) -> Optimized:
        """Apply all derivations but those refused."""
        if refused not in self._derived:
            self._derived[refused] = self._derive(refused)
        return self._derived[refused]

    def _derive(self, refused: Refused) -> Optimized:
        graph = self._simplify(self.graph)
        decisions: dict[Key, Decision] = {}
        declined: dict[Declined, None] = {}
        for _ in range(MAX_PASSES):
            before = graph
            for rule in self.rewrites:
                step = self._decide(rule, graph, refused)
                decisions |= {d.derivation.key: d for d in step.decisions}
                declined |= dict.fromkeys(step.declined)
                graph = self._simplify(step.graph)
            if graph.output_roots == before.output_roots:
                break
        seconds = self.cost(graph)
        return Optimized(graph, refused, seconds, tuple(decisions.values()), tuple(declined))

    def _simplify(self, graph: Graph) -> Graph:
        """Apply the rules that are always worth while, once for each graph that is met."""
        # Simplifying each graph once took a bagging of 10 pipelines from 0.73 to 0.40 s.
        if graph.output_roots not in self._simple:
            simple = simplify(graph, self.rules)
            self._simple[graph.output_roots] = self._simple[simple.output_roots] = simple
        return self._simple[graph.output_roots]

    def _decide(self, rule: GraphRule, graph: Graph, refused: Refused) -> Optimized:
        """Apply one rule once: of each group of nodes its cheapest derivation."""
        proposed = self._propose(rule, graph)
        groups: dict[Key, list[Derivation]] = {}
        for derivation in proposed:
            if isinstance(derivation, Derivation):
                groups.setdefault(derivation.key, []).append(derivation)
        decisions = tuple(
            Decision(cheapest, applied=not refused.refuses(cheapest))
            for cheapest in (self._cheapest(graph, group) for group in groups.values())
        )
        taken = [d.derivation for d in decisions if d.applied]
        declined = tuple(d for d in proposed if isinstance(d, Declined))
        after = apply_together(graph, taken) if taken else graph
        return Optimized(after, refused, math.nan, decisions, declined)

    def _propose(self, rule: GraphRule, graph: Graph) -> list[Derivation | Declined]:
        """Ask a rule once for each graph; what must not round there is declined."""
        place = rule.name, graph.output_roots
        if place not in self._proposals:
            # Bits that do not change cannot send a row elsewhere, wherever the rule applies.
            decisive = set() if rule.exactness is Exactness.BITS else find_decisive(graph)
            self._proposals[place] = [_allow(d, decisive) for d in rule.function(graph)]
        return self._proposals[place]

    def _cheapest(self, graph: Graph, group: list[Derivation]) -> Derivation:
        if len(group) == 1:
            return group[0]
        # A group replaces the same nodes, so only one of its derivations can be applied.
        return min(group, key=lambda derivation: self.cost(derivation.apply(graph)))


def _allow(proposal: Derivation | Declined, decisive: set[Node]) -> Derivation | Declined:
    """Decline a derivation that rounds before a decision."""
    if isinstance(proposal, Declined) or decisive.isdisjoint(proposal.replacements):
        return proposal
    node = next(iter(proposal.replacements))
    return Declined(proposal.rule, node, "a last bit decides after it")
