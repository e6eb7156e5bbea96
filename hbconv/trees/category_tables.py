"""The categorical splits of a forest, decided by table before its trees are traversed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.tensor.builder import Builder, Value
from hbconv.trees.forest import Forest

__all__ = ["decide_tables", "with_tables_as_columns"]


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
