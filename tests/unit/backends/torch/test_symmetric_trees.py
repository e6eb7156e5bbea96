"""Symmetric trees by the bits of their leaves: leaves and sums of the forest, to the last bit."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from forests import hostile_rows, random_forest, random_symmetric_forest

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.backends.torch import TensorModule, export_module
from hbconv.backends.torch.forest import ForestModule, count_tree_work
from hbconv.backends.torch.jit import without_deprecation
from hbconv.backends.torch.tree_select import SymmetricManyRows, find_answers
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.symmetric_forest import find_levels

ROWS = (0, 1, 2, 7, 300)
DEPTHS = {
    "alike": [6] * 20,
    "mixed": [1, 7, 3, 6, 5, 7] * 2,
    "a leaf": [3, 0, 2],
    "words": [9, 8, 9],
    "stumps": [1] * 9,
}


def drawn(depths, seed=0, **options):
    return random_symmetric_forest(np.random.default_rng(seed), depths, **options)


def program(forest, dtype):
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    names = ("leaves", "scores")
    return b.program(
        {name: b.op(f"tree_{name}", x, forest=forest, strategy="select") for name in names}
    )


def trees_of(module):
    return [part for part in module.modules() if isinstance(part, ForestModule)]


def require_exact(call, forest, dtype, counts=ROWS):
    x = hostile_rows(np.random.default_rng(1), forest, dtype, max(counts))
    for count in counts:
        leaves, scores = call(torch.tensor(x[:count]))
        np.testing.assert_array_equal(leaves, forest.leaves(x[:count]))
        np.testing.assert_array_equal(scores, forest.scores(x[:count]))


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("depths", DEPTHS.values(), ids=DEPTHS)
def test_answers_number_the_leaves(depths, dtype, strict):
    forest = replace(drawn(depths), strict=strict)
    module = TensorModule(program(forest, dtype))
    for trees in trees_of(module):
        assert isinstance(trees.many.trees, SymmetricManyRows)
        trees.rows = 64
    require_exact(module, forest, dtype)


@pytest.mark.parametrize(
    "options",
    [{"n_outputs": 3}, {"n_outputs": 3, "vector": True}, {"n_categorical": 2}],
    ids=["three sums", "vectors", "categories"],
)
def test_other_sums_and_splits_take_the_same_leaves(options):
    forest = drawn([4] * 12, **options)
    module = TensorModule(program(forest, "float64"))
    assert isinstance(trees_of(module)[0].many.trees, SymmetricManyRows)
    require_exact(module, forest, "float64")


def test_traces_exports_and_scripts_take_any_number_of_rows():
    forest = drawn([5] * 12)
    given = program(forest, "float32")
    module = TensorModule(given)
    example = torch.zeros(4, forest.n_features)
    require_exact(without_deprecation(torch.jit.trace, module, example), forest, "float32")
    require_exact(export_module(module).module(), forest, "float32")
    artifact = find_backend("torchscript").compile(given, Target("torchscript"))
    loaded = without_deprecation(torch.jit.load, io.BytesIO(artifact.files()["model.pt"]))
    require_exact(loaded, forest, "float32", (0, 1, 7, 3000))


def test_unlike_trees_are_not_padded_far():
    forest = drawn([12, *[1] * 40])
    assert find_levels(forest).shape == (12, 41)
    assert find_answers(forest) is None
    require_exact(TensorModule(program(forest, "float32")), forest, "float32", (0, 1, 7))


def test_others_are_selected():
    forest = drawn([3] * 4)
    threshold = forest.threshold.data.copy()
    threshold[1] += 1
    other = replace(forest, threshold=Array(threshold))
    for asked in (other, random_forest(np.random.default_rng(0), 20)):
        assert find_answers(asked) is None
        module = TensorModule(program(asked, "float32"))
        assert not isinstance(trees_of(module)[0].many.trees, SymmetricManyRows)


def test_answers_are_less_work_than_selections():
    forest = drawn([6] * 20)
    threshold = forest.threshold.data.copy()
    threshold[1] += 1
    other = replace(forest, threshold=Array(threshold))
    for rows in (1, 100):
        ours, selected = (count_tree_work("select", f, "float32", rows) for f in (forest, other))
        assert ours.takes + ours.elementwise < selected.takes + selected.elementwise
        assert ours.sums == selected.sums
