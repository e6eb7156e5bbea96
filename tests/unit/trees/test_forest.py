"""The Forest: its definition of a decision, exact thresholds, and parts that are forests too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from forests import forests, hostile_rows, random_forest, with_random_slopes
from hypothesis import given, settings
from hypothesis import strategies as st

from hbconv.array import Array
from hbconv.trees.forest import Forest, keep_outputs, keep_trees
from hbconv.trees.forest_check import check_forest


def stump(threshold, *, strict=False, default_left=False, dtype="float64"):
    """One test on one column: leaf 0 to the left, leaf 1 to the right."""
    return Forest(
        feature=Array.of([0], "int32"),
        threshold=Array.of([threshold], dtype),
        default_left=Array([default_left]),
        left=Array.of([-1], "int32"),
        right=Array.of([-2], "int32"),
        roots=Array.of([0], "int32"),
        first_leaf=Array.of([0, 2], "int32"),
        values=Array([[10.0], [20.0]]),
        target=Array.of([0], "int32"),
        start=Array([0.5]),
        strict=strict,
        n_features=1,
        leaf_id=Array.of([0, 1], "int32"),
    )


def column(*values, dtype="float64"):
    return np.array(values, dtype)[:, None]


@pytest.mark.parametrize(
    ("strict", "expected"), [(False, [0, 0, 1, 0, 1]), (True, [0, 1, 1, 0, 1])]
)
def test_a_threshold_goes_left_unless_strict(strict, expected):
    x = column(np.nextafter(1.0, 0), 1.0, np.nextafter(1.0, 2), -np.inf, np.inf)
    assert stump(1.0, strict=strict).leaves(x)[:, 0].tolist() == expected


@pytest.mark.parametrize("default_left", [False, True])
def test_missing_values_go_where_the_test_sends_them(default_left):
    assert stump(1.0, default_left=default_left).leaves(column(np.nan))[0, 0] == (
        0 if default_left else 1
    )


def test_zeros_of_both_signs_are_one_number():
    for threshold in (0.0, -0.0):
        assert stump(threshold).leaves(column(0.0, -0.0))[:, 0].tolist() == [0, 0]
        assert stump(threshold, strict=True).leaves(column(0.0, -0.0))[:, 0].tolist() == [1, 1]


def test_float32_rows_meet_float64_thresholds_unrounded():
    """The float32 nearest to 0.1 lies above 0.1, so it goes right: rounding the threshold to
    nearest would send it left.
    """
    assert stump(0.1).leaves(column(0.1, dtype="float32"))[0, 0] == 1
    assert stump(0.1).less_equal_thresholds("float32")[0] < np.float32(0.1)


def test_less_equal_thresholds_of_infinities():
    assert stump(np.inf).less_equal_thresholds("float64")[0] == np.inf
    assert stump(np.inf, strict=True).less_equal_thresholds("float64")[0] == np.finfo("float64").max
    assert stump(-np.inf).less_equal_thresholds("float64")[0] == -np.inf
    assert np.isnan(stump(-np.inf, strict=True).less_equal_thresholds("float64")[0])
    assert stump(1e300).less_equal_thresholds("float32")[0] == np.finfo("float32").max
    assert (
        stump(-np.finfo("float64").max, strict=True).less_equal_thresholds("float64")[0] == -np.inf
    )
    assert stump(-1e300, strict=True).less_equal_thresholds("float32")[0] == -np.inf


@given(
    threshold=st.floats(allow_nan=False),
    near=st.floats(allow_nan=False) | st.none(),
    strict=st.booleans(),
    widths=st.tuples(
        st.sampled_from(["float32", "float64"]), st.sampled_from(["float32", "float64"])
    ),
)
@settings(deadline=None)
def test_less_equal_thresholds_decide_as_the_source(threshold, near, strict, widths):
    dtype, x_dtype = widths
    with np.errstate(over="ignore"):
        forest = stump(np.array(threshold).astype(dtype), strict=strict, dtype=dtype)
        x = np.array(threshold if near is None else near).astype(x_dtype)
        rows = np.stack(
            [
                np.nextafter(x, np.array(-np.inf, x_dtype)),
                x,
                np.nextafter(x, np.array(np.inf, x_dtype)),
            ]
        )[:, None]
    exact = forest.less_equal_thresholds(x_dtype)
    assert exact.dtype == x_dtype
    np.testing.assert_array_equal(~(rows[:, 0] <= exact[0]), forest.leaves(rows)[:, 0] == 1)


def test_scores_start_from_the_start_value_and_follow_the_trees():
    forest = stump(0.0)
    assert forest.scores(column(-1.0, 1.0)).tolist() == [[10.5], [20.5]]
    rng = np.random.default_rng(0)
    many = random_forest(rng, n_trees=7, n_outputs=2, accumulate="float32")
    x = hostile_rows(rng, many, n=5)
    leaves = many.leaves(x)
    expected = np.tile(many.start.data, (5, 1))
    for tree in range(7):
        expected[:, tree % 2] += many.values.data[leaves[:, tree], 0]
    np.testing.assert_array_equal(many.scores(x), expected, strict=True)


@given(forest=forests(), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_leaves_belong_to_their_trees(forest, seed):
    x = hostile_rows(np.random.default_rng(seed), forest, n=20)
    leaves = forest.leaves(x)
    assert leaves.shape == (20, forest.n_trees)
    assert (leaves >= forest.first_leaf.data[:-1]).all()
    assert (leaves < forest.first_leaf.data[1:]).all()
    assert forest.scores(x).dtype.name == forest.accumulate


@given(forest=forests())
@settings(deadline=None, max_examples=50)
def test_depths_and_owners_follow_the_children(forest):
    depth, tree = forest.depth_of_tests, forest.tree_of_tests
    assert forest.depth == max([*(depth + 1), 0])
    for side in (forest.left.data, forest.right.data):
        inner = side >= 0
        np.testing.assert_array_equal(depth[side[inner]], depth[inner] + 1)
        np.testing.assert_array_equal(tree[side[inner]], tree[inner])
    roots = forest.roots.data[forest.roots.data >= 0]
    assert not depth[roots].any()
    np.testing.assert_array_equal(tree[roots], np.flatnonzero(forest.roots.data >= 0))


def test_unused_features_can_be_left_out():
    rng = np.random.default_rng(2)
    forest = random_forest(rng, n_features=50, max_depth=3)
    columns = forest.used_features
    assert len(columns) < 50
    narrow = forest.with_features(columns)
    x = hostile_rows(rng, forest, n=40)
    assert narrow.n_features == len(columns)
    np.testing.assert_array_equal(narrow.leaves(x[:, columns]), forest.leaves(x))


def test_accumulation_dtype_can_change():
    forest = random_forest(np.random.default_rng(3)).with_accumulation("float32")
    assert (forest.accumulate, forest.start.dtype, forest.threshold.dtype) == (
        "float32",
        "float32",
        "float64",
    )


def test_forests_are_equal_by_content():
    one, same = random_forest(np.random.default_rng(4)), random_forest(np.random.default_rng(4))
    assert one == same
    assert hash(one) == hash(same)
    assert one != replace(one, strict=True)


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
