"""The distinct tests of a forest, each as a predicate on the value of its column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = ["DistinctTests", "find_distinct_tests"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DistinctTests:
    """Tests that differ, in the form ``value <= threshold``.

    Parameters
    ----------
    forest : Forest
    column : int array, shape (n,)
    threshold : float64 array, shape (n,)
        NaN where no number goes left.
    default_left : bool array, shape (n,)
    table : int array, shape (n,)
        Table of a test on categories, else -1.
    of_test : int array, shape (n_tests,)
        Which of them each test of the forest is.
    """

    forest: Forest
    column: Ints
    threshold: npt.NDArray[np.float64]
    default_left: Bools
    table: Ints
    of_test: Ints

    def __len__(self) -> int:
        return len(self.column)

    def decide(self, tests: Ints, values: npt.NDArray[np.float64]) -> Bools:
        """Whether values go left, each at its own test; the two broadcast."""
        goes_left: Bools = np.where(
            np.isnan(values), self.default_left[tests], values <= self.threshold[tests]
        )
        listed = np.broadcast_to(self.table[tests] >= 0, goes_left.shape)
        if self.forest.tables is None or not listed.any():
            return goes_left
        table = np.broadcast_to(self.table[tests], goes_left.shape)[listed]
        code = np.broadcast_to(values, goes_left.shape)[listed]
        goes_left[listed] = self.forest.tables.decide(table, code)
        return goes_left


def find_distinct_tests(forest: Forest, dtype: str) -> DistinctTests:
    """Find the tests that differ by column, threshold, default or table, for columns of a dtype."""
    columns: dict[str, npt.NDArray[Any]] = {
        "column": forest.feature.data.astype(np.int64),
        "threshold": forest.less_equal_thresholds(dtype).astype(np.float64) + 0.0,
        "default_left": forest.default_left.data & ~forest.on_category,
        "table": np.where(forest.on_category, forest.tables.of_test.data, -1).astype(np.int64)
        if forest.tables
        else np.full(forest.n_tests, -1, np.int64),
    }
    rows = np.stack(
        [
            columns["threshold"].view(np.int64),
            *(columns[name].astype(np.int64) for name in ("column", "default_left", "table")),
        ],
        axis=1,
    )
    _, first, of_test = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    distinct = {name: values[first] for name, values in columns.items()}
    return DistinctTests(forest, **distinct, of_test=of_test.reshape(-1))
