"""Contenders: the ways to compile a graph that are nearest to the best by prediction.

A source yields contenders for a ``Problem``. To let timing decide something more, add a source to
``SOURCES``: its labels name what it decides, and the same problem gives the same labels.

Records of times are kept under keys of all that the ranking depends on (``record_key``).
``find_tuned`` returns the contenders that the records of a model choose.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import Any

from hbconv.backends.base import Backend
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.containers import Graph, Node, TreeEnsemble, TreeLeaves
from hbconv.cost_model.price_record import describe_versions
from hbconv.cost_model.tuning_record import BUCKETS, Bucket, Tuning, TuningRecord, find_bucket
from hbconv.optimize import find_search
from hbconv.optimize.plan import Choice, Plan, RowPlan, make_plan
from hbconv.optimize.search import Optimized
from hbconv.system.processor import find_processor
from hbconv.target import Target
from hbconv.trees.forest import Forest

__all__ = [
    "LEAST_MEASURED_GAIN",
    "SOURCES",
    "Contender",
    "Problem",
    "Tuned",
    "contenders_of",
    "describe_machine",
    "describe_structure",
    "find_contenders",
    "find_tuned",
    "is_usable",
    "of_plan",
    "of_strategies",
    "record_key",
]

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
        # The first is the best itself, so a source adds at most two.
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
        # The same graph at the same price is the same program under another name.
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


FORMAT = 1
"""Version of records, and of what their keys are made from."""
STEPS_PER_DOUBLING = 4
"""Sizes of forests are rounded to a fifth: a model fitted again finds the record."""


def record_key(typed: Graph, target: Target, bucket: Bucket) -> str:
    """Return the key of the record of a graph and a bucket of rows.

    Parameters
    ----------
    typed : Graph
        Before the optimizer. Its values, and the dtypes of its columns, do not count.
    target : Target
        Of its rows only the bucket counts, and its strategy does not.
    bucket : Bucket
    """
    # Rows count by their buckets, the strategy is what is timed, and it is timed on this machine.
    options = asdict(target.replace(rows=1, strategy=None, machines=()))
    facts = {
        "format": FORMAT,
        "structure": describe_structure(typed),
        "target": options,
        "least_rows": bucket.least,
        "fitted_to": find_bucket(target.rows).least,
        "machine": describe_machine(),
        "versions": describe_versions(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def describe_structure(graph: Graph) -> list[Any]:
    """Return the kind, width and inputs of each node, and the rounded sizes of forests."""
    nodes = graph.nodes()
    places = {node: place for place, node in enumerate(nodes)}
    described = [[_describe(node), [places[i] for i in node.inputs]] for node in nodes]
    outputs = [places[root] for root in graph.output_roots]
    return [len(graph.schema.columns), sorted(graph.outputs), described, outputs]


def _describe(node: Node) -> list[Any]:
    forest = node.forest if isinstance(node, TreeEnsemble | TreeLeaves) else None
    return [node.name, node.type.width, None if forest is None else _sizes(forest)]


def _sizes(forest: Forest) -> list[Any]:
    counts = (forest.n_trees, forest.n_tests, forest.depth)
    kinds = (forest.n_outputs, forest.values.shape[1], forest.accumulate, bool(forest.tables))
    return [*map(_round_size, counts), *kinds]


def _round_size(count: int) -> int:
    """Return the size on a scale of four steps for each doubling.

    Examples
    --------
    >>> [_round_size(count) for count in (0, 1, 1_000, 1_050, 2_000)]
    [0, 4, 44, 44, 48]
    """
    # On a logarithmic scale, so that a model fitted again on a few rows more finds its record.
    return 0 if count == 0 else STEPS_PER_DOUBLING + round(STEPS_PER_DOUBLING * math.log2(count))


@cache
def describe_machine() -> dict[str, Any]:
    """Return what is known of this machine's processor."""
    host = asdict(Machine.host())
    return {**host, "extras": sorted(host["extras"]), "processor": find_processor()}


