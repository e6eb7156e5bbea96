"""Some trees or outputs of any forest are a forest, and give what the whole forest gives."""

from __future__ import annotations

import numpy as np
from forests import forests, hostile_rows, random_forest, with_random_slopes
from hypothesis import given, settings
from hypothesis import strategies as st

from hbconv.trees.forest import keep_outputs, keep_trees
from hbconv.trees.forest_check import check_forest

RNG = np.random.default_rng(0)


@settings(max_examples=80, deadline=None)
@given(forest=forests(), data=st.data())
def test_kept_outputs_have_the_bits_of_all_outputs(forest, data):
    order = data.draw(st.permutations(range(forest.n_outputs)))
    kept = np.array(order[: data.draw(st.integers(1, forest.n_outputs))])
    if forest.values.shape[1] == 1 and forest.n_features and data.draw(st.booleans()):
        forest = with_random_slopes(forest, RNG)
    rows = hostile_rows(RNG, forest)
    with np.errstate(all="ignore"):
        expected = forest.scores(rows)[:, kept]
        found = check_forest(keep_outputs(forest, kept)).scores(rows)
    assert np.ascontiguousarray(expected).tobytes() == found.tobytes()


@settings(max_examples=80, deadline=None)
@given(forest=forests(), data=st.data())
def test_kept_trees_find_the_same_leaves_by_name(forest, data):
    trees = [t for t in range(forest.n_trees) if data.draw(st.booleans())]
    kept = check_forest(keep_trees(forest, np.array(trees, np.int32)))
    rows = hostile_rows(RNG, forest)
    names = forest.leaf_id.data[forest.leaves(rows)][:, trees]
    np.testing.assert_array_equal(kept.leaf_id.data[kept.leaves(rows)], names)
    np.testing.assert_array_equal(kept.target.data, forest.target.data[trees])


def test_tables_that_no_kept_test_reads_vanish():
    forest = random_forest(np.random.default_rng(0), n_trees=6, max_depth=4, n_categorical=2)
    owners = forest.tree_of_tests[forest.on_category]
    tree = int(owners[0])
    kept = keep_trees(forest, np.array([tree]))
    assert kept.tables is not None
    assert kept.tables.count == np.count_nonzero(owners == tree)
    plain = np.setdiff1d(np.arange(6), owners)
    assert keep_trees(forest, plain).tables is None


def test_an_output_without_trees_is_its_start():
    forest = random_forest(RNG, n_trees=1, n_outputs=2)
    alone = keep_outputs(forest, np.array([1]))
    assert alone.n_trees == 0
    np.testing.assert_array_equal(alone.scores(np.zeros((3, 4))), np.full((3, 1), forest.start[1]))
