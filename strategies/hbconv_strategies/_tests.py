"""All tests of a forest in one form, ``left = x[column] <= threshold``, NaN included, and what the strategies share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.forest import Forest
from hbconv.strategy import Refusal, Work
from hbconv.target import Target
from hbconv.tensor import Builder, Value
from hbconv.tensor.tables import decide_tables

__all__ = ["VALUE", "Tests", "fixed_leaves", "prepare_tests", "prepare_thresholds", "refuse_memory", "tests_work", "thresholds_work"]

VALUE = 8
"""Bytes of a feature value, at most."""


@dataclass(frozen=True)
class Tests:
    """The tests of a forest over prepared columns: a row goes left where ``x[column] <= threshold``.

    NaN is never ``<=``, so it goes right; a test that sends it left reads a copy of its column in which NaN became
    -inf. One test cannot be said so: "left only if NaN" (strict, threshold -inf), which reads a column of -inf for NaN
    and +inf for all else. A test on a category reads a column of its table: 0 where the row goes left, else 1.
    """

    x: Value
    column: npt.NDArray[np.int32]
    threshold: npt.NDArray[Any]

    def goes_left(self, tests: npt.NDArray[Any], b: Builder) -> Value:
        """Decide the tests, each at a fixed place: bool (rows, len(tests))."""
        return b.take(self.x, self.column[tests]) <= b.constant(self.threshold[tests])


def prepare_tests(forest: Forest, x: Value, b: Builder) -> Tests:
    """Write the columns that the tests read, and say where each finds its own."""
    tests, tables = prepare_thresholds(forest, x, b), forest.tables
    if not tables:
        return tests
    column = np.where(forest.on_category, tests.x.shape[0] + tables.of_test.data, tests.column).astype(np.int32)
    return Tests(b.concat([tests.x, decide_tables(forest, x, b)]), column, np.where(forest.on_category, np.zeros_like(tests.threshold), tests.threshold))


def prepare_thresholds(forest: Forest, x: Value, b: Builder) -> Tests:
    """Write the columns of the tests on thresholds; those on categories, which never hold, find their code."""
    threshold = forest.less_equal_thresholds(x.dtype)
    kind = _kinds(forest)
    used = np.unique(kind)
    lowest = b.constant(-np.inf, x.dtype)
    planes = [
        lambda: x,
        lambda: b.where(b.op("isnan", x), lowest, x),
        lambda: b.where(b.op("isnan", x), lowest, b.constant(np.inf, x.dtype)),
    ]
    column = forest.feature.data + forest.n_features * np.searchsorted(used, kind)
    columns = b.concat([planes[k]() for k in used])
    return Tests(columns, column.astype(np.int32), np.where(kind == 2, np.zeros_like(threshold), threshold))


def tests_work(forest: Forest) -> Work:
    """Count what ``prepare_tests`` writes."""
    work = thresholds_work(forest)
    if not forest.tables:
        return work
    tables, planes = forest.tables.count, len(np.unique(_kinds(forest))) * forest.n_features
    return Work(
        operators=work.operators + 6,
        elementwise=work.elementwise + 4 * tables + planes,
        takes=tables,
        reads=tables,
        tables=VALUE * len(forest.tables.goes_left) + 8 * tables,
        temporaries=work.temporaries + tables * (2 * VALUE + 12) + VALUE * planes,
    )


def thresholds_work(forest: Forest) -> Work:
    """Count what ``prepare_thresholds`` writes."""
    kinds = np.unique(_kinds(forest))
    copies = len(kinds) - (0 in kinds)
    if not copies:
        return Work()
    joined = len(kinds) if len(kinds) > 1 else 0
    return Work(
        operators=1 + copies + (joined > 0),
        elementwise=forest.n_features * (1 + copies + joined),
        temporaries=forest.n_features * (VALUE * (copies + joined) + 1),
    )


def fixed_leaves(forest: Forest, x: Value, b: Builder) -> Value:
    """Leaves of a forest without tests: the same for every row."""
    return b.op("expand", x, b.constant(~forest.roots.data))


def refuse_memory(work: Work, target: Target, tables: str, temporaries: str) -> Refusal | None:
    """Refuse work that needs more memory than the target allows, and say how much."""
    if work.tables > target.memory:
        return Refusal(f"needs {_bytes(work.tables)} for {tables}, allowed {_bytes(target.memory)}")
    rows = work.rows_at_once(target)
    needed = work.tables + work.temporaries * rows
    if needed > target.memory:
        return Refusal(f"needs {_bytes(needed)} for {temporaries} of {rows} rows, allowed {_bytes(target.memory)}")
    return None


def _kinds(forest: Forest) -> npt.NDArray[np.int_]:
    """Column that each test needs: 0 as it is, 1 with -inf for NaN, 2 whether it is NaN (where no number goes left)."""
    never = (forest.threshold.data == -np.inf) & forest.strict
    return np.where(forest.default_left.data & ~forest.on_category, np.where(never, 2, 1), 0)


def _bytes(count: int) -> str:
    """Write a number of bytes as people do.

    Examples
    --------
    >>> _bytes(3_100_000_000), _bytes(50_000_000), _bytes(512)
    ('3.1 GB', '50.0 MB', '0.5 kB')
    """
    size, unit = next((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= s or u == "kB")
    return f"{count / size:.1f} {unit}"
