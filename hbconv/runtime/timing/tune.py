"""Tune: time the contenders nearest in prediction, or read what was timed before.

Records of timing on disk, beside the compiled code, under the same rules of trust.

Rows to time with: the caller's, or rows made from the graph itself.

Time calls by turns, so that a machine that drifts slows all of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    Cast,
    CastLike,
    Columns,
    Graph,
    Node,
    Select,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.cost_model.tuning_record import (
    BUCKETS,
    Bucket,
    Tuning,
    TuningRecord,
    find_bucket,
    read_record,
    write_record,
)
from hbconv.errors import OptionError
from hbconv.lower import DENSE, AnyFeed, Feed, Padding
from hbconv.optimize.contender import (
    LEAST_MEASURED_GAIN,
    Contender,
    Problem,
    contenders_of,
    is_usable,
    record_key,
)
from hbconv.pipeline import Compilation
from hbconv.runtime.call.page import group_rows
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.programs import Programs
from hbconv.runtime.row_artifact import Variant
from hbconv.system.cache import Cache
from hbconv.trees.forest import Forest

__all__ = [
    "DISTINCT_ROWS",
    "SECONDS",
    "Measure",
    "RecordCache",
    "Tuner",
    "make_rows",
    "measure",
    "read_tune",
    "repeat_rows",
    "tune_programs",
]

Calls = Mapping[str, Callable[[], object]]
Clock = Callable[[], float]
Measure = Callable[[Calls, float], dict[str, float]]
"""Returns the least seconds of each call, by label, within about so many seconds in all."""

SHORTEST = 1e-9
"""Seconds, where a clock does not tell two moments apart."""
HOPELESS = 3.0
"""Ratio to the fastest from which a call is not timed again."""
FIRST_ROUNDS = 4
"""Times that each is called at first: TorchScript compiles in the first three."""


def measure(calls: Calls, seconds: float, clock: Clock = time.perf_counter) -> dict[str, float]:
    """Return the least time of each call: that with the least disturbance.

    Parameters
    ----------
    calls : mapping of str to callable
    seconds : float
        About the time to spend on all calls together. It may take longer to call each a few times.
    clock : callable

    Examples
    --------
    >>> ticks = iter(range(100))
    >>> measure({"a": lambda: None, "b": lambda: None}, 5, lambda: float(next(ticks)))
    {'a': 1.0, 'b': 1.0}
    """
    # Calls take turns, so that a slow moment of the machine falls on all of them.
    end = clock() + seconds
    least = dict.fromkeys(calls, math.inf)
    for _ in range(FIRST_ROUNDS):
        _turn(calls, least, clock)
    fastest = min(least.values())
    near = {label: call for label, call in calls.items() if least[label] <= HOPELESS * fastest}
    while clock() < end:
        _turn(near, least, clock)
    return least


def _turn(calls: Calls, least: dict[str, float], clock: Clock) -> None:
    """Time each call once, and keep its least time."""
    for label, call in calls.items():
        began = clock()
        call()
        # Disturbances only add time, so the least is nearest to the truth.
        least[label] = min(least[label], max(clock() - began, SHORTEST))


MEMBER = "times.json"


class RecordCache:
    """The records of this user.

    A record that is damaged, of another key, or that others could write, counts as none.

    Parameters
    ----------
    cache : Cache, optional
        By default the one that HBCONV_CACHE chooses.
    """

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = Cache.chosen() if cache is None else cache

    def read(self, key: str) -> TuningRecord | None:
        """Return the record of a key."""
        files: Mapping[str, bytes] = self._cache.read(_entry(key)) or {}
        return read_record(files[MEMBER], key) if MEMBER in files else None

    def write(self, record: TuningRecord) -> None:
        """Keep a record, where a cache is kept."""
        self._cache.write(_entry(record.key), {MEMBER: write_record(record)})


def _entry(key: str) -> str:
    return f"times-{key}"


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
    groups = group_rows(programs, tensors[:1], table) if tensors else [(None, table)]
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
        bucket_of_target = find_bucket(self.problem.target.rows)
        fitted = self._choose(self.problem, bucket_of_target, None)
        chosen, _ = fitted
        within = replace(self.problem, optimization=chosen.optimization)
        others = [
            self._choose(within, bucket, chosen) for bucket in BUCKETS if bucket != bucket_of_target
        ]
        records = tuple(record for _, record in (fitted, *others) if record)
        return Tuning(records, "" if records else self._why_none())

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
        inputs_of = {label: repeat_rows(inputs, rows) for label, (_, inputs) in compiled.items()}
        calls = {label: partial(v.run, inputs_of[label]) for label, (v, _) in compiled.items()}
        seconds = self.measure(calls, self.seconds / len(BUCKETS))
        first = contenders[0].label
        best = min(seconds, key=seconds.__getitem__)
        # A tie goes to the prediction, so that noise changes no program.
        chosen = best if seconds[first] >= least_gain * seconds[best] else first
        count = len(next(iter(inputs_of[first].values())))
        return TuningRecord(key, chosen, seconds, count, datetime.now(UTC).date().isoformat())

    def _compile(self, contender: Contender) -> tuple[Variant, Inputs]:
        """Compile a contender once, whatever the rows, and make its inputs."""
        stages = self._stages(contender)
        kind = stages.graph.output_roots
        # Buckets share what is compiled for the same graph.
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


DISTINCT_ROWS = 512
"""Rows that are made, or taken of a table; more are repetitions of them."""
MOST_BYTES = 1 << 28
"""Bytes that the inputs of a timed call may take."""


def make_rows(graph: Graph, feeds: Sequence[AnyFeed], seed: int = 0) -> dict[str, Any]:
    """Make the inputs of a program.

    A column whose values are split by trees gets values between their thresholds, and beyond them,
    each interval alike. The others get standard normal ones.

    Parameters
    ----------
    graph : Graph
        Optimized.
    feeds : sequence of Feed
    seed : int

    Raises
    ------
    OptionError
        The model reads text or sparse rows, of which it knows no typical ones.
    """
    numbers = [feed for feed in feeds if isinstance(feed, Feed)]
    if len(numbers) < len(feeds):
        raise OptionError(
            "tune= cannot make rows for a model that reads text or sparse rows. Give it some: "
            "tune=X."
        )
    rng = np.random.default_rng(seed)
    edges = _find_thresholds(graph)
    return {feed.name: _matrix(feed, edges, rng) for feed in numbers}


def repeat_rows(inputs: Inputs, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Repeat inputs up to a number of rows, or to fewer where those would take too much memory.

    Examples
    --------
    >>> repeat_rows({"x": np.array([[1.0], [2.0]])}, 3)["x"].ravel()
    array([1., 2., 1.])
    """
    row_bytes = sum(array[:1].nbytes for array in inputs.values())
    count = max(1, min(rows, MOST_BYTES // max(1, row_bytes)))
    return {name: _cycled(array, count) for name, array in inputs.items()}


def _cycled(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array[np.arange(rows) % len(array)])


def _matrix(
    feed: Feed, edges: Mapping[int, npt.NDArray[Any]], rng: np.random.Generator
) -> npt.NDArray[Any]:
    columns = [_values(edges.get(column), rng) for column in feed.columns]
    matrix = np.stack(columns, axis=1) if columns else np.empty((DISTINCT_ROWS, 0))
    # Values beyond a dtype would become infinite, or wrap around.
    limit = np.finfo(feed.dtype).max if feed.dtype.startswith("float") else 1 << 30
    return np.clip(matrix, -limit, limit).astype(feed.dtype)


def _values(edges: npt.NDArray[Any] | None, rng: np.random.Generator) -> npt.NDArray[Any]:
    if edges is None:
        return rng.standard_normal(DISTINCT_ROWS)
    spread = max(float(edges[-1] - edges[0]), 1.0) / 10
    # Values beyond the outer thresholds reach the outermost leaves.
    ends = np.concatenate([[edges[0] - spread], edges, [edges[-1] + spread]])
    place = rng.integers(len(ends) - 1, size=DISTINCT_ROWS)
    within = rng.random(DISTINCT_ROWS)
    return ends[place] * (1 - within) + ends[place + 1] * within


def _find_thresholds(graph: Graph) -> dict[int, npt.NDArray[Any]]:
    """Return the distinct thresholds of the trees that read a column as it is, or cast."""
    by_column: dict[int, list[npt.NDArray[Any]]] = {}
    for node in graph.nodes():
        if isinstance(node, TreeEnsemble | TreeLeaves):
            for column, thresholds in _by_column(node.forest, _columns_read(node.x)):
                by_column.setdefault(column, []).append(thresholds)
    edges = {column: np.unique(np.concatenate(parts)) for column, parts in by_column.items()}
    return {column: values for column, values in edges.items() if len(values)}


def _columns_read(node: Node) -> tuple[int, ...]:
    """Return the input columns that a node passes on; none where it computes."""
    if isinstance(node, Select):
        passed = _columns_read(node.x)
        return tuple(passed[i] for i in node.indices.data) if passed else ()
    if isinstance(node, Cast | CastLike):
        return _columns_read(node.x)
    return node.columns if isinstance(node, Columns) else ()


def _by_column(
    forest: Forest, columns: Sequence[int]
) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """Yield the thresholds of each column, without those that stand for infinity."""
    thresholds = forest.threshold.data.astype(np.float64)
    # Thresholds from the largest float32 on stand for infinity.
    finite = np.abs(thresholds) < np.finfo(np.float32).max
    for place, column in enumerate(columns):
        yield column, thresholds[finite & (forest.feature.data == place)]
