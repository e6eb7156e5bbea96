"""Trace: every rewrite that made an optimized graph, in order, for ``explain``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import wraps

from hbconv.containers import Graph, Node
from hbconv.optimize import find_search
from hbconv.optimize.rule import GraphRule, Key, NodeRule
from hbconv.optimize.search import Optimized, Refused, Search
from hbconv.target import Target

__all__ = ["Applied", "trace"]


@dataclass(frozen=True)
class Applied:
    """One rewrite.

    Parameters
    ----------
    rule : NodeRule or GraphRule
    step : str
        Step of the source model.
    proof : str
        Why the values stay.
    replacements : mapping of Node to Node
        Each node replaced, and what replaces it.
    required : bool
        It was made whatever it costs.
    otherwise : float or None
        Predicted seconds of the whole graph without it; None where that was not tried.
    """

    rule: NodeRule | GraphRule
    step: str
    proof: str
    replacements: Mapping[Node, Node]
    required: bool = False
    otherwise: float | None = None


def trace(graph: Graph, target: Target, optimized: Optimized) -> tuple[Applied, ...]:
    """List the rewrites that lead from a graph to what ``optimize`` made of it.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Columns, Output, Schema, Select
    >>> from hbconv.optimize import optimize
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> graph = Graph(x.schema, {"transform": Output(Select(x, Array([1]), step="SelectKBest"))})
    >>> [f"{a.rule.name} at {a.step}" for a in trace(graph, Target(), optimize(graph))]
    ['push_selection at SelectKBest']
    """
    search = find_search(graph, target)
    # Rules are traced in a search of their own: the one that decides is not slowed down.
    tracing = _Tracing(graph, (), search.rewrites, search.cost)
    tracing.rules = [_record(rule, tracing.applied) for rule in search.rules]
    tracing.otherwise = {d.derivation.key: d.otherwise for d in optimized.decisions}
    tracing.derive(optimized.refused)
    return tuple(tracing.applied)


@dataclass
class _Tracing(Search):
    """A search that writes down what it applies."""

    applied: list[Applied] = field(default_factory=list)
    otherwise: Mapping[Key, float | None] = field(default_factory=dict)

    def _decide(self, rule: GraphRule, graph: Graph, refused: Refused) -> Optimized:
        decided = super()._decide(rule, graph, refused)
        taken = [d.derivation for d in decided.decisions if d.applied]
        self.applied += [
            Applied(
                rule, d.step, d.proof, dict(d.replacements), d.required, self.otherwise.get(d.key)
            )
            for d in taken
        ]
        return decided


def _record(rule: NodeRule, applied: list[Applied]) -> NodeRule:
    @wraps(rule.function)
    def record(node: Node) -> Node | None:
        after = rule.function(node)
        if after is not None:
            applied.append(Applied(rule, node.step, rule.proof, {node: after}))
        return after

    return replace(rule, function=record)
