"""Tuned: the contenders that records of a model say to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hbconv.optimize.plan import Plan
from hbconv.optimize.row_plans import RowPlan
from hbconv.optimize.tuning.contender import (
    Contender,
    Problem,
    find_contenders,
    of_plan,
    of_strategies,
)
from hbconv.optimize.tuning.record_key import record_key
from hbconv.row_buckets import BUCKETS, Bucket, find_bucket
from hbconv.tuning_record import Tuning, TuningRecord

__all__ = ["LEAST_MEASURED_GAIN", "Tuned", "contenders_of", "find_tuned", "is_usable"]

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


def is_usable(record: TuningRecord, contenders: list[Contender]) -> bool:
    """Whether a record compares what runs without a choice, and takes one of the contenders.

    Predictions decide which those are, and they may have changed since it was written.
    """
    labels = [contender.label for contender in contenders]
    return labels[0] in record.seconds and record.chosen in labels


def find_tuned(problem: Problem, tuning: Tuning) -> Tuned | None:
    """Return what records say of a problem; None where none is of it."""
    keys = {bucket: record_key(problem.typed, problem.target, bucket) for bucket in BUCKETS}
    records = {b: record for b, key in keys.items() if (record := tuning.find(key))}
    if not records:
        return None
    own = find_bucket(problem.target.rows)
    chosen = {own: _choose(contenders_of(problem, own, None), records.get(own))}
    fitted = chosen[own][0]
    within = replace(problem, optimization=fitted.optimization)
    for bucket in records.keys() - {own}:
        contenders = contenders_of(within, bucket, fitted.plan)
        chosen[bucket] = _choose(contenders, records[bucket])
    used = {bucket: chosen[bucket][1] for bucket in BUCKETS if bucket in chosen}
    row_plans = [_row_plan(b, *chosen[b]) for b in used if b != own]
    found = {bucket: record for bucket, record in used.items() if record}
    return Tuned(fitted, tuple(p for p in row_plans if p), found) if found else None


def _choose(
    contenders: list[Contender], record: TuningRecord | None
) -> tuple[Contender, TuningRecord | None, float]:
    """Return what a record says to take, the record if it is usable, and the measured gain."""
    if record is None or not is_usable(record, contenders):
        return contenders[0], None, 1.0
    found = next(c for c in contenders if c.label == record.chosen)
    gain = record.seconds[contenders[0].label] / record.seconds[record.chosen]
    return replace(found, plan=_measured(found.plan)), record, gain


def _row_plan(
    bucket: Bucket, chosen: Contender, record: TuningRecord | None, gain: float
) -> RowPlan | None:
    if record is None or gain < LEAST_MEASURED_GAIN:
        return None
    return RowPlan(bucket, chosen.plan, gain, measured=True)


def _measured(plan: Plan) -> Plan:
    choices = ((forest, replace(choice, measured=True)) for forest, choice in plan.choices)
    return Plan(tuple(choices))
