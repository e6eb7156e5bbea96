"""The distinct tests of a forest, each as a predicate on the value of its column.

Keys: whole numbers in the order of the values of a dtype, to bisect between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = ["DistinctTests", "Keys", "find_distinct_tests", "keys_of", "values_of"]

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


Keys = npt.NDArray[np.int64]


def keys_of(values: npt.ArrayLike, dtype: str) -> Keys:
    """Return the place of each value among those of its dtype, from 0 for 0.0 and -1 for -0.0.

    An int is its own key. NaN has a key above that of infinity.

    Examples
    --------
    >>> keys_of([-0.0, 0.0, 5e-324], "float64")
    array([-1,  0,  1])
    """
    given = np.asarray(values, dtype)
    if given.dtype.kind != "f":
        return given.astype(np.int64)
    bits = given.view(f"i{given.dtype.itemsize}").astype(np.int64)
    magnitude = bits & np.iinfo(f"i{given.dtype.itemsize}").max
    return np.where(bits < 0, -1 - magnitude, magnitude)


def values_of(keys: Keys, dtype: str) -> npt.NDArray[Any]:
    """Return the values of some keys.

    Examples
    --------
    >>> values_of(keys_of([-1.5, np.inf, np.nan], "float32"), "float32")
    array([-1.5,  inf,  nan], dtype=float32)
    """
    kind = np.dtype(dtype)
    if kind.kind != "f":
        return keys.astype(kind)
    whole = f"i{kind.itemsize}"
    negative = (-1 - keys) + np.int64(np.iinfo(whole).min)
    return np.where(keys < 0, negative, keys).astype(whole).view(kind)
