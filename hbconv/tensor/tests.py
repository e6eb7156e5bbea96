"""All tests of a forest in one form, ``left = x[column] <= threshold``, NaN included."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.forest import Forest
from hbconv.tensor.builder import Builder, Value
from hbconv.tensor.tables import decide_tables

__all__ = ["Tests", "planes_of_missing", "prepare_tests", "prepare_thresholds"]


@dataclass(frozen=True)
class Tests:
    """The tests of a forest over prepared columns: a row goes left where ``x[column] <= threshold``.

    NaN is never ``<=``, so it goes right. Where one number decides as NaN does in every test of a column, NaN becomes that
    number. Otherwise a test that sends NaN left reads a copy of its column in which NaN became -inf. One test cannot be said
    so: "left only if NaN" (strict, threshold -inf), which reads a column of -inf for NaN and +inf for all else. A test on a
    category reads a column of its table: 0 where the row goes left, else 1.
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
    column = np.where(
        forest.on_category, tests.x.shape[0] + tables.of_test.data, tests.column
    ).astype(np.int32)
    return Tests(
        b.concat([tests.x, decide_tables(forest, x, b)]),
        column,
        np.where(forest.on_category, np.zeros_like(tests.threshold), tests.threshold),
    )


def prepare_thresholds(forest: Forest, x: Value, b: Builder) -> Tests:
    """Write the columns of the tests on thresholds; those on categories, which never hold, find their code."""
    threshold = forest.less_equal_thresholds(x.dtype)
    instead, kind = planes_of_missing(forest, x.dtype)
    if not np.isnan(instead).all():
        x = b.where(b.op("isnan", x), b.constant(instead), x)
    used = np.unique(kind)
    lowest = b.constant(-np.inf, x.dtype)
    planes = [
        lambda: x,
        lambda: b.where(b.op("isnan", x), lowest, x),
        lambda: b.where(b.op("isnan", x), lowest, b.constant(np.inf, x.dtype)),
    ]
    column = forest.feature.data + forest.n_features * np.searchsorted(used, kind)
    columns = b.concat([planes[k]() for k in used])
    return Tests(
        columns, column.astype(np.int32), np.where(kind == 2, np.zeros_like(threshold), threshold)
    )


@lru_cache(maxsize=1)  # every strategy asks it of a forest
def planes_of_missing(forest: Forest, dtype: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int_]]:
    """Say how NaN is decided, for columns of a dtype.

    Returns
    -------
    instead : array, shape (n_features,)
        A number that every test of the column decides as it does NaN: the least threshold of a test that sends NaN left, if
        no other test's is as large. NaN where there is none, or none is needed.
    kind : array of int, shape (n_tests,)
        What each test reads: 0 the column, 1 the column with -inf for NaN, 2 whether it is NaN (where no number goes left).
    """
    threshold, feature = forest.less_equal_thresholds(dtype), forest.feature.data
    to_left, listed = forest.default_left.data & ~forest.on_category, forest.on_category
    only_missing = to_left & forest.strict & (forest.threshold.data == -np.inf)
    least, largest = (
        np.full(forest.n_features, np.inf, dtype),
        np.full(forest.n_features, -np.inf, dtype),
    )
    np.fmin.at(least, feature[to_left], threshold[to_left])
    np.fmax.at(largest, feature[~to_left], threshold[~to_left])
    fits = np.isin(np.arange(forest.n_features), feature[to_left]) & (
        (largest < least) | ~np.isin(np.arange(forest.n_features), feature[~to_left])
    )
    fits &= ~np.isin(np.arange(forest.n_features), feature[only_missing | listed])
    kind = np.where(to_left & ~fits[feature], np.where(only_missing, 2, 1), 0)
    return np.where(fits, least, np.array(np.nan, dtype)), kind
