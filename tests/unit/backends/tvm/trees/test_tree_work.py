"""What the cost model counts of tvm's tree kernels."""

import numpy as np
from forests import random_forest

from hbconv.backends.tvm.trees.tree_work import DOUBLES, count_tree_work


def seeded(trees, depth=4):
    rng = np.random.default_rng(0)
    return random_forest(rng, n_trees=trees, max_depth=depth, missing="left", awkward=0)


def test_select_decides_all_splits_and_a_walk_steps_once_a_level():
    forest = seeded(20)
    assert count_tree_work("select", forest, "float32", 100).visits == forest.n_tests
    walk = count_tree_work("tree_traversal", forest, "float32", 100)
    assert walk.visits <= forest.n_trees * forest.depth
    assert walk.sums == forest.n_trees


def test_select_needs_a_column_for_each_255_thresholds():
    forest = seeded(300, 8)
    columns = count_tree_work("select", forest, "float32", 100).columns
    counts = forest.count_thresholds("float32")
    assert counts.max() > 255
    assert columns == np.ceil(counts / 255).sum() > len(counts)
    assert count_tree_work("tree_traversal", forest, "float32", 100).columns == len(counts)


def test_columns_of_doubles_take_longer():
    forest = seeded(300, 8)
    counts = forest.count_thresholds("float64")
    columns = count_tree_work("select", forest, "float64", 100).columns
    assert columns == DOUBLES * np.ceil(counts / 255).sum()
    assert count_tree_work("tree_traversal", forest, "float64", 100).columns == (
        DOUBLES * len(counts)
    )


def test_nodes_of_doubles_are_twice_as_large():
    forest = seeded(300, 8)
    narrow = count_tree_work("tree_traversal", forest, "float32", 100)
    wide = count_tree_work("tree_traversal", forest, "float64", 100)
    assert wide.tables - narrow.tables == 8 * (forest.n_tests + forest.n_leaves)
    assert wide.visits > narrow.visits


def test_few_rows_of_larger_forests_walk_alone_whatever_the_strategy():
    forest = seeded(300, 8)
    alone = count_tree_work("select", forest, "float32", 1)
    assert alone == count_tree_work("tree_traversal", forest, "float32", 1)
    assert alone.tile == 1
    assert count_tree_work("select", forest, "float32", 100).tile > 16
    assert count_tree_work("select", seeded(2), "float32", 1).tile > 16


def test_distinct_thresholds_are_counted_by_feature():
    forest = seeded(50)
    splits = set(zip(forest.feature.data, forest.less_equal_thresholds("float64"), strict=True))
    assert forest.count_thresholds("float64").sum() == len(splits)
