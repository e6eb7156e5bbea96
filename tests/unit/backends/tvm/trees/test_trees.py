"""Native trees of the tile compiler: the leaves and the sums of the forest, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from forests import hostile_rows, random_forest

from hbconv.array import Array
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.compile import compile_program
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import FEW
from hbconv.backends.tvm.trees.bins.tables import make_bins
from hbconv.backends.tvm.trees.bytewise.tables import make_byte_tables
from hbconv.backends.tvm.trees.leaves.tables import sparse_cost
from hbconv.backends.tvm.trees.single_row.emit import MAX_STEPS_AT_ONCE
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.backends.tvm.trees.tree_work import single_row_limit
from hbconv.backends.tvm.trees.walk.tables import pack_nodes
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.forest import Forest

pytestmark = [pytest.mark.usefixtures("vector"), pytest.mark.share("vector")]

STRATEGIES = ("select", "tree_traversal", "perfect_tree_traversal")


def scores_and_leaves(forest, dtype, strategies):
    """Scores and leaves by each strategy, in one program."""
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    outputs = {f"scores {s}": b.op("tree_scores", x, forest=forest, strategy=s) for s in strategies}
    outputs |= {
        f"leaves {s}": b.op("tree_leaves", x, forest=forest, strategy=s) for s in strategies
    }
    program = b.program(outputs)
    assert BACKEND.prepare(program, Target("tvm")).primitives == {"tree_scores", "tree_leaves"}
    return program


def compiled(forest, dtype, strategies=STRATEGIES):
    return BACKEND.compile(scores_and_leaves(forest, dtype, strategies), Target("tvm"))


def compiled_for_few(forest, dtype, machine=None):
    program = scores_and_leaves(forest, dtype, ("select",))
    return compile_program(program, FEW, machine or Machine.host(), Target("tvm"))


def check(forest, dtype, rows=(0, 1, 33, 300), strategies=STRATEGIES):
    """Compare with the forest itself."""
    artifact, few, rng = (
        compiled(forest, dtype, strategies),
        compiled_for_few(forest, dtype),
        np.random.default_rng(0),
    )
    for n in rows:
        x = hostile_rows(rng, forest, dtype, n)
        wanted = {"scores": forest.scores(x), "leaves": forest.leaves(x)}
        found = artifact.run({"x": x}) | {
            f"{name} for few": got for name, got in few.run({"x": x}).items()
        }
        for name, got in found.items():
            want = wanted[name.split()[0]]
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want, err_msg=f"{name}, {n} rows")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_random_forests(seed, dtype):
    rng = np.random.default_rng(seed)
    outputs = int(rng.integers(1, 4))
    kinds = {
        "n_trees": int(rng.integers(1, 20)),
        "n_features": int(rng.integers(1, 6)),
        "max_depth": int(rng.integers(1, 9)),
        "n_outputs": outputs,
        "vector": outputs > 1 and seed % 2 == 0,
        "strict": seed % 3 == 0,
        "dtype": ("float32", "float64")[seed % 2],
        "accumulate": ("float64", "float32")[seed // 2 % 2],
        "missing": ("mixed", "left", "right")[seed % 3],
        "n_categorical": seed % 4,
    }
    check(random_forest(rng, **kinds), dtype)


@pytest.mark.parametrize(
    "kinds",
    [
        {"n_trees": 0},
        {"max_depth": 0},
        {"n_features": 0},
        {"n_trees": 9, "max_depth": 1},
        {"n_trees": 3, "n_outputs": 7},
    ],
)
def test_forests_of_nearly_nothing(kinds):
    check(random_forest(np.random.default_rng(1), **kinds), "float32")


@pytest.mark.parametrize("entries", [1, 6])
@pytest.mark.parametrize("categorical", [0, 3])
@pytest.mark.parametrize("accumulate", ["float32", "float64"])
def test_leaves_of_many_classes_leave_many_zeros_out(entries, categorical, accumulate):
    """Leaves have the value of one class or of some, or none; NaN and -0.0 count too."""
    rng = np.random.default_rng(entries)
    many = random_forest(
        rng, n_trees=19, n_features=5, max_depth=6, n_outputs=67, vector=True,
        accumulate=accumulate, n_categorical=categorical,
    )  # fmt: skip
    values = np.zeros_like(many.values.data)
    for row in values:
        row[rng.permutation(67)[:entries]] = rng.choice([0.1, -3.0, 1e30, -0.0, np.nan, np.inf])
    values[::5] = 0.0
    sparse = replace(many, values=Array(values), start=Array(np.abs(many.start.data)))
    assert (sparse_cost(sparse) is None) == (entries == 6)
    check(sparse, "float32")


def test_zeros_are_added_to_sums_that_begin_with_minus_zero():
    rng = np.random.default_rng(0)
    many = random_forest(rng, n_trees=3, n_features=2, n_outputs=50, vector=True)
    forest = replace(
        many, values=Array(np.zeros_like(many.values.data)), start=Array(np.full(50, -0.0))
    )
    assert sparse_cost(forest) is None
    x = rng.standard_normal((40, 2))
    for found in compiled(forest, "float64").run({"x": x}).values():
        assert not np.signbit(found).any()


def chain(n_leaves, missing_left=True):
    """One tree that tests a feature against ever larger thresholds: as many thresholds as
    leaves, but one.
    """
    n = n_leaves - 1
    left = ~np.arange(n)
    right = np.append(np.arange(1, n), ~n)
    return Forest(
        feature=Array.of(np.zeros(n), "int32"), threshold=Array(np.arange(n) / 7),
        default_left=Array(np.arange(n) % 2 == missing_left),
        left=Array.of(left, "int32"), right=Array.of(right, "int32"), roots=Array.of([0], "int32"),
        first_leaf=Array.of([0, n_leaves], "int32"),
        values=Array(np.arange(n_leaves, dtype=np.float64)[:, None]), target=Array.of([0], "int32"),
        start=Array([0.5]), strict=False, n_features=1,
        leaf_id=Array.of(np.arange(n_leaves), "int32"),
    )  # fmt: skip


@pytest.mark.parametrize("leaves", [2, 15, 16, 17, 255, 256, 257, 511, 512, 1000])
def test_any_number_of_leaves_and_thresholds(leaves):
    check(chain(leaves), "float64", rows=(500,), strategies=("select", "tree_traversal"))


def perfect_tree(depth, n_features):
    n, rng = 2**depth - 1, np.random.default_rng(0)
    left = np.where(np.arange(n) < n // 2, 2 * np.arange(n) + 1, ~(2 * np.arange(n) - n + 1))
    return Forest(
        feature=Array.of(rng.integers(0, n_features, n), "int32"),
        threshold=Array(rng.standard_normal(n)), default_left=Array(rng.random(n) < 0.5),
        left=Array.of(left, "int32"),
        right=Array.of(np.where(left >= 0, left + 1, left - 1), "int32"),
        roots=Array.of([0], "int32"),
        first_leaf=Array.of([0, n + 1], "int32"), values=Array(rng.standard_normal((n + 1, 1))),
        target=Array.of([0], "int32"), start=Array([0.0]),
        strict=False, n_features=n_features, leaf_id=Array.of(np.arange(n + 1), "int32"),
    )  # fmt: skip


@pytest.mark.parametrize(("depth", "bits"), [(8, 8), (9, 16), (17, 32)])
def test_leaf_numbers_take_the_bytes_they_need(depth, bits):
    forest = perfect_tree(depth, 4)
    trees = Trees.by_number(forest, 1, np.arange(forest.n_leaves))
    tables = make_byte_tables(forest, make_bins(forest, "float64"), trees)
    assert np.iinfo(tables.dtype).bits == bits
    check(forest, "float64", rows=(40,), strategies=("select", "tree_traversal"))


def test_nodes_of_wide_forests_take_longer_words():
    forest = perfect_tree(15, 30_000)
    assert pack_nodes(forest, "float32", np.arange(forest.n_leaves)).word == "int64"
    check(forest, "float32", rows=(20,), strategies=("tree_traversal",))


def test_bins_need_a_column_for_each_segment_and_direction():
    assert make_bins(chain(256), "float64").columns == 2
    assert make_bins(chain(1000), "float64").columns == 8
    assert make_bins(random_forest(np.random.default_rng(0), max_depth=0), "float32").columns == 1


def test_trees_follow_other_operators():
    b = Builder()
    rng = np.random.default_rng(2)
    forest = random_forest(rng, n_trees=11, n_features=3)
    x = b.input("x", "float64", 6)
    scaled = (b.take(x, [4, 0, 2]) - b.constant([0.1, -0.2, 0.3])) / b.constant([1.5, 0.7, 2.0])
    program = b.program(
        {"y": b.op("tree_scores", scaled, forest=forest, strategy="select") * b.constant(2.0)}
    )
    rows = rng.standard_normal((777, 6))
    fed = (rows[:, [4, 0, 2]] - np.array([0.1, -0.2, 0.3])) / np.array([1.5, 0.7, 2.0])
    np.testing.assert_array_equal(
        BACKEND.compile(program, Target("tvm")).run({"x": rows})["y"], forest.scores(fed) * 2
    )


@pytest.mark.parametrize("extras", [True, False])
@pytest.mark.parametrize(("features", "trees"), [(6, 300), (40, 150), (60, 70)])
def test_few_rows_pass_the_tops_of_groups_of_trees(features, trees, extras):
    host = Machine.host()
    machine = host if extras else replace(host, extras=frozenset())
    rng = np.random.default_rng(features)
    forest = random_forest(
        rng, n_trees=trees, n_features=features, max_depth=6, n_outputs=2, missing="mixed"
    )
    few = compiled_for_few(forest, "float32", machine)
    x = hostile_rows(rng, forest, "float32", 40)
    found = few.run({"x": x})
    np.testing.assert_array_equal(found["scores select"], forest.scores(x))
    np.testing.assert_array_equal(found["leaves select"], forest.leaves(x))


def few_of(forest, strategy, level="x86-64-v3"):
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    return single_row_limit(
        b.program({"y": b.op("tree_scores", x, forest=forest, strategy=strategy)}), Machine(level)
    )


def test_few_rows_are_those_for_which_lanes_of_rows_are_a_waste():
    rng = np.random.default_rng(0)
    assert few_of(random_forest(rng, n_trees=5, n_features=4, max_depth=3), "select") == 0
    large = random_forest(rng, n_trees=200, n_features=4, max_depth=6)
    assert 0 < few_of(large, "select", "aarch64") < few_of(large, "select") <= 64
    assert few_of(large, "tree_traversal") == 8
    assert (
        few_of(
            random_forest(rng, n_trees=200, n_features=4, max_depth=6, n_categorical=2),
            "tree_traversal",
        )
        == 0
    )


def test_paths_of_any_length_are_walked_in_rounds():
    deep = random_forest(np.random.default_rng(2), n_trees=70, n_features=5, max_depth=15)
    assert deep.depth > MAX_STEPS_AT_ONCE
    check(deep, "float32", rows=(1, 20), strategies=("tree_traversal",))


@pytest.mark.parametrize("kinds", [{"max_depth": 9}, {"max_depth": 3, "n_features": 200}])
def test_few_rows_of_large_forests(kinds):
    check(
        random_forest(np.random.default_rng(5), n_trees=40, **kinds),
        "float64",
        rows=(1, 3),
        strategies=("tree_traversal",),
    )
