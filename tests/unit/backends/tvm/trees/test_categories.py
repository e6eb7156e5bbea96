"""Kernels that decide category sets by planes, by bytes, and for one row."""

from __future__ import annotations

import numpy as np
import pytest
from forests import categorical, hostile_rows

from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.trees.bins.tables import make_bins
from hbconv.backends.tvm.trees.bitwise import emit as bitwise
from hbconv.backends.tvm.trees.bitwise.masks import (
    PLANE_ROWS,
    PLANE_WORD,
    make_masks,
    make_set_tables,
)
from hbconv.backends.tvm.trees.choose import find_kernel
from hbconv.backends.tvm.trees.tree_kernel import TreeTask
from hbconv.backends.tvm.trees.walk import emit as walk
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.category_sets import find_sets

pytestmark = [pytest.mark.usefixtures("vector"), pytest.mark.share("vector")]


@pytest.mark.parametrize("n_codes", [3, 40, 2000])
def test_the_program_decides_the_sets(n_codes):
    sets = find_sets(categorical(n_codes))
    tables = make_set_tables(sets, 1)
    for group, first, begin, end in zip(
        sets.groups, sets.start, tables.step_start, tables.step_start[1:], strict=False
    ):
        classes = len(group.goes_left)
        planes = np.zeros((1 + sets.count + tables.max_class_planes, classes), bool)
        planes[1 + sets.count :][np.arange(classes), np.arange(classes)] = True
        for result, *terms in tables.words[begin:end] // PLANE_WORD:
            planes[result] = np.logical_xor.reduce(planes[terms])
        np.testing.assert_array_equal(
            planes[1 + first :][: group.goes_left.shape[1]], group.goes_left.T
        )


@pytest.mark.parametrize(
    ("masks_per_set", "n_codes", "n_categorical"),
    [(1000, 40, 2), (1000, 2000, 3), (-1000, 50, 3), (-1000, 1900, 2)],
)
def test_kernels_on_planes_and_on_bytes(masks_per_set, n_codes, n_categorical, monkeypatch):
    monkeypatch.setattr(bitwise, "MAX_MASKS_PER_SET", masks_per_set)
    forest = categorical(n_codes, n_categorical)
    b = Builder()
    scores = b.op(
        "tree_scores", b.input("x", "float32", forest.n_features), forest=forest, strategy="select"
    )
    artifact = BACKEND.compile(b.program({"scores": scores}), Target("tvm"))
    for rows in (1, 3, 600):
        x = hostile_rows(np.random.default_rng(rows), forest, "float32", rows)
        x[: rows // 2, :n_categorical] = np.random.default_rng(0).integers(
            0, n_codes + 2, (rows // 2, n_categorical)
        )
        np.testing.assert_array_equal(artifact.run({"x": x})["scores"], forest.scores(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("sets_per_tree", "kernel", "n_codes"), [(1000, "walk", 300), (0, "category_walk", 310)]
)
def test_walks_decide_all_sets_or_look_tables_up(
    sets_per_tree, kernel, n_codes, dtype, monkeypatch
):
    monkeypatch.setattr(walk, "SETS_PER_TREE", sets_per_tree)
    forest = categorical(n_codes, 2, repeat=1)
    task = TreeTask(forest, dtype, "tree_traversal", Schedule(), Machine.host())
    assert find_kernel(task).name == kernel
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    outputs = {
        name: b.op(name, x, forest=forest, strategy="tree_traversal")
        for name in ("tree_scores", "tree_leaves")
    }
    artifact = BACKEND.compile(b.program(outputs), Target("tvm"))
    for rows in (1, 15, 33, 600):
        x = hostile_rows(np.random.default_rng(rows), forest, dtype, rows)
        x[: rows // 2, :2] = np.random.default_rng(0).integers(0, n_codes + 2, (rows // 2, 2))
        found = artifact.run({"x": x})
        np.testing.assert_array_equal(found["tree_scores"], forest.scores(x))
        np.testing.assert_array_equal(found["tree_leaves"], forest.leaves(x))


def test_sets_are_decided_on_planes_however_many():
    forest = categorical(2000, n_categorical=3, repeat=1)
    machine = Machine(level2=1 << 12)
    assert find_sets(forest).count * PLANE_ROWS // 8 > machine.level2
    task = TreeTask(forest, "float32", "select", Schedule(), machine)
    assert find_kernel(task).name == "bitwise"


def test_planes_of_sets_follow_those_of_thresholds():
    forest = categorical()
    bins = make_bins(forest, "float64")
    masks = make_masks(bins)
    np.testing.assert_array_equal(
        masks.of_tests(bins)[forest.on_category],
        masks.first_set + bins.sets.of_test[forest.on_category],
    )
    assert masks.of_tests(bins)[~forest.on_category].max() < masks.first_set
