"""FeaturePairs: what two features of a forest add together to its raw scores.

That is their Shapley interaction index: Lundberg et al., "Consistent individualized feature
attribution for tree ensembles" (2018), "SHAP interaction values".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.covered_forest import CoveredForest

__all__ = ["FeaturePairs", "count_pairs", "find_pairs", "interaction_matrices", "pair_sums"]

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeaturePairs:
    """The pairs of features that some way to a leaf tests, and of their tests.

    Parameters
    ----------
    first, second : int array, shape (n_pairs,)
        Features of each pair, the smaller one first.
    test, above : int array, shape (n_meetings,)
        Two tests of one way on different features; those of a test stand together, in its order.
    from_left : bool array, shape (n_meetings,)
        Whether the way goes left at the upper test.
    pair : int array, shape (n_meetings,)
        Pair of their features.
    """

    first: Ints
    second: Ints
    test: Ints
    above: Ints
    from_left: Bools
    pair: Ints

    def places(self, width: int) -> Ints:
        """Return where pairs stand in a matrix of the features, and -1 elsewhere.

        Examples
        --------
        >>> of = np.array
        >>> none = of([], int)
        >>> FeaturePairs(of([0, 1]), of([1, 2]), none, none, none, none).places(3)
        array([[-1,  0, -1],
               [ 0, -1,  1],
               [-1,  1, -1]])
        """
        places = np.full((width, width), -1)
        places[self.first, self.second] = np.arange(len(self.first))
        places[self.second, self.first] = np.arange(len(self.first))
        return places


def count_pairs(covered: CoveredForest) -> int:
    """Count the pairs of features, in memory that their tests do not multiply."""
    return len(_pair_keys(covered))


@lru_cache(maxsize=2)
def find_pairs(covered: CoveredForest) -> FeaturePairs:
    """Walk up from all tests, and note the tests above each that are on other features."""
    keys = _pair_keys(covered)
    none: Ints = np.empty(0, np.int32)
    met: list[tuple[Ints, Ints, Bools, Ints]] = [(none, none, none.astype(np.bool_), none)]
    for test, above, from_left in _meetings(covered):
        pair = np.searchsorted(keys, _keys(covered, test, above)).astype(np.int32)
        met.append((test, above, from_left, pair))
    test, above, from_left, pair = (np.concatenate(arrays) for arrays in zip(*met, strict=True))
    order = np.argsort(test, kind="stable")
    first, second = np.divmod(keys, max(covered.n_features, 1))
    return FeaturePairs(first, second, test[order], above[order], from_left[order], pair[order])


@lru_cache(maxsize=2)
def _pair_keys(covered: CoveredForest) -> npt.NDArray[np.int64]:
    """Return the key of each pair of features that meet, ascending."""
    keys = np.empty(0, np.int64)
    for test, above, _ in _meetings(covered):
        keys = np.union1d(keys, _keys(covered, test, above))
    return keys


def _keys(covered: CoveredForest, test: Ints, above: Ints) -> npt.NDArray[np.int64]:
    feature = covered.feature.data
    first = np.minimum(feature[test], feature[above])
    second = np.maximum(feature[test], feature[above])
    keys: npt.NDArray[np.int64] = first.astype(np.int64) * covered.n_features + second
    return keys


def _meetings(covered: CoveredForest) -> Iterator[tuple[Ints, Ints, Bools]]:
    """Yield tests, tests above them on other features, and whether the way goes left there.

    All that are one level apart come first, then those of two levels, and so on.
    """
    parent, from_left = covered.forest.parents
    feature = covered.feature.data
    parent = parent.astype(np.int32)
    test = np.flatnonzero(parent >= 0).astype(np.int32)
    above = parent[test]
    side = from_left[test]
    while len(test):
        differ = feature[test] != feature[above]
        yield test[differ], above[differ], side[differ]
        higher = parent[above] >= 0
        test = test[higher]
        side = from_left[above[higher]]
        above = parent[above[higher]]


def pair_sums(covered: CoveredForest, x: npt.NDArray[Any]) -> Floats:
    """Return what each pair of features adds to each output: (n_rows, n_outputs * n_pairs).

    For a leaf of value v, and with the names of ``CoveredForest.of_decisions``, that is

        v (o_i - z_i) (o_j - z_j) integral over t in [0, 1] of product over k of (1-t) z_k + t o_k

    over the other features k of its way. So it is the sum over pairs of tests, one above the
    other, of what the lower one adds times the gain of the upper one. All backends must meet this
    definition.
    """
    forest = covered.forest
    pairs = find_pairs(covered)
    test = np.tile(np.arange(forest.n_tests), len(x))
    goes_left = forest.decide(test, x[:, forest.feature.data].ravel())
    shape = (forest.n_outputs, len(pairs.first), len(x))
    found = np.zeros(shape)
    output = forest.target.data[forest.tree_of_tests[pairs.test]]
    for weight, gains, sums in covered.at_nodes(goes_left.reshape(len(x), forest.n_tests)):
        gain = np.where(pairs.from_left[:, None], gains[0][pairs.above], gains[1][pairs.above])
        for value, (left, right) in enumerate(zip(*sums, strict=True)):
            lower = (gains[0] * left + gains[1] * right)[pairs.test]
            np.add.at(found, (output + value, pairs.pair), weight * lower * gain)
    return found.reshape(shape[0] * shape[1], len(x)).T


def interaction_matrices(covered: CoveredForest, x: npt.NDArray[Any]) -> Floats:
    """Return a matrix of the features for each output: (n_rows, n_outputs * width * width).

    Half of what a pair adds stands in either place. The diagonal makes each row add up to the
    contribution of its feature.
    """
    pairs = find_pairs(covered)
    outputs, width = covered.shape
    halves = pair_sums(covered, x).reshape(len(x), outputs, len(pairs.first)) / 2
    found = np.zeros((len(x), outputs, width, width))
    found[:, :, pairs.first, pairs.second] = halves
    found[:, :, pairs.second, pairs.first] = halves
    alone = covered.contributions(x).reshape(len(x), outputs, width) - found.sum(axis=3)
    found[:, :, np.arange(width), np.arange(width)] = alone
    return found.reshape(len(x), outputs * width * width)
