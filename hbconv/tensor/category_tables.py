"""A forest's tests on categories, decided before its trees are walked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.forest import Forest
from hbconv.tensor.builder import Builder, Value

__all__ = ["decide_tables", "with_tables_as_columns"]


def decide_tables(forest: Forest, x: Value, b: Builder) -> Value:
    """Look the rows up in every table, (rows, n_tables) of x's dtype: 0 where a row goes left, 1 where it does not."""
    tables = forest.tables
    if tables is None:
        raise ValueError("The forest has no tables")
    code = b.cast(b.take(x, tables.features(forest)), "int32")
    entry = b.op("minimum", code, b.constant(tables.last)) + b.constant(tables.start.data[:-1])
    return b.lookup(b.constant((~tables.goes_left.data).astype(x.dtype)), entry)


def with_tables_as_columns(forest: Forest) -> Forest:
    """Return the forest over its columns and those of ``decide_tables``, with nothing but thresholds."""
    if forest.tables is None:
        return forest
    listed = forest.on_category
    feature = np.where(listed, forest.n_features + forest.tables.of_test.data, forest.feature.data)
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
