"""Trees in torch's own terms: one row, parts of many, traces of other numbers of rows, stored
and bound programs."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from forests import hostile_rows, random_forest
from torch.utils._python_dispatch import TorchDispatchMode

from hbconv.backends import find_backend
from hbconv.backends.torch import TensorModule, export_module
from hbconv.backends.torch.forest import NATIVE, ForestModule, ScoreSums, count_tree_work
from hbconv.backends.torch.jit import without_deprecation
from hbconv.backends.torch.nearest import add_in_turn, forms_for
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram

NAMES = sorted(NATIVE)
FOREST = random_forest(np.random.default_rng(1), n_trees=30, max_depth=7, n_outputs=3)


def program(strategy: str) -> TensorProgram:
    b = Builder()
    x = b.input("x", "float32", FOREST.n_features)
    return b.program(
        {
            name: b.op(f"tree_{name}", x, forest=FOREST, strategy=strategy)
            for name in ("leaves", "scores")
        }
    )


def rows(n: int) -> Any:
    return hostile_rows(np.random.default_rng(n), FOREST, "float32", n)


def check(answers: Any, x: Any) -> None:
    leaves, scores = answers
    np.testing.assert_array_equal(leaves, FOREST.leaves(x))
    np.testing.assert_array_equal(scores, FOREST.scores(x))


@pytest.mark.parametrize("strategy", NAMES)
def test_many_rows_are_taken_in_parts(strategy: str) -> None:
    module = TensorModule(program(strategy))
    for trees in module.modules():
        if isinstance(trees, ForestModule):
            trees.rows = 64
    for n in (0, 1, 2, 64, 65, 200):
        check(module(torch.tensor(rows(n))), rows(n))


@pytest.mark.parametrize("strategy", NAMES)
def test_traces_and_exports_take_any_number_of_rows(strategy: str) -> None:
    module = TensorModule(program(strategy))
    traced = without_deprecation(torch.jit.trace, module, torch.tensor(rows(4)))
    exported = export_module(module).module()
    for n in (0, 1, 7):
        check(traced(torch.tensor(rows(n))), rows(n))
        check(exported(torch.tensor(rows(n))), rows(n))


@pytest.mark.parametrize("strategy", NAMES)
def test_torchscript_holds_both_ways(strategy: str) -> None:
    artifact = find_backend("torchscript").compile(program(strategy), Target("torchscript"))
    loaded = without_deprecation(torch.jit.load, io.BytesIO(artifact.files()["model.pt"]))
    for n in (0, 1, 7, 3000):
        check(artifact.run({"x": rows(n)}).values(), rows(n))
        check(loaded(torch.tensor(rows(n))), rows(n))


@pytest.mark.parametrize("backend", ["torch", "torchscript"])
def test_bound_places_are_used_again(backend: str) -> None:
    bound = find_backend(backend).compile(program("select"), Target(backend)).bind(4)
    assert bound is not None
    for n in (1, 4, 3):
        bound.inputs["x"][:n] = rows(n)
        bound.run(bound.record(n))
        check([values[:n] for values in bound.outputs.values()], rows(n))


@pytest.mark.parametrize("kinds", [{}, {"n_outputs": 3}, {"n_outputs": 3, "vector": True}])
@pytest.mark.parametrize("n_trees", [0, 1, 40])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_devices_add_the_trees_of_an_output_in_turn(kinds: Any, n_trees: int, n: int) -> None:
    """The form for devices, run on the CPU: it has no operator that adds in any order."""
    forest = random_forest(np.random.default_rng(0), n_trees, **kinds)
    x = hostile_rows(np.random.default_rng(n), forest, "float32", n)
    sums = ScoreSums(forest, np.arange(forest.n_leaves, dtype=np.int32))
    places = torch.tensor(forest.leaves(x).T.reshape(n_trees, n))
    with forms_for("cuda"):
        np.testing.assert_array_equal(sums(places), forest.scores(x))


def test_a_single_column_is_not_scanned_alone() -> None:
    seen = []

    class Scans(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.cumsum.default:
                seen.append(tuple(args[0].shape))
            return func(*args, **(kwargs or {}))

    terms = torch.tensor([[1e16], [1.0], [-1e16]], dtype=torch.float64)
    with Scans():
        assert add_in_turn(terms).tolist() == [0.0]
    assert seen == [(3, 2)]


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
