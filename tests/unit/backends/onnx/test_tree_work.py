"""What the cost model counts of TreeEnsemble and of the operators before it."""

from dataclasses import replace

import numpy as np
import pytest
from forests import random_forest

from hbconv.backends.onnx.trees import MISSING_VISITS, NODE_BYTES, count_tree_work
from hbconv.trees.splits import with_tables_as_columns


def listed(n_categorical, seed=0, **options):
    rng = np.random.default_rng(seed)
    return random_forest(rng, 6, 5, 4, n_categorical=n_categorical, **options)


def mean_steps(forest, code):
    """Count the splits below a node, where a row turns to either side alike."""
    if code < 0:
        return 0
    sides = forest.left.data[code], forest.right.data[code]
    return 1 + sum(mean_steps(forest, side) for side in sides) / 2


def test_thresholds_are_visits_alone():
    forest = listed(0, missing="right")
    work = count_tree_work(forest, "float64")
    assert forest.tables is None
    assert work.visits == sum(mean_steps(forest, root) for root in forest.roots.data)
    assert 0 < work.visits < 6 * forest.depth
    assert work.tables == NODE_BYTES * forest.n_tests
    assert replace(work, visits=0, tables=0) == replace(type(work)(), operators=1)


def test_each_visit_costs_more_where_a_split_asks_for_nan():
    right, left = (listed(0, missing=side) for side in ("right", "left"))
    asked = count_tree_work(left, "float64").visits
    assert asked == pytest.approx(MISSING_VISITS * count_tree_work(right, "float64").visits)


def test_each_tree_adds_to_one_of_several_outputs():
    assert count_tree_work(listed(0, n_outputs=3), "float64").sums == 6
    assert count_tree_work(listed(0), "float64").sums == 0


@pytest.mark.parametrize(("dtype", "words"), [("float32", 1), ("float64", 2)])
def test_each_table_is_taken_computed_read_and_copied_beside_the_columns(dtype, words):
    forest = listed(3)
    tables = forest.tables.count
    work = count_tree_work(forest, dtype)
    assert tables > 1
    assert work.reads == tables
    assert work.takes == words * tables
    wide = forest.n_features + tables
    assert work.elementwise == words * (tables + wide) + 2 * tables  # cast, concat; minimum, add
    assert work.tables >= len(forest.tables.goes_left)


def test_visits_are_those_of_the_same_trees_without_tables():
    forest = listed(3)
    plain = count_tree_work(with_tables_as_columns(forest), "float64")
    assert count_tree_work(forest, "float64").visits == plain.visits
