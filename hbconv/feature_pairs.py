"""FeaturePairs: what two features of a forest add together to its raw scores.

That is their Shapley interaction index: Lundberg et al., "Consistent individualized feature
attribution for tree ensembles" (2018), "SHAP interaction values".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.covered_forest import CoveredForest, find_parents

__all__ = ["FeaturePairs", "find_pairs", "pair_sums"]

Ints = npt.NDArray[np.int64]
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


@lru_cache(maxsize=2)
def find_pairs(covered: CoveredForest) -> FeaturePairs:
    """Walk up from all tests, and note the tests above each that are on other features."""
    parent, from_left = find_parents(covered.forest)
    feature = covered.feature.data.astype(np.int64)
    test = np.flatnonzero(parent >= 0)
    above = parent[test]
    side = from_left[test]
    met = [(test[:0], above[:0], side[:0])]
    while len(test):
        met.append((test, above, side))
        higher = parent[above] >= 0
        test = test[higher]
        side = from_left[above[higher]]
        above = parent[above[higher]]
    test, above, side = (np.concatenate(arrays) for arrays in zip(*met, strict=True))
    differ = np.flatnonzero(feature[test] != feature[above])
    order = differ[np.argsort(test[differ], kind="stable")]
    both = np.sort(np.stack([feature[test[order]], feature[above[order]]]), axis=0)
    keys, pair = np.unique(both[0] * covered.n_features + both[1], return_inverse=True)
    first, second = np.divmod(keys, max(covered.n_features, 1))
    return FeaturePairs(first, second, test[order], above[order], side[order], pair.ravel())


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
