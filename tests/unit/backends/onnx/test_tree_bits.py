"""Trees of few leaves and several sums, in core operators: to the last bit, by all splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from forests import hostile_rows, random_forest

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.backends.onnx.tree_bits import ALL_VISITS, LEAST_ROWS_OF_ALL, find_tree_bits
from hbconv.backends.onnx.trees import BITS, BLOCK_ROWS, count_tree_work
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.forest import Forest, keep_trees

BACKEND, TARGET = find_backend("onnx"), Target("onnx")
ROWS = (0, 1, LEAST_ROWS_OF_ALL - 1, LEAST_ROWS_OF_ALL, BLOCK_ROWS, 2 * BLOCK_ROWS + 3)


def drawn(seed: int = 0, leaves: int = 8, **options: object) -> Forest:
    """Return the trees of few leaves of a random forest."""
    forest = random_forest(np.random.default_rng(seed), 400, **options)
    sizes = np.diff(forest.first_leaf.data)
    return keep_trees(forest, np.flatnonzero(sizes <= leaves))


def require_exact(forest: Forest, dtype: str) -> set[str]:
    """Compare the sums for few rows and many, and return the operators for many."""
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    scores = b.op("tree_scores", x, forest=forest, strategy="tree_traversal")
    artifact = BACKEND.compile(b.program({"y": scores}), TARGET)
    rows = hostile_rows(np.random.default_rng(1), forest, dtype, max(ROWS))
    for count in ROWS:
        got, want = artifact.run({"x": rows[:count]})["y"], forest.scores(rows[:count])
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    nodes = onnx.load_from_string(artifact.files()["model.onnx"]).graph.node
    return {node.op_type for node in inner_nodes(nodes)}


def inner_nodes(nodes):
    """Return the nodes of all branches and bodies."""
    for node in nodes:
        for attribute in node.attribute:
            yield from attribute.g.node
            yield from inner_nodes(attribute.g.node)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_outputs", [2, 3])
def test_sums_are_those_of_the_forest(n_outputs, dtype):
    forest = drawn(n_outputs=n_outputs)
    assert forest.n_trees >= 16
    assert {"CumSum", "TreeEnsemble"} <= require_exact(forest, dtype)


def test_trees_of_one_leaf_and_zeros_of_both_signs_keep_their_bits():
    forest = drawn(n_outputs=2)
    zeros = np.where(np.arange(forest.n_leaves) % 2, -0.0, 0.0)[:, None]
    start = np.array([-0.0, 0.0])
    require_exact(replace(forest, values=Array(zeros), start=Array(start)), "float64")


@pytest.mark.parametrize(
    "forest",
    [drawn(), drawn(leaves=20, n_outputs=2), drawn(n_outputs=3, vector=True)],
    ids=["one sum", "many leaves", "vectors"],
)
def test_others_are_one_operator(forest):
    assert find_tree_bits(forest, "float64") is None
    assert "CumSum" not in require_exact(forest, "float64")
    assert BITS not in BACKEND.remarks(forest, TARGET)


def assert_leaves_are_walked_to(forest):
    """Bits add values of leaves; the numbers of leaves are those of the operator."""
    leaves = count_tree_work(forest, "float32", added=False)
    assert leaves.visits >= np.exp2(-forest.depth_of_tests.astype(float)).sum()
    assert leaves.sums == forest.n_trees


def test_answers_cost_less_than_visits():
    forest = drawn(n_outputs=2)
    depths = forest.depth_of_tests.astype(float)
    want = ALL_VISITS * np.exp2(-depths).sum()
    assert count_tree_work(forest, "float32").visits == pytest.approx(want)
    assert_leaves_are_walked_to(forest)
    assert BITS in BACKEND.remarks(forest, TARGET)
