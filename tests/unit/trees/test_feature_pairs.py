"""Interactions of features are Shapley interaction indices: the definition, over all sets."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from forests import hostile_rows, known_value, random_forest, with_random_shares

from hbconv.trees.covered_forest import find_pairs, pair_sums


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
def test_equals_the_definition(seed):
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
