"""Symmetric trees of the tile compiler, and the sums of leaves whose numbers are bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from forests import hostile_rows, random_forest, random_symmetric_forest

from hbconv.array import Array
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.trees.bins.tables import make_bins
from hbconv.backends.tvm.trees.choose import find_kernel
from hbconv.backends.tvm.trees.oblivious.emit import Oblivious
from hbconv.backends.tvm.trees.tree_kernel import TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.symmetric_forest import find_level_splits

pytestmark = [pytest.mark.usefixtures("vector"), pytest.mark.share("vector")]

ROWS = (0, 1, 9, 263, 700)
"""Whole words of eight rows and some that are left, in one block and in several."""


def task(forest, dtype="float64", strategy="select"):
    return TreeTask(forest, dtype, strategy, Schedule(), Machine.host())


def check(forest, dtype, strategy="select", rows=ROWS):
    """Compare scores and leaves with the forest itself."""
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    outputs = {
        name: b.op(f"tree_{name}", x, forest=forest, strategy=strategy)
        for name in ("scores", "leaves")
    }
    artifact = BACKEND.compile(b.program(outputs), Target("tvm"))
    rng = np.random.default_rng(0)
    for n in rows:
        given = hostile_rows(rng, forest, dtype, n)
        found = artifact.run({"x": given})
        np.testing.assert_array_equal(found["scores"], forest.scores(given), err_msg=f"{n} rows")
        np.testing.assert_array_equal(found["leaves"], forest.leaves(given), err_msg=f"{n} rows")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("depths", "kinds"),
    [
        ([3, 0, 6, 1, 6], {}),
        ([3, 0, 6, 1, 6], {"n_outputs": 3, "vector": True}),
        ([4, 5, 2, 6] * 5, {"n_outputs": 2}),
        ([6] * 21, {"n_categorical": 2}),
        ([8] * 7, {"n_outputs": 3}),
        ([8, 7] * 40, {"n_features": 1}),
        ([9, 2, 10], {"n_categorical": 1}),
    ],
)
def test_trees_of_one_split_a_level(depths, kinds, dtype):
    forest = random_symmetric_forest(np.random.default_rng(3), depths, **kinds)
    assert find_kernel(task(forest, dtype)).name == "oblivious"
    assert len(find_level_splits(forest)) == sum(depths)
    check(forest, dtype)


@pytest.mark.parametrize(("depth", "bits"), [(8, 8), (9, 16), (17, 32)])
def test_leaf_numbers_take_the_bytes_they_need(depth, bits):
    forest = random_symmetric_forest(np.random.default_rng(0), [depth])
    kernel = Oblivious()
    trees = Trees.by_output(forest, 1, kernel.numbers(task(forest)))
    assert np.iinfo(kernel.tables(task(forest), trees).dtype).bits == bits
    check(forest, "float64", rows=(40,))


def test_more_thresholds_than_a_byte_tells_apart_take_several_columns():
    forest = random_symmetric_forest(np.random.default_rng(1), [8, 7] * 40, n_features=1)
    assert make_bins(forest, "float64").columns == 6  # three times 255, for NaN on either side
    strict = replace(forest, default_left=Array(np.ones(forest.n_tests, np.bool_)))
    assert make_bins(strict, "float64").columns == 3
    check(strict, "float32", strategy="tree_traversal")


def test_a_level_of_two_directions_is_not_symmetric():
    forest = random_symmetric_forest(np.random.default_rng(3), [3, 0, 6, 1, 6])
    other = forest.default_left.data ^ (np.arange(forest.n_tests) == 20)
    forest = replace(forest, default_left=Array(other))
    assert find_level_splits(forest) is None
    assert find_kernel(task(forest)).name != "oblivious"
    check(forest, "float32", strategy="tree_traversal", rows=(33,))


@pytest.mark.parametrize(("depth", "outputs"), [(6, 1), (7, 3), (8, 2)])
def test_leaves_of_any_trees_whose_numbers_are_bytes(depth, outputs):
    """Words of eight numbers, where no vectors of 64 bytes look the values up."""
    rng = np.random.default_rng(depth)
    forest = random_forest(rng, n_trees=21, max_depth=depth, n_outputs=outputs)
    assert 32 < np.diff(forest.first_leaf.data).max() <= 256
    check(forest, "float32")
