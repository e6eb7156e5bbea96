"""Walks down large forests: the next tree is fetched, and leaves of equal values share a number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from forests import hostile_rows, random_forest

from hbconv import array
from hbconv.array import Array, number_rows
from hbconv.backends.tvm.binary.code_generation import compile_functions
from hbconv.backends.tvm.compile import compile_program
from hbconv.backends.tvm.emit.tile_function import write_function
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.trees.leaves.tables import lay_out_values
from hbconv.backends.tvm.trees.tree_kernel import TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.backends.tvm.trees.walk.emit import Walk
from hbconv.backends.tvm.trees.walk.tables import ROWS_WALKING, make_walk_tables
from hbconv.target import Target
from hbconv.tensor import Builder

SCHEDULE = Schedule(tile=64, block=64, lanes=32)
NO_CACHE = 0
"""Bytes of a second-level cache in which no forest stays."""


def walking(forest, dtype):
    """Scores and leaves of a forest, in one program."""
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    names = ("scores", "leaves")
    return b.program(
        {n: b.op(f"tree_{n}", x, forest=forest, strategy="tree_traversal") for n in names}
    )


def deep_forest(dtype="float64", distinct=None, **kinds):
    """Twelve ragged trees, whose leaves have so many distinct rows of values."""
    rng = np.random.default_rng(7)
    forest = random_forest(
        rng, n_trees=12, n_features=5, max_depth=9, n_outputs=3, dtype=dtype, **kinds
    )
    if distinct is None:
        return forest
    values = rng.standard_normal((distinct, forest.values.shape[1]))
    # Equal as numbers, but not to the last bit: a sum that begins with -0.0 tells them apart.
    values[:2] = 0.0
    values[1] *= -1
    values = values[rng.integers(0, distinct, forest.n_leaves)]
    start = np.full(3, -0.0)
    return replace(forest, values=Array(values), start=Array(start))


@pytest.mark.usefixtures("vector")
@pytest.mark.share("vector")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("distinct", [None, 3])
@pytest.mark.parametrize("vector", [False, True])
def test_forests_larger_than_the_cache(dtype, distinct, vector):
    forest = deep_forest(dtype, distinct, vector=vector)
    machine = replace(Machine.host(), level2=NO_CACHE)
    artifact = compile_program(walking(forest, dtype), SCHEDULE, machine, Target("tvm"))
    rng = np.random.default_rng(0)
    # The numbers of groups of rows in a tile: none, one, one and a part, all, and more.
    for n in (0, ROWS_WALKING, ROWS_WALKING + 1, SCHEDULE.tile, 3 * SCHEDULE.tile + 5):
        x = hostile_rows(rng, forest, dtype, n)
        found = artifact.run({"x": x})
        assert found["scores"].tobytes() == forest.scores(x).tobytes()
        np.testing.assert_array_equal(found["leaves"], forest.leaves(x))


@pytest.mark.parametrize("features", [5, 70_000])
def test_lines_ahead_are_those_of_the_next_tree(features):
    forest = replace(deep_forest(), n_features=features)
    # Columns that are far apart make words of 64 bits, and nodes of twice the bytes.
    used = forest.feature.data.astype(np.int64) * (features // 5)
    forest = replace(forest, feature=Array.of(used, "int32"))
    trees = Trees.by_output(forest, 1, np.arange(forest.n_leaves))
    machine = replace(Machine.host(), level2=NO_CACHE)
    for dtype in ("float32", "float64"):
        tables = make_walk_tables(forest, dtype, trees, machine)
        node_bytes = 2 * tables.packed.nodes.itemsize
        first, lines = tables.ahead.T * 64 // node_bytes
        # The line of a root holds no node of the tree before.
        np.testing.assert_array_equal(first, np.roll(tables.roots, -1) - 1)
        assert lines.sum() + 8 == len(tables.packed.nodes)
        kept = replace(machine, level2=tables.packed.nodes.nbytes)
        assert not make_walk_tables(forest, dtype, trees, kept).ahead[:, 1].any()


def test_the_next_tree_is_fetched():
    machine = Machine("x86-64-v3")
    written = write_function(walking(deep_forest(), "float32"), SCHEDULE, machine)
    code = compile_functions(written.functions, machine).mod.inspect_source("asm")
    assert "prefetcht1" in code


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_values_share_a_number(dtype):
    forest = deep_forest(distinct=5, vector=True)
    forest = replace(forest, values=Array(forest.values.data.astype(dtype)))
    numbers = number_rows(forest.values.data)
    assert len(np.unique(numbers)) == 5, "0.0 and -0.0 are two"
    trees = Trees.by_output(forest, 1, numbers)
    table = lay_out_values(forest, trees)
    assert len(table) == 5
    assert table[numbers].tobytes() == forest.values.data.tobytes()


def test_rows_of_one_key_that_differ_share_no_number(monkeypatch):
    monkeypatch.setattr(array, "FNV_PRIME", np.uint64(0))
    np.testing.assert_array_equal(number_rows(np.array([[1.0], [2.0], [1.0]])), [0, 1, 2])


def test_values_are_numbered_only_where_they_are_few():
    def numbers(forest):
        task = TreeTask(forest, "float32", "tree_traversal", SCHEDULE, Machine.host())
        return Walk().numbers_added(task)

    every = deep_forest()
    np.testing.assert_array_equal(numbers(every), np.arange(every.n_leaves))
    assert numbers(deep_forest(distinct=3)).max() == 2
