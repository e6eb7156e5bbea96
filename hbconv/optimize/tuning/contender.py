"""Contenders: the ways to compile a graph that are nearest to the best by prediction.

A source yields contenders for a ``Problem``. To let timing decide something more, add a source to
``SOURCES``: its labels name what it decides, and the same problem gives the same labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from hbconv.backends.base import Backend
from hbconv.containers import Graph
from hbconv.optimize import find_search
from hbconv.optimize.plan import Choice, Plan, make_plan
from hbconv.optimize.search import Optimized
from hbconv.target import Target

__all__ = ["SOURCES", "Contender", "Problem", "find_contenders", "of_plan", "of_strategies"]

NEAR = 8.0
"""Predicted times, over the least, up to which a contender is timed.

Predictions for torch were seen to be off by seven times.
"""
MOST = 3
"""Contenders of one source that are timed, the predicted best among them."""


@dataclass(frozen=True)
class Problem:
    """What contenders are for.

    Parameters
    ----------
    typed : Graph
        Before the optimizer.
    target : Target
        With the number of rows that costs are predicted for.
    backend : Backend
    optimization : Optimized
        What the optimizer makes of the graph by prediction.
    """

    typed: Graph
    target: Target
    backend: Backend
    optimization: Optimized


@dataclass(frozen=True)
class Contender:
    """One way to compile a graph.

    Parameters
    ----------
    label : str
        Names it, for records and for people.
    optimization : Optimized
    plan : Plan
    ratio : float
        Its predicted time over that of the predicted best: of the trees, or of the whole graph.
    """

    label: str
    optimization: Optimized
    plan: Plan
    ratio: float = 1.0


Source = Callable[[Problem], Iterator[Contender]]


def of_strategies(problem: Problem) -> Iterator[Contender]:
    """Yield for each strategy the plan that takes it wherever it is near the cheapest."""
    plan = make_plan(problem.optimization.graph, problem.target, problem.backend)
    native = problem.backend.native_trees(problem.target)
    for name in dict.fromkeys(name for _, choice in plan.choices for name in choice.costs):
        choices = ((forest, _taking(name, choice, native)) for forest, choice in plan.choices)
        yield of_plan(Plan(tuple(choices)), problem)


def of_rewrites(problem: Problem) -> Iterator[Contender]:
    """Yield the graph with the rewrites of one rule decided otherwise, for each rule that chose."""
    chosen = problem.optimization
    free = [d.derivation for d in chosen.decisions if not d.derivation.required]
    search = find_search(problem.typed, problem.target)
    for rule in dict.fromkeys(derivation.rule for derivation in free):
        other = search.derive(replace(chosen.refused, rules=chosen.refused.rules ^ {rule}))
        plan = make_plan(other.graph, problem.target, problem.backend)
        word = "with" if rule in chosen.refused.rules else "without"
        ratio = other.seconds / chosen.seconds
        yield Contender(f"{word} {rule}, {_label(plan)}", other, plan, ratio)


SOURCES: tuple[Source, ...] = (of_strategies, of_rewrites)
"""All there is to choose from, for the rows that a target is fitted to."""


def find_contenders(problem: Problem, sources: Iterable[Source] = SOURCES) -> list[Contender]:
    """Return the predicted best, then others that are near it; one alone if nothing is open."""
    plan = make_plan(problem.optimization.graph, problem.target, problem.backend)
    best = of_plan(plan, problem)
    near = [best]
    for source in sources:
        near += list(_distinct([best, *_nearest(source(problem))]))[1:MOST]
    return list(_distinct(near))


def of_plan(plan: Plan, problem: Problem) -> Contender:
    """Return the contender that follows a plan of the optimized graph."""
    costs = [(c.costs.get(c.strategy, 0.0), min(c.costs.values())) for _, c in plan.choices]
    least = sum(cheapest for _, cheapest in costs)
    ratio = sum(cost for cost, _ in costs) / least if least else 1.0
    return Contender(_label(plan), problem.optimization, plan, ratio)


def _nearest(contenders: Iterable[Contender]) -> list[Contender]:
    near = [contender for contender in contenders if contender.ratio <= NEAR]
    return sorted(near, key=lambda contender: (contender.ratio, contender.label))


def _distinct(contenders: Iterable[Contender]) -> Iterator[Contender]:
    """Leave out those of the same label, and those priced alike: the backend runs them alike."""
    seen: set[object] = set()
    for contender in contenders:
        priced = id(contender.optimization), contender.ratio
        if contender.label not in seen and priced not in seen:
            seen |= {contender.label, priced}
            yield contender


def _taking(name: str, choice: Choice, native: frozenset[str]) -> Choice:
    """Return the choice of a strategy, where it is near the cheapest."""
    near = NEAR * min(choice.costs.values())
    if choice.costs.get(name, math.inf) > near:
        return choice
    return replace(choice, strategy=name, native=name in native)


def _label(plan: Plan) -> str:
    """Name the strategies of the forests, in their order."""
    counts = [(name, len(list(same))) for name, same in groupby(plan.strategies)]
    if len(counts) < 2:
        return counts[0][0] if counts else "no trees"
    return ", ".join(f"{count} {name}" for name, count in counts)
