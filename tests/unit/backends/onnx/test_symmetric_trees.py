"""Symmetric trees in core operators: the sums of the forest, for few rows and many, to the last
bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from forests import hostile_rows, random_forest, random_symmetric_forest

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.backends.onnx.tree_bits import LEAST_ROWS, SYMMETRIC_VISITS, find_tree_bits
from hbconv.backends.onnx.trees import BITS, BLOCK_ROWS, VECTORS, count_tree_work
from hbconv.target import Target
from hbconv.tensor import Builder

BACKEND, TARGET = find_backend("onnx"), Target("onnx")
ROWS = (0, 1, LEAST_ROWS - 1, LEAST_ROWS, 300, BLOCK_ROWS + 1)
DEPTHS = {"alike": [6] * 40, "mixed": [1, 8, 3, 2, 5, 4] * 4, "stumps": [1] * 16}


def drawn(depths, seed=0, **options):
    return random_symmetric_forest(np.random.default_rng(seed), depths, **options)


def compiled(forest, dtype):
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    scores = b.op("tree_scores", x, forest=forest, strategy="tree_traversal")
    return BACKEND.compile(b.program({"y": scores}), TARGET)


def branches(artifact):
    """The operators of each side of the choice by rows."""
    nodes = onnx.load_from_string(artifact.files()["model.onnx"]).graph.node
    chosen = [node for node in nodes if node.op_type == "If"]
    return [
        {node.op_type for node in attribute.g.node}
        for node in chosen
        for attribute in node.attribute
    ]


def require_exact(forest, dtype):
    artifact = compiled(forest, dtype)
    x = hostile_rows(np.random.default_rng(1), forest, dtype, max(ROWS))
    for count in ROWS:
        got = artifact.run({"x": x[:count]})["y"]
        np.testing.assert_array_equal(got, forest.scores(x[:count]))
        assert got.dtype == forest.accumulate
    return artifact


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("depths", DEPTHS.values(), ids=DEPTHS)
def test_sums_are_those_of_the_forest(depths, dtype, strict):
    forest = replace(drawn(depths), strict=strict)
    few, many = sorted(branches(require_exact(forest, dtype)), key=len)
    assert few == {"TreeEnsemble"}
    assert "TreeEnsemble" not in many


def test_sums_of_float32_are_added_in_float32():
    forest = drawn(DEPTHS["alike"])
    narrow = {name: Array.of(getattr(forest, name).data, "float32") for name in ("values", "start")}
    forest = replace(forest, **narrow)
    assert branches(require_exact(forest, "float32"))
    assert not branches(require_exact(forest, "float64"))


@pytest.mark.parametrize("n_outputs", [2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_sums_are_those_of_the_forest(n_outputs, dtype):
    forest = drawn(DEPTHS["mixed"], n_outputs=n_outputs)
    assert len(branches(require_exact(forest, dtype))) == 2


def test_sums_of_no_tree_are_their_start():
    forest = drawn(DEPTHS["mixed"], n_outputs=3)
    target = np.where(forest.target.data == 1, 2, forest.target.data)
    assert branches(require_exact(replace(forest, target=Array(target)), "float64"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vectors_are_looked_up_at_once(dtype):
    forest = drawn(DEPTHS["mixed"], n_outputs=3, vector=True)
    graph = onnx.load_from_string(require_exact(forest, dtype).files()["model.onnx"]).graph
    assert "TreeEnsemble" not in {node.op_type for node in graph.node}
    assert VECTORS not in BACKEND.remarks(forest, TARGET)
    few = drawn([6] * 15, n_outputs=3, vector=True)
    assert VECTORS in BACKEND.remarks(few, TARGET)
    require_exact(few, dtype)


def test_splits_on_categories_are_columns_first():
    assert branches(require_exact(drawn([4] * 20, n_categorical=2), "float64"))


@pytest.mark.parametrize(
    "forest",
    [
        drawn([6] * 15),
        drawn([9] * 16),
        drawn([3] * 20 + [0]),
        random_forest(np.random.default_rng(0), 20),
        replace(drawn([3] * 20), strict=True, threshold=Array(np.full(140, -np.inf))),
    ],
    ids=["few", "deep", "a leaf", "others", "never"],
)
def test_other_forests_are_one_operator(forest):
    assert find_tree_bits(forest, "float64") is None
    assert not branches(require_exact(forest, "float64"))


def test_answers_cost_less_than_visits():
    forest = drawn([6] * 20)
    assert count_tree_work(forest, "float32").visits == pytest.approx(120 * SYMMETRIC_VISITS)
    assert count_tree_work(forest, "float32", added=False).visits >= 120
    few = count_tree_work(drawn([6] * 15), "float32").visits
    assert few >= 90
    assert BITS in BACKEND.remarks(forest, TARGET)
    assert BITS not in BACKEND.remarks(drawn([6] * 15), TARGET)
