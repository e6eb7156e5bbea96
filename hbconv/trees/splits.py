"""All splits of a forest in one form, ``left = x[column] <= threshold``: NaN and sets included."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.tensor.builder import Builder, Value
from hbconv.trees.forest import Forest

__all__ = [
    "Splits",
    "decide_tables",
    "find_nan_rules",
    "prepare_splits",
    "prepare_threshold_splits",
    "with_tables_as_columns",
]

PLAIN = 0
"""The split reads the column itself."""
NAN_IS_LOW = 1
"""The split reads a copy of the column in which NaN became -inf."""
IS_NAN = 2
"""The split reads -inf where the column is NaN, +inf where it is a number."""


@dataclass(frozen=True)
class Splits:
    """The splits of a forest over prepared columns: a row goes left if ``x[column] <= threshold``.

    NaN is never ``<=``, so it goes right. Three rules bring every split to this form:

    1. If one number goes the way of NaN at every split of a column, NaN becomes that number.
    2. Otherwise, a split that sends NaN left reads a copy of the column with -inf for NaN.
    3. "Left only if NaN" (strict, threshold -inf) reads -inf for NaN and +inf for all else.

    A categorical split reads a column of its table: 0 where the row goes left, else 1.

    Parameters
    ----------
    x : Value, shape (n_rows, n_columns)
    column : int32 array, shape (n_splits,)
    threshold : array of x's dtype, shape (n_splits,)
    """

    x: Value
    column: npt.NDArray[np.int32]
    threshold: npt.NDArray[Any]

    def goes_left(self, splits: npt.NDArray[Any], b: Builder) -> Value:
        """Decide the given splits: bool (n_rows, len(splits))."""
        return b.take(self.x, self.column[splits]) <= b.constant(self.threshold[splits])


def prepare_splits(forest: Forest, x: Value, b: Builder) -> Splits:
    """Write the columns that all splits read."""
    splits = prepare_threshold_splits(forest, x, b)
    tables = forest.tables
    if not tables:
        return splits
    table_column = splits.x.shape[0] + tables.of_test.data
    column = np.where(forest.on_category, table_column, splits.column)
    zero = np.zeros_like(splits.threshold)
    return Splits(
        b.concat([splits.x, decide_tables(forest, x, b)]),
        column.astype(np.int32),
        np.where(forest.on_category, zero, splits.threshold),
    )


def prepare_threshold_splits(forest: Forest, x: Value, b: Builder) -> Splits:
    """Write the columns that splits on thresholds read; a categorical split finds its code."""
    threshold = forest.less_equal_thresholds(x.dtype)
    substitute, rule = find_nan_rules(forest, x.dtype)
    if not np.isnan(substitute).all():
        x = b.where(b.op("isnan", x), b.constant(substitute), x)
    used = np.unique(rule)
    columns = b.concat([_apply(rule_used, x, b) for rule_used in used])
    column = forest.feature.data + forest.n_features * np.searchsorted(used, rule)
    # Such a column holds -inf or +inf, and 0 lies between them.
    threshold = np.where(rule == IS_NAN, np.zeros_like(threshold), threshold)
    return Splits(columns, column.astype(np.int32), threshold)


def _apply(rule: int, x: Value, b: Builder) -> Value:
    """Write the columns as splits of one rule read them."""
    if rule == PLAIN:
        return x
    lowest = b.constant(-np.inf, x.dtype)
    missing = b.op("isnan", x)
    return b.where(missing, lowest, x if rule == NAN_IS_LOW else b.constant(np.inf, x.dtype))


def find_nan_rules(forest: Forest, dtype: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int8]]:
    """Find how the splits of each column decide NaN.

    1. Of each column, take the least threshold of splits that send NaN left, and the largest
       threshold of splits that send NaN right.
    2. If the least exceeds the largest, it goes the way of NaN at every split of the column.
    3. Columns with categorical splits, or with splits "left only if NaN", have no such number.

    Returns
    -------
    substitute : array of dtype, shape (n_features,)
        A number that goes the way of NaN at every split of the column; NaN where none does,
        or none is needed.
    rule : int8 array, shape (n_splits,)
        What each split reads: PLAIN, NAN_IS_LOW or IS_NAN.
    """
    return _find_nan_rules(forest.tests_alone, dtype)


# All strategies ask this of one forest, one after another.
@lru_cache(maxsize=2)
def _find_nan_rules(forest: Forest, dtype: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int8]]:
    threshold = forest.less_equal_thresholds(dtype)
    feature = forest.feature.data
    features = np.arange(forest.n_features)
    to_left = forest.default_left.data & ~forest.on_category
    only_missing = to_left & forest.strict & (forest.threshold.data == -np.inf)
    least = np.full(forest.n_features, np.inf, dtype)  # 1
    largest = np.full(forest.n_features, -np.inf, dtype)
    # fmin and fmax ignore NaN, which is a threshold that no number passes.
    np.fmin.at(least, feature[to_left], threshold[to_left])
    np.fmax.at(largest, feature[~to_left], threshold[~to_left])
    alone = ~np.isin(features, feature[~to_left])
    fits = np.isin(features, feature[to_left]) & ((largest < least) | alone)  # 2
    fits &= ~np.isin(features, feature[only_missing | forest.on_category])  # 3
    copied = np.where(only_missing, np.int8(IS_NAN), np.int8(NAN_IS_LOW))
    rule = np.where(to_left & ~fits[feature], copied, np.int8(PLAIN))
    return np.where(fits, least, np.array(np.nan, dtype)), rule


def decide_tables(forest: Forest, x: Value, b: Builder) -> Value:
    """Look each row up in every table: 0 where it goes left, 1 where it goes right.

    Returns
    -------
    Value of x's dtype, shape (n_rows, n_tables)
    """
    tables = forest.tables
    if tables is None:
        raise ValueError("The forest has no tables")
    code = b.cast(b.take(x, tables.features(forest)), "int32")
    entry = b.op("minimum", code, b.constant(tables.last)) + b.constant(tables.start.data[:-1])
    return b.lookup(b.constant((~tables.goes_left.data).astype(x.dtype)), entry)


def with_tables_as_columns(forest: Forest) -> Forest:
    """Return the forest without categorical splits, over its columns and then those of the tables.

    The columns of the tables are those that ``decide_tables`` writes.
    """
    if forest.tables is None:
        return forest
    listed = forest.on_category
    feature = np.where(listed, forest.n_features + forest.tables.of_test.data, forest.feature.data)
    # The columns hold 0 for left and 1 for right: x < 1 and x <= 0 both mean left.
    between = 1.0 if forest.strict else 0.0
    return replace(
        forest,
        feature=Array.of(feature, np.int32),
        threshold=Array(
            np.where(listed, forest.threshold.data.dtype.type(between), forest.threshold.data)
        ),
        default_left=Array(forest.default_left.data & ~listed),
        n_features=forest.n_features + forest.tables.count,
        tables=None,
    )
