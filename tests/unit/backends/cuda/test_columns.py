"""Columns and cutoffs, evaluated in numpy: each test decides as the forest does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from forests import forests, hostile_rows, random_forest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hbconv.backends.cuda.columns import CodeColumns, Cutoffs, join_columns, split_columns
from hbconv.trees.forest import Forest


def codes_of(columns: CodeColumns, x: Any) -> Any:
    codes = np.zeros((len(x), len(columns)), np.int64)
    for c in range(len(columns)):
        value = x[:, columns.feature[c]]
        if columns.last[c] >= 0:
            category = np.minimum(value, columns.last[c]).astype(int)
            codes[:, c] = columns.lookup[columns.first[c] + category]
        else:
            edges = columns.edges[c // 32, :, c % 32]
            right = (~(value[:, None] <= edges)).sum(1)
            codes[:, c] = np.where(np.isnan(value), columns.missing[c], right)
    return codes


def decide(cutoffs: Cutoffs, codes: Any) -> Any:
    below = codes[:, cutoffs.column] < cutoffs.cutoff
    return np.logical_xor.reduceat(below, cutoffs.start[:-1], axis=1)


def source_decides(forest: Forest, x: Any) -> Any:
    value = x[:, forest.feature.data]
    threshold = forest.threshold.data
    holds = value < threshold if forest.strict else value <= threshold
    left = np.where(np.isnan(value), forest.default_left.data, holds)
    if forest.tables:
        own = np.flatnonzero(forest.on_category)
        table = np.tile(forest.tables.of_test.data[own], (len(x), 1))
        left[:, own] = forest.tables.decide(table, value[:, own])
    return left


@pytest.mark.parametrize("make", [join_columns, split_columns])
@given(
    forest=forests(), dtype=st.sampled_from(["float32", "float64"]), seed=st.integers(0, 2**32 - 1)
)
@settings(deadline=None, max_examples=150, derandomize=True)
def test_each_test_decides_as_the_source(make, forest, dtype, seed):
    assume(forest.n_tests)
    x = hostile_rows(np.random.default_rng(seed), forest, dtype, 60)
    columns, cutoffs = make(forest, dtype)
    codes = codes_of(columns, x)
    assert codes.max() < 256
    np.testing.assert_array_equal(decide(cutoffs, codes), source_decides(forest, x))


def test_split_columns_have_one_cutoff_for_a_test():
    forest = random_forest(np.random.default_rng(0), 20, 4, 6, n_categorical=2)
    assert split_columns(forest, "float32")[1].single
    assert not join_columns(forest, "float32")[1].single


def test_one_code_of_nan_does_where_all_tests_send_it_one_way():
    for missing in ("left", "right"):
        forest = random_forest(np.random.default_rng(0), 20, 4, 6, missing=missing, awkward=0)
        columns, cutoffs = join_columns(forest, "float32")
        assert cutoffs.single
        assert len(columns) == 4
