"""Contributions and interactions of features equal their definitions, over all sets of features."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from math import factorial

import numpy as np
import pytest
from forests import hostile_rows, known_value, random_forest, with_random_shares

from hbconv.array import Array
from hbconv.trees.covered_forest import find_pairs, pair_sums


def shapley(covered, row):
    """Compute each feature's mean gain over all orders in which features become known."""
    forest = covered.forest
    features = range(covered.n_features)
    found = np.zeros(covered.shape)
    found[:, -1] = covered.expected.data
    vector = forest.values.shape[1] > 1
    for tree, root in enumerate(forest.roots.data):
        outputs = range(forest.n_outputs) if vector else [forest.target[tree]]
        for column, output in enumerate(outputs):
            values = forest.values.data[:, column]

            def known(chosen, root=root, values=values):
                return known_value(covered, row, chosen, root, values)

            for feature in features:
                others = [f for f in features if f != feature]
                for size in range(len(others) + 1):
                    weight = factorial(size) * factorial(len(others) - size)
                    for chosen in combinations(others, size):
                        gain = known({*chosen, feature}) - known(chosen)
                        found[output, feature] += weight / factorial(covered.n_features) * gain
    return found.ravel()


@pytest.mark.parametrize("seed", range(8))
def test_equals_the_definition(seed):
    rng = np.random.default_rng(seed)
    kinds = {"n_outputs": 1 + seed % 3, "vector": seed % 2 == 1, "n_categorical": seed % 2}
    forest = random_forest(rng, 3, 5, max_depth=4, strict=seed % 3 == 0, **kinds)
    covered = with_random_shares(forest, rng, n_features=None if seed % 4 else 3)
    x = hostile_rows(rng, forest, "float64", 12)
    want = np.stack([shapley(covered, row) for row in x])
    np.testing.assert_allclose(covered.contributions(x), want, rtol=0, atol=1e-13)


def test_many_features_on_one_path_are_exact():
    """Contributions and the value where nothing is known add up to the sums of the leaves."""
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 6, 30, max_depth=24)
    covered = with_random_shares(forest, rng)
    nothing = np.zeros(forest.n_outputs)
    for root in forest.roots.data:
        nothing += known_value(covered, None, (), root, forest.values.data[:, 0])
    x = hostile_rows(rng, forest, "float32", 50)
    of_features = covered.contributions(x)[:, :-1].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        of_features + nothing + forest.start.data, forest.scores(x), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"left_share": Array([0.5])}, r"float64\[1\] where"),
        ({"n_features": 2}, "is none of 2"),
        ({"expected": Array(np.zeros(1, np.float32))}, "where float64"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change, told):
    rng = np.random.default_rng(1)
    covered = with_random_shares(random_forest(rng, 9, 4), rng)
    assert covered.misfit() is None
    assert re.search(told, replace(covered, **change).misfit())


def test_shares_are_between_nothing_and_all():
    rng = np.random.default_rng(2)
    covered = with_random_shares(random_forest(rng, 9, 4), rng)
    shares = covered.left_share.data.copy()
    for wrong in (-0.1, 1.1, np.nan):
        shares[0] = wrong
        assert "not between 0 and 1" in replace(covered, left_share=Array(shares)).misfit()


def interaction(covered, row, first, second, output):
    """Compute the mean of what two features add together beyond what each adds."""
    forest = covered.forest
    count = covered.n_features
    others = [f for f in range(count) if f not in (first, second)]
    vector = forest.values.shape[1] > 1
    trees = [
        (root, forest.values.data[:, output if vector else 0])
        for tree, root in enumerate(forest.roots.data)
        if vector or forest.target[tree] == output
    ]
    found = 0.0
    for size in range(len(others) + 1):
        weight = factorial(size) * factorial(count - size - 2) / factorial(count - 1)
        for chosen in combinations(others, size):
            for sign, more in ((1, (first, second)), (-1, (first,)), (-1, (second,)), (1, ())):
                found += sign * weight * sum(
                    known_value(covered, row, {*chosen, *more}, root, values)
                    for root, values in trees
                )  # fmt: skip
    return found


@pytest.mark.parametrize("seed", range(5))
def test_pairs_equal_the_definition(seed):
    rng = np.random.default_rng(seed)
    kinds = {"n_outputs": 1 + seed % 3, "vector": seed % 2 == 1, "n_categorical": seed % 2}
    forest = random_forest(rng, 3, 5, max_depth=4, strict=seed % 3 == 0, **kinds)
    covered = with_random_shares(forest, rng, n_features=None if seed % 4 else 3)
    x = hostile_rows(rng, forest, "float64", 4)
    pairs = find_pairs(covered)
    found = pair_sums(covered, x).reshape(len(x), forest.n_outputs, len(pairs.first))
    of_pair = pairs.places(covered.n_features)
    for first, second in combinations(range(covered.n_features), 2):
        place = of_pair[first, second]
        assert of_pair[second, first] == place
        want = [
            [interaction(covered, row, first, second, o) for o in range(forest.n_outputs)]
            for row in x
        ]
        got = found[:, :, place] if place >= 0 else np.zeros(found.shape[:2])
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-13)


def test_trees_of_one_split_have_no_pairs():
    rng = np.random.default_rng(0)
    covered = with_random_shares(random_forest(rng, 4, 5, max_depth=1), rng)
    assert pair_sums(covered, hostile_rows(rng, covered.forest, "float64", 3)).shape == (3, 0)
