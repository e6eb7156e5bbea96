"""Rows made to hurt a pipeline: on the thresholds of its trees, moved to the raw columns.

Where a column goes through functions before a tree tests it, some raw value is the last that goes
left. It is found by bisection over the floats, with the graph as parsed on the reference backend,
so no rule of the optimizer has a part in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import hbconv
from hbconv.backends.reference import evaluate
from hbconv.containers import Graph, Node, TreeEnsemble
from hbconv.lower import lower_nodes
from hbconv.pipeline import with_dtypes
from hbconv.runtime.inputs.read import read_table

__all__ = ["fitted_values", "hurting_rows", "switch_points"]

PROBES = 9
BISECTIONS = 64
SPECIAL = (0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e-45, 1.0, -1.0)


class Before:
    """What the trees of a pipeline read, as a function of raw rows."""

    def __init__(self, estimator: Any, rows: Any) -> None:
        self.model = hbconv.convert(estimator, backend="reference")
        dtypes = read_table(rows, self.model.reads).dtypes
        self.graph: Graph = with_dtypes(self.model.parsed, dtypes)
        self.forests = [n for n in self.graph.nodes() if isinstance(n, TreeEnsemble)]
        self.inputs: list[Node] = list(dict.fromkeys(f.inputs[0] for f in self.forests))

    def __call__(self, rows: Any) -> list[np.ndarray]:
        """Return the values of each input of trees."""
        table = read_table(rows, self.model.reads).part(slice(0, len(rows)))
        named = {str(i): node for i, node in enumerate(self.inputs)}
        lowered = lower_nodes(self.graph, named)
        with np.errstate(all="ignore"):
            values = evaluate(lowered.program, table.inputs(lowered.feeds))
        return [values[name] for name in named]

    def thresholds(self, node: Node, column: int) -> np.ndarray:
        """Return the thresholds that trees compare a column of an input with."""
        found = [
            f.forest.threshold.data[f.forest.feature.data == column]
            for f in self.forests
            if f.inputs[0] is node
        ]
        return np.unique(np.concatenate(found).astype(np.float64))


def switch_points(
    estimator: Any, rows: Any, rng: np.random.Generator, most: int
) -> list[np.ndarray]:
    """Find raw values at which a test switches: for each column, at most so many of each kind.

    Of two neighbouring floats between which the test turns, the lower one is returned.
    """
    before = Before(estimator, rows)
    numbers = _numbers(rows)
    found: list[list[float]] = [[] for _ in numbers]
    tests = [t for t in _tests(before, rows, numbers) if np.isfinite(t[4]) and t[2] < t[3]]
    chosen = [tests[i] for i in sorted(rng.permutation(len(tests))[: most * len(numbers)])]
    if chosen:
        for test, value in zip(chosen, _bisect(before, rows, numbers, chosen), strict=True):
            found[test[0]].append(value)
    return [np.array(values) for values in found]


def hurting_rows(
    estimator: Any, rows: Any, count: int, seed: int = 0, *, missing: bool, most: int = 40
) -> Any:
    """Draw rows of switch points, their neighbours, fitted values and special ones.

    Parameters
    ----------
    estimator : object
        Fitted.
    rows : array or table
        Ordinary rows, at least as many, of which about half of the values are taken.
    missing : bool
        NaN is among the values.
    most : int
        Switch points sought for each column, on average.
    """
    rng = np.random.default_rng(seed)
    points = switch_points(estimator, rows, rng, most)
    fitted = fitted_values(estimator, len(points))
    special = np.array([*SPECIAL, *[np.nan] * 6 * missing])
    made = _part(rows, rng.integers(0, len(rows), count))
    for position, column in enumerate(_numbers(rows)):
        own = _around(np.concatenate([points[position], fitted[position]]))
        pool = np.concatenate([np.repeat(own, max(1, 200 // max(len(own), 1))), special])
        drawn = rng.choice(pool, count)
        kept = rng.random(count) < 0.5
        values = np.where(kept, _column(made, column), drawn)
        _set(made, column, values if missing else np.where(np.isnan(values), 0.0, values))
    return made


def fitted_values(estimator: Any, width: int) -> list[np.ndarray]:
    """Collect the fills, means, knots and edges that steps fitted to the raw columns keep."""
    kept: list[list[np.ndarray]] = [[] for _ in range(width)]
    names = ("statistics_", "mean_", "center_", "data_min_", "data_max_", "bin_edges_")
    for step in _steps(estimator):
        tables = [getattr(step, name, None) for name in names]
        quantiles = getattr(step, "quantiles_", None)
        tables.append(None if quantiles is None else list(np.asarray(quantiles).T))
        for table in tables:
            if table is not None and len(table) == width:
                for values, own in zip(kept, table, strict=True):
                    values.append(np.atleast_1d(np.asarray(own, np.float64)))
    return [np.unique(np.concatenate([np.zeros(0), *values])) for values in kept]


def _steps(estimator: Any) -> Iterator[Any]:
    """Yield an estimator and all inside it."""
    yield estimator
    inside = [step for _, step in getattr(estimator, "steps", ())]
    inside += getattr(estimator, "estimators_", None) or []
    inside += [
        getattr(c, "estimator", None) for c in getattr(estimator, "calibrated_classifiers_", ())
    ]
    for step in inside:
        yield from _steps(step)


def _tests(
    before: Before, rows: Any, numbers: list[Any]
) -> Iterator[tuple[int, tuple[int, int], float, float, float]]:
    """Yield tests that one raw column decides: its position, the tested column of which input,
    ends between which the test switches, and the threshold.
    """
    for position, column in enumerate(numbers):
        probes = _probes(_column(rows, column))
        varied = _part(_filled(rows), np.zeros(len(probes), int))
        _set(varied, column, probes)
        for place, values in enumerate(before(varied)):
            for k in np.flatnonzero(np.nanmax(values, axis=0) > np.nanmin(values, axis=0)):
                low, high = np.flatnonzero(~np.isnan(values[:, k]))[[0, -1]]
                for t in before.thresholds(before.inputs[place], int(k)):
                    if (values[low, k] <= t) != (values[high, k] <= t):
                        yield position, (place, int(k)), probes[low], probes[high], float(t)


def _probes(values: np.ndarray) -> np.ndarray:
    """Return values between and beyond the ends of a column, and the ends, in order."""
    least, most = (end(values[np.isfinite(values)]) for end in (np.min, np.max))
    beyond = np.linspace(least - (most - least), most + (most - least), PROBES)
    return np.sort(np.append(beyond, [least, most]))


def _bisect(before: Before, rows: Any, numbers: list[Any], tests: list[Any]) -> np.ndarray:
    """Bisect the floats between the ends of all tests at once, one row each."""
    made = _part(_filled(rows), np.zeros(len(tests), int))
    low = _keys(np.array([test[2] for test in tests]))
    high = _keys(np.array([test[3] for test in tests]))
    side = _sides(before, made, numbers, tests, low)
    for _ in range(BISECTIONS):
        middle = low // 2 + high // 2 + (low & high & 1)
        same = _sides(before, made, numbers, tests, middle) == side
        low = np.where(same, middle, low)
        high = np.where(same, high, middle)
    return _floats(low)


def _sides(
    before: Before, made: Any, numbers: list[Any], tests: list[Any], keys: np.ndarray
) -> np.ndarray:
    """Return on which side of its threshold each test is, at the raw values of these keys."""
    base = _part(made, np.arange(len(tests)))
    values = _floats(keys)
    for position, column in enumerate(numbers):
        mine = np.array([test[0] == position for test in tests])
        _set(base, column, np.where(mine, values, _column(base, column)))
    outputs = before(base)
    tested = [outputs[test[1][0]][i, test[1][1]] for i, test in enumerate(tests)]
    return np.array(tested) <= np.array([test[4] for test in tests])


def _keys(values: np.ndarray) -> np.ndarray:
    """Number the floats in their order."""
    bits = values.astype(np.float64).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _floats(keys: np.ndarray) -> np.ndarray:
    """Return the floats of such numbers."""
    return np.where(keys < 0, np.int64(-(2**63)) - keys, keys).view(np.float64)


def _around(values: np.ndarray) -> np.ndarray:
    """Values with two neighbours on either side."""
    up = np.nextafter(values, np.inf)
    down = np.nextafter(values, -np.inf)
    further = [np.nextafter(up, np.inf), np.nextafter(down, -np.inf)]
    return np.concatenate([values, up, down, *further])


def _numbers(rows: Any) -> list[Any]:
    """Columns of numbers: their names, or their places in a matrix."""
    if isinstance(rows, pd.DataFrame):
        return list(rows.select_dtypes("number").columns)
    return list(range(rows.shape[1]))


def _column(rows: Any, column: Any) -> np.ndarray:
    return rows[column].to_numpy() if isinstance(rows, pd.DataFrame) else rows[:, column]


def _set(rows: Any, column: Any, values: np.ndarray) -> None:
    if isinstance(rows, pd.DataFrame):
        rows[column] = values
    else:
        rows[:, column] = values


def _part(rows: Any, index: np.ndarray) -> Any:
    """Copy rows by their places."""
    return rows.iloc[index].reset_index(drop=True) if hasattr(rows, "iloc") else rows[index]


def _filled(rows: Any) -> Any:
    """Return the rows without NaN in the columns of numbers."""
    return rows.fillna(0.0) if isinstance(rows, pd.DataFrame) else np.nan_to_num(rows)
