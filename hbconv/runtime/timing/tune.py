"""Tune: time the contenders nearest in prediction, or read what was timed before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from numbers import Real
from typing import Any

import numpy.typing as npt

from hbconv.errors import OptionError
from hbconv.lower import DENSE, Padding
from hbconv.optimize.tuning.contender import Contender, Problem
from hbconv.optimize.tuning.record_key import record_key
from hbconv.optimize.tuning.tuned import LEAST_MEASURED_GAIN, contenders_of, is_usable
from hbconv.pipeline import Compilation
from hbconv.row_buckets import BUCKETS, Bucket, find_bucket
from hbconv.runtime.call.page import group_rows
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.programs import Programs
from hbconv.runtime.row_artifact import Variant
from hbconv.runtime.timing.measure import Measure, measure
from hbconv.runtime.timing.record_cache import RecordCache
from hbconv.runtime.timing.sample_rows import DISTINCT_ROWS, make_rows, repeated
from hbconv.tuning_record import Tuning, TuningRecord

__all__ = ["SECONDS", "Tuner", "read_tune", "tune_programs"]

Inputs = Mapping[str, npt.NDArray[Any]]

SECONDS = 1.0
"""Seconds of timing for one model, shared by its buckets; compiling comes on top."""
LEAST_FITTED_GAIN = 1.03
"""Ratio of times from which another contender replaces the predicted best."""
PREFERRED = ("predict_proba", "predict", "decision_function", "transform")
"""The first that the model has is timed."""


def read_tune(tune: Any, sample: Any) -> tuple[float, Any]:
    """Return the seconds and the rows that ``tune=`` asks for; None for rows that are made.

    Raises
    ------
    OptionError
        A number is not positive and finite.
    """
    if tune is True:
        return SECONDS, sample
    if not isinstance(tune, Real):
        return SECONDS, tune
    seconds = float(tune)
    if not (seconds > 0 and math.isfinite(seconds)):
        raise OptionError(f"tune={tune!r} must be a positive number of seconds, True, or rows.")
    return seconds, sample


def tune_programs(
    programs: Programs, dtypes: tuple[str, ...], table: Table | None, seconds: float
) -> Tuning:
    """Time what a model can choose, with rows of a table or made ones."""
    if table is None:
        return Tuner(programs, dtypes, seconds=seconds).tune()
    tensors = programs.parsed.exported
    groups = group_rows(programs, tensors[0], table) if tensors else [(None, table)]
    part = groups[0][1].part(slice(0, min(groups[0][1].rows, DISTINCT_ROWS)))
    return Tuner(programs, part.dtypes, part, part.padding, seconds).tune()


@dataclass
class Tuner:
    """Times the contenders of one model.

    Parameters
    ----------
    programs : Programs
        Without tuning.
    dtypes : tuple of str
        Dtype of each column.
    table : Table, optional
        Rows to time with; by default they are made from the graph.
    padding : Padding
        How sparse rows come.
    seconds : float
    cache : RecordCache
    measure : callable
    """

    programs: Programs
    dtypes: tuple[str, ...]
    table: Table | None = None
    padding: Padding = DENSE
    seconds: float = SECONDS
    cache: RecordCache = field(default_factory=RecordCache)
    measure: Measure = measure
    _compiled: dict[object, tuple[Variant, Inputs]] = field(default_factory=dict, init=False)

    def tune(self) -> Tuning:
        """Return the records of all buckets in which there is something to choose."""
        if not self.programs.parsed.exported:
            return Tuning(remark="no method of this model runs as one program")
        own = find_bucket(self.problem.target.rows)
        fitted = self._choose(self.problem, own, None)
        chosen, _ = fitted
        within = replace(self.problem, optimization=chosen.optimization)
        others = [self._choose(within, bucket, chosen) for bucket in BUCKETS if bucket != own]
        found = tuple(record for _, record in (fitted, *others) if record)
        return Tuning(found, "" if found else self._why_none())

    @property
    def problem(self) -> Problem:
        """What the contenders are for."""
        return self.programs.planned(self.dtypes, self.padding).problem

    def _choose(
        self, problem: Problem, bucket: Bucket, fitted: Contender | None
    ) -> tuple[Contender, TuningRecord | None]:
        """Choose for a bucket, and return the times that decided; None where nothing is open."""
        contenders = self._distinct(contenders_of(problem, bucket, fitted.plan if fitted else None))
        if len(contenders) < 2:
            return contenders[0], None
        by_label = {contender.label: contender for contender in contenders}
        key = record_key(problem.typed, problem.target, bucket)
        record = self.cache.read(key)
        if record is None or not is_usable(record, contenders):
            rows = problem.target.rows if fitted is None else bucket.typical
            gain = LEAST_FITTED_GAIN if fitted is None else LEAST_MEASURED_GAIN
            record = self._time(key, contenders, min(rows, BUCKETS[-1].typical), gain)
            self.cache.write(record)
        return by_label[record.chosen], record

    def _distinct(self, contenders: list[Contender]) -> list[Contender]:
        """Leave out those that are the same program for the method that is timed."""
        distinct: dict[object, Contender] = {}
        for contender in contenders:
            distinct.setdefault(self._stages(contender).graph.output_roots, contender)
        return list(distinct.values())

    def _time(
        self, key: str, contenders: list[Contender], rows: int, least_gain: float
    ) -> TuningRecord:
        """Time contenders. The first is kept unless another is clearly faster."""
        compiled = {c.label: self._compile(c) for c in contenders}
        given = {label: repeated(inputs, rows) for label, (_, inputs) in compiled.items()}
        calls = {label: partial(v.run, given[label]) for label, (v, _) in compiled.items()}
        seconds = self.measure(calls, self.seconds / len(BUCKETS))
        first = contenders[0].label
        best = min(seconds, key=seconds.__getitem__)
        chosen = best if seconds[first] >= least_gain * seconds[best] else first
        count = len(next(iter(given[first].values())))
        return TuningRecord(key, chosen, seconds, count, datetime.now(UTC).date().isoformat())

    def _compile(self, contender: Contender) -> tuple[Variant, Inputs]:
        """Compile a contender once, whatever the rows, and make its inputs."""
        stages = self._stages(contender)
        kind = stages.graph.output_roots
        if kind not in self._compiled:
            self._compiled[kind] = self.programs.variant(stages), self._sample(stages)
        return self._compiled[kind]

    def _stages(self, contender: Contender) -> Compilation:
        outputs = self.programs.parsed.exported
        method = next((name for name in PREFERRED if name in outputs), outputs[0])
        planned = replace(self.programs.planned(self.dtypes, self.padding), taken=contender)
        return Compilation(planned, (method,), self.padding)

    def _sample(self, stages: Compilation) -> Inputs:
        feeds = stages.lowered.feeds
        if self.table is None:
            return make_rows(stages.graph, feeds)
        if not self.table.rows:
            raise OptionError("tune= was given no rows. Give a few as they will come.")
        return self.table.inputs(feeds)

    def _why_none(self) -> str:
        if self.problem.optimization.decisions or self.programs.planned(self.dtypes).plan.choices:
            return (
                f"backend {self.problem.target.backend!r} leaves nothing to choose for this model"
            )
        return "the model has no trees and no rewrite to decide on"
