"""Ranks: comparing them decides as the thresholds do, NaN included."""

from __future__ import annotations

import numpy as np
import pytest
from forests import hostile_rows, random_forest

from hbconv.trees.ranked import EDGES_PER_COLUMN, rank_features


def forest_of(seed, **kinds):
    return random_forest(np.random.default_rng(seed), n_trees=20, awkward=0.5, **kinds)


def ranks_of(edges, values):
    """Count the edges that each value lies right of; none is right of NaN."""
    return (~(values[:, None] <= edges)).sum(axis=1)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_ranks_decide_as_thresholds_do(seed, dtype, apart):
    forest = forest_of(seed, strict=seed % 2 == 1, n_categorical=seed % 3)
    x = hostile_rows(np.random.default_rng(seed), forest, dtype)
    seen = []
    for feature in rank_features(forest, dtype):
        ranked = feature.with_nan_apart() if apart else feature
        values = x[:, feature.number]
        values = values[~np.isnan(values)]
        goes_left = ranks_of(ranked.edges, values)[:, None] <= ranked.rank
        for place, test in enumerate(ranked.tests):
            expected = forest.decide(np.full(len(values), test), values)
            np.testing.assert_array_equal(goes_left[:, place], expected)
        seen.extend(ranked.tests)
    assert sorted(seen) == np.flatnonzero(~forest.on_category).tolist()


@pytest.mark.parametrize("seed", range(6))
def test_one_rank_of_nan_serves_all_splits_unless_they_are_mixed(seed):
    features = rank_features(forest_of(seed, strict=True), "float64")
    for feature in features:
        served = [
            ((rank <= feature.rank) == feature.to_left).all()
            for rank in range(len(feature.edges) + 1)
        ]
        assert feature.mixed != any(served)
        assert feature.mixed or served[feature.missing]
        apart = feature.with_nan_apart()
        assert (apart.rank >= np.isnan(apart.edges[0])).all() or np.isnan(feature.edges[0])


def test_parts_hold_what_a_byte_tells_apart():
    forest = random_forest(np.random.default_rng(0), n_trees=200, n_features=1, max_depth=6)
    (feature,) = rank_features(forest, "float64")
    parts = list(feature.parts())
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate([edges for _, edges in parts]), feature.edges)
    assert [first for first, _ in parts] == [EDGES_PER_COLUMN * i for i in range(len(parts))]
    assert feature.segment.max() == len(parts) - 1