LEAST_MEASURED_GAIN = 1.1
"""Ratio of measured times from which another plan is worth a program of its own."""


@dataclass(frozen=True)
class Tuned:
    """What to take where records tell.

    Parameters
    ----------
    fitted : Contender
        For the rows of the target: the one measured, or else the predicted best.
    row_plans : tuple of RowPlan
        For other numbers of rows, where another plan measured clearly faster.
    records : mapping of Bucket to TuningRecord
        Those that fit this model, on this machine.
    """

    fitted: Contender
    row_plans: tuple[RowPlan, ...] = ()
    records: Mapping[Bucket, TuningRecord] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(f"{bucket}: {record}" for bucket, record in self.records.items())


def contenders_of(problem: Problem, bucket: Bucket, fitted: Plan | None) -> list[Contender]:
    """Return what to choose from for a bucket, first what runs without a choice.

    Parameters
    ----------
    problem : Problem
    bucket : Bucket
    fitted : Plan or None
        The plan for the target's rows; None where the bucket is that of those rows.
    """
    if fitted is None:
        return find_contenders(problem)
    few = replace(problem, target=problem.target.replace(rows=bucket.typical))
    contenders = find_contenders(few, (of_strategies,))
    same = next((c for c in contenders if c.plan.strategies == fitted.strategies), None)
    first = same or of_plan(fitted, problem)
    return [first, *(c for c in contenders if c.label != first.label)]


def is_usable(record: TuningRecord, contenders: list[Contender]) -> bool:
    """Whether a record compares what runs without a choice, and takes one of the contenders.

    Predictions decide which those are, and they may have changed since it was written.
    """
    # Predictions may have changed since, and a record
    # that lacks today's first choice compares nothing.
    labels = [contender.label for contender in contenders]
    return labels[0] in record.seconds and record.chosen in labels


def find_tuned(problem: Problem, tuning: Tuning) -> Tuned | None:
    """Return what records say of a problem; None where none is of it."""
    keys = {bucket: record_key(problem.typed, problem.target, bucket) for bucket in BUCKETS}
    records = {b: record for b, key in keys.items() if (record := tuning.find(key))}
    if not records:
        return None
    # The fitted bucket is decided first: other buckets compare with its plan.
    own_bucket = find_bucket(problem.target.rows)
    chosen = {
        own_bucket: _choose(contenders_of(problem, own_bucket, None), records.get(own_bucket))
    }
    fitted = chosen[own_bucket][0]
    within = replace(problem, optimization=fitted.optimization)
    for bucket in records.keys() - {own_bucket}:
        contenders = contenders_of(within, bucket, fitted.plan)
        chosen[bucket] = _choose(contenders, records[bucket])
    used = {bucket: chosen[bucket][1] for bucket in BUCKETS if bucket in chosen}
    row_plans = [_row_plan(b, *chosen[b]) for b in used if b != own_bucket]
    usable = {bucket: record for bucket, record in used.items() if record}
    return Tuned(fitted, tuple(p for p in row_plans if p), usable) if usable else None


def _choose(
    contenders: list[Contender], record: TuningRecord | None
) -> tuple[Contender, TuningRecord | None, float]:
    """Return what a record says to take, the record if it is usable, and the measured gain."""
    if record is None or not is_usable(record, contenders):
        return contenders[0], None, 1.0
    contender = next(c for c in contenders if c.label == record.chosen)
    gain = record.seconds[contenders[0].label] / record.seconds[record.chosen]
    return replace(contender, plan=_mark_measured(contender.plan)), record, gain


def _row_plan(
    bucket: Bucket, chosen: Contender, record: TuningRecord | None, gain: float
) -> RowPlan | None:
    # One more program takes memory and a compilation, which small gains do not pay.
    if record is None or gain < LEAST_MEASURED_GAIN:
        return None
    return RowPlan(bucket, chosen.plan, gain, measured=True)


def _mark_measured(plan: Plan) -> Plan:
    choices = ((forest, replace(choice, measured=True)) for forest, choice in plan.choices)
    return Plan(tuple(choices))
