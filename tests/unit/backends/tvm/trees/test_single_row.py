"""Trees for one row: how tops of each form are passed, and how their columns are looked up."""

from __future__ import annotations

import numpy as np
import pytest
from forests import hostile_rows, random_forest, random_symmetric_forest
from shaped_forests import grown

from hbconv.backends.tvm.compile import compile_program
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import FEW
from hbconv.backends.tvm.trees.bins.tables import make_bins
from hbconv.backends.tvm.trees.single_row.row_columns import (
    TO_SECOND,
    RowColumns,
    look_up_indices,
)
from hbconv.backends.tvm.trees.single_row.top_tables import count_slots, make_tree_tops
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.symmetric_forest import find_level_splits

AVX2 = Machine("x86-64-v3")


def forest_of(name):
    rng = np.random.default_rng(3)
    return {
        "levels": lambda: random_symmetric_forest(rng, [3, 0, 6, 1, 8] * 20, n_outputs=3),
        "levels of categories": lambda: random_symmetric_forest(rng, [6] * 40, n_categorical=2),
        "deep levels": lambda: random_symmetric_forest(rng, [9, 2, 10]),
        "merges": lambda: grown(rng, 75, 51, "balanced", n_features=20),
        "levels of one split": lambda: grown(rng, 40, 2, "balanced"),
        "merges of two levels": lambda: grown(rng, 40, 4, "balanced"),
        "merges of many columns": lambda: grown(rng, 40, 32, "balanced", n_features=50),
        "moves": lambda: grown(rng, 75, 31, "random", n_features=20),
        "moves of tops": lambda: random_forest(rng, n_trees=40, n_features=5, max_depth=9),
    }[name]()


FORMS = {
    "levels": ("Levels", 8),
    "levels of categories": ("Levels", 6),
    "deep levels": ("Moves", 31),
    "merges": ("Merges", 63),
    "levels of one split": ("Levels", 1),
    "merges of two levels": ("Merges", 3),
    "merges of many columns": ("Merges", 31),
    "moves": ("Moves", 30),
    "moves of tops": ("Moves", 31),
}
"""The form of each forest, and the slots of its largest group."""


@pytest.mark.parametrize("name", FORMS)
def test_the_form_follows_the_shape_of_the_trees(name):
    forest = forest_of(name)
    trees = Trees.by_output(forest, 16, np.arange(forest.n_leaves))
    columns = RowColumns.of(make_bins(forest, "float32"))
    splits = find_level_splits(forest)
    tops = make_tree_tops(forest, columns, trees.order, splits, AVX2)
    form, slots = FORMS[name]
    assert type(tops.form).__name__ == form
    assert np.diff(tops.group_start).max() == slots
    assert count_slots(forest, splits)[0] <= slots


@pytest.mark.usefixtures("vector")
@pytest.mark.share("vector")
@pytest.mark.parametrize("name", FORMS)
def test_each_form_gives_the_leaves_and_sums_of_the_forest(name):
    forest = forest_of(name)
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    outputs = {
        kind: b.op(f"tree_{kind}", x, forest=forest, strategy="select")
        for kind in ("scores", "leaves")
    }
    few = compile_program(b.program(outputs), FEW, Machine.host(), Target("tvm"))
    rows = hostile_rows(np.random.default_rng(0), forest, "float32", 43)
    found = few.run({"x": rows})
    np.testing.assert_array_equal(found["scores"], forest.scores(rows))
    np.testing.assert_array_equal(found["leaves"], forest.leaves(rows))


def shuffle(table, index):
    """Look up as the instruction does: by the lowest four bits, zero where the highest is set."""
    return np.where(index < 128, table[index & 15], 0)


@pytest.mark.parametrize("n_columns", [1, 16, 17, 28, 32, 33, 48, 100, 128])
def test_one_index_looks_up_in_a_pair_of_tables(n_columns):
    columns = np.arange(n_columns)[np.newaxis]
    indices = look_up_indices(columns, n_columns, AVX2)[0]
    tables = np.arange(1, -(-n_columns // 32) * 32 + 1).reshape(-1, 2, 16)
    assert len(indices) == len(tables)
    found = 0
    for (first, second), index in zip(tables, indices, strict=True):
        found = found | shuffle(first, index) | shuffle(second, (index + TO_SECOND).astype("u1"))
    np.testing.assert_array_equal(found, columns[0] + 1)
