"""Contributions of symmetric trees are sums over trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from forests import hostile_rows, random_forest, with_random_shares

from hbconv.array import Array
from hbconv.trees import symmetric_forest
from hbconv.trees.forest import Forest
from hbconv.trees.forest_check import check_forest
from hbconv.trees.symmetric_forest import find_level_splits, sum_as_leaves


def symmetric(rng, depths=(3, 0, 5, 1, 3), n_features=4, n_outputs=1, vector=False):
    """Heaps whose levels ask one split each."""
    roots, first_leaf, left, right, of_level = [], [0], [], [], []
    for depth in depths:
        first = len(left)
        roots.append(first if depth else ~first_leaf[-1])
        level = rng.integers(0, 1 << 20, depth)
        for node in range(2**depth - 1):
            of_level.append(level[(node + 1).bit_length() - 1])
            for side, children in ((1, left), (2, right)):
                child = 2 * node + side
                inner = child < 2**depth - 1
                children.append(
                    first + child if inner else ~(first_leaf[-1] + child - 2**depth + 1)
                )
        first_leaf.append(first_leaf[-1] + 2**depth)
    drawn = np.array(of_level)
    n_trees = len(depths)
    return Forest(
        feature=Array.of(drawn % n_features, "int32"),
        threshold=Array(np.sin(drawn)),
        default_left=Array(drawn % 3 == 0),
        left=Array.of(left, "int32"), right=Array.of(right, "int32"),
        roots=Array.of(roots, "int32"), first_leaf=Array.of(first_leaf, "int32"),
        values=Array(rng.standard_normal((first_leaf[-1], n_outputs if vector else 1))),
        target=Array.of(np.zeros(n_trees) if vector else np.arange(n_trees) % n_outputs, "int32"),
        start=Array(np.zeros(n_outputs)), strict=False, n_features=n_features,
        leaf_id=Array.of(np.arange(first_leaf[-1]), "int32"),
    )  # fmt: skip


@pytest.mark.parametrize("at_once", [1, 1 << 22])
@pytest.mark.parametrize(("outputs", "vector"), [(1, False), (2, False), (3, True)])
def test_sums_are_the_contributions(outputs, vector, at_once, monkeypatch):
    monkeypatch.setattr(symmetric_forest, "MAX_DECISIONS", at_once)
    rng = np.random.default_rng(outputs)
    forest = symmetric(rng, n_outputs=outputs, vector=vector)
    covered = with_random_shares(forest, rng)
    sum_as_leaves.cache_clear()
    sums = sum_as_leaves(covered)
    check_forest(sums)
    x = hostile_rows(rng, forest, "float64", 200)
    np.testing.assert_allclose(sums.scores(x), covered.contributions(x), rtol=0, atol=1e-13)


def test_other_trees_have_no_such_sums():
    rng = np.random.default_rng(0)
    forest = symmetric(rng)
    assert find_level_splits(forest) is not None
    one_other = forest.threshold.data.copy()
    one_other[1] += 1
    other = replace(forest, threshold=Array(one_other))
    assert find_level_splits(other) is None
    assert sum_as_leaves(with_random_shares(other, rng)) is None
    assert sum_as_leaves(with_random_shares(random_forest(rng, 9, 4, 6), rng)) is None
