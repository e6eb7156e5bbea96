"""What the cost model counts of torch's tree modules."""

import numpy as np
import pytest
from forests import random_forest

from hbconv.backends.torch.forest import count_tree_work


def seeded(trees, depth=4, seed=0):
    rng = np.random.default_rng(seed)
    return random_forest(rng, n_trees=trees, max_depth=depth, missing="left", awkward=0)


@pytest.mark.parametrize("strategy", ["select", "perfect_tree_traversal", "tree_traversal"])
@pytest.mark.parametrize("rows", [1, 100])
def test_more_trees_are_more_work(strategy, rows):
    few, many = (count_tree_work(strategy, seeded(n), "float64", rows) for n in (5, 50))
    assert many.elementwise > few.elementwise
    assert many.tables > few.tables
    assert many.sums == 10 * few.sums


@pytest.mark.parametrize("strategy", ["select", "perfect_tree_traversal", "tree_traversal"])
def test_doubles_are_twice_the_words(strategy):
    single, double = (
        count_tree_work(strategy, seeded(20), dtype, 100) for dtype in ("float32", "float64")
    )
    assert double.columns == 2 * single.columns
    assert double.elementwise == pytest.approx(2 * single.elementwise, rel=0.2)


def test_decisions_come_in_whole_segments():
    assert count_tree_work("select", seeded(20), "float32", 100).elementwise % 16 == 0


def test_padded_trees_grow_by_depth_and_their_walk_begins_below_the_top():
    shallow, deep = (seeded(20, depth) for depth in (3, 9))
    assert count_tree_work("perfect_tree_traversal", shallow, "float32", 100).visits == 0
    work = count_tree_work("perfect_tree_traversal", deep, "float32", 100)
    assert work.visits == 20 * (deep.depth - 4)
    assert work.tables == 8 * 20 * 2**deep.depth


def test_trees_of_one_leaf_are_only_added():
    forest = seeded(20, 0)
    assert forest.n_tests == 0
    assert count_tree_work("select", forest, "float32", 100).elementwise == 0


def test_a_walk_takes_less_than_the_depth_where_leaves_lie_high():
    deep = seeded(20, 9)
    visits = count_tree_work("tree_traversal", deep, "float32", 100).visits
    assert 20 < visits < 20 * deep.depth
