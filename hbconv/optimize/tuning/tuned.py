"""Tuned: the contenders that records of a model say to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hbconv.optimize.plan import Plan
from hbconv.optimize.row_plans import BUCKETS, Bucket, RowPlan, find_bucket
from hbconv.optimize.tuning.contender import (
    Contender,
    Problem,
    find_contenders,
    of_plan,
    of_strategies,
)
from hbconv.optimize.tuning.record import Tuning, TuningRecord
from hbconv.optimize.tuning.record_key import record_key

__all__ = ["LEAST_MEASURED_GAIN", "Tuned", "contenders_of", "find_tuned"]

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
    found = find_contenders(few, (of_strategies,))
    same = next((c for c in found if c.plan.strategies == fitted.strategies), None)
    first = same or of_plan(fitted, problem)
    return [first, *(c for c in found if c.label != first.label)]


def find_tuned(problem: Problem, tuning: Tuning) -> Tuned | None:
    """Return what records say of a problem; None where none is of it."""
    own = find_bucket(problem.target.rows)
    keys = {bucket: record_key(problem.typed, problem.target, bucket) for bucket in BUCKETS}
    records = {b: record for b, key in keys.items() if (record := tuning.find(key))}
    if not records:
        return None
    fitted = _chosen(contenders_of(problem, own, None), records.get(own))
    within = replace(problem, optimization=fitted.optimization)
    others = {bucket: record for bucket, record in records.items() if bucket != own}
    plans = [_row_plan(within, bucket, record, fitted) for bucket, record in others.items()]
    return Tuned(fitted, tuple(plan for plan in plans if plan), records)


def _chosen(contenders: list[Contender], record: TuningRecord | None) -> Contender:
    """Return the contender that a record names; the first if it names none of them."""
    label = None if record is None else record.chosen
    found = next((c for c in contenders if c.label == label), None)
    return contenders[0] if found is None else replace(found, plan=_measured(found.plan))


def _row_plan(
    problem: Problem, bucket: Bucket, record: TuningRecord, fitted: Contender
) -> RowPlan | None:
    contenders = contenders_of(problem, bucket, fitted.plan)
    chosen = _chosen(contenders, record)
    before = record.seconds.get(contenders[0].label, 0.0)
    gain = before / record.seconds[record.chosen]
    if chosen.label != record.chosen or gain < LEAST_MEASURED_GAIN:
        return None
    return RowPlan(bucket, chosen.plan, gain, measured=True)


def _measured(plan: Plan) -> Plan:
    choices = ((forest, replace(choice, measured=True)) for forest, choice in plan.choices)
    return Plan(tuple(choices))
