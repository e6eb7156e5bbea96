"""CoveredForest: a forest with the shares of its training rows, and what its features add.

What a feature adds to a raw score is its Shapley value among the features of a tree: Lundberg et
al., "Consistent individualized feature attribution for tree ensembles" (2018), "path-dependent".
A tree that does not know a feature takes both branches, and weighs them by the training rows.

What two features add together is their Shapley interaction index ("SHAP interaction values" in
the same article).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.trees.forest import Forest

__all__ = [
    "CoveredForest",
    "TestPaths",
    "count_pairs",
    "find_pairs",
    "gauss_legendre",
    "interaction_matrices",
    "pair_sums",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CoveredForest:
    """A forest of which each test knows how its training rows were shared out.

    Parameters
    ----------
    forest : Forest
        Of plain leaves, without slopes.
    left_share, right_share : Array of float64, shape (n_tests,)
        Part of the cover of a test that went to either side, in the source's own measure.
    feature : Array of int32, shape (n_tests,)
        Feature of the source that each test is about. Several columns may be of one feature.
    n_features : int
        Number of features of the source.
    expected : Array of float64, shape (n_outputs,)
        What each output is where no feature is known.
    """

    forest: Forest
    left_share: Array
    right_share: Array
    feature: Array
    n_features: int
    expected: Array

    def __str__(self) -> str:
        return str(self.forest)

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs, and contributions to each: those of the features, then the expected value."""
        return self.forest.n_outputs, self.n_features + 1

    def misfit(self) -> str | None:
        """Say which array does not fit the forest; None where all do."""
        forest = self.forest
        if forest.slopes is not None or self.n_features < 0:
            return "has linear leaves, or less than no features"
        for array, dtype, size in (
            (self.left_share, "float64", forest.n_tests),
            (self.right_share, "float64", forest.n_tests),
            (self.feature, "int32", forest.n_tests),
            (self.expected, "float64", forest.n_outputs),
        ):
            if (array.dtype, array.shape) != (dtype, (size,)):
                return f"has {array.dtype}{list(array.shape)} where {dtype}[{size}] belongs"
        shares = np.concatenate([self.left_share.data, self.right_share.data])
        if not ((shares >= 0) & (shares <= 1)).all():
            return "has a share of rows that is not between 0 and 1"
        is_feature = (self.feature.data >= 0) & (self.feature.data < self.n_features)
        return None if is_feature.all() else f"is about a feature that is none of {self.n_features}"

    @cached_property
    def start(self) -> Floats:
        """Contributions of no tree: zeros, and the expected values; shape (n_outputs * ...,)."""
        start = np.zeros(self.shape)
        start[:, -1] = self.expected.data
        return start.ravel()

    @cached_property
    def columns(self) -> Ints:
        """Column that each test contributes to with each value of a leaf: (n_tests, n_values)."""
        forest = self.forest
        output = forest.target.data[forest.tree_of_tests].astype(np.int64)[:, None]
        outputs: Ints = output + np.arange(forest.values.shape[1])
        columns: Ints = outputs * (self.n_features + 1) + self.feature.data[:, None]
        return columns

    @cached_property
    def paths(self) -> TestPaths:
        """How the tests of a path belong together."""
        return TestPaths.of(self)

    def contributions(self, x: npt.NDArray[Any]) -> Floats:
        """Return what each feature adds to each output: float64, (n_rows, n_outputs * ...).

        All backends must meet this definition.
        """
        forest = self.forest
        test = np.tile(np.arange(forest.n_tests), len(x))
        goes_left = forest.decide(test, x[:, forest.feature.data].ravel())
        gains = self.of_decisions(goes_left.reshape(len(x), forest.n_tests))
        total = np.tile(self.start, (len(x), 1))
        np.add.at(total.T, self.columns.T.ravel(), gains.reshape(self.columns.size, len(x)))
        return total

    def of_decisions(self, goes_left: Bools) -> Floats:
        """Return what each test adds, for rows that go left at given tests.

        The Shapley value of a feature, for a leaf of value v below tests on k features, is

            v (o_i - z_i) integral over t in [0, 1] of product over j != i of (1-t) z_j + t o_j

        where z_j is the share of training rows that pass all tests on feature j of the path, and
        o_j is 1 if the row passes them, else 0. The integrand is a polynomial of degree k - 1, so
        a Gauss-Legendre rule of k/2 nodes is exact. At each node:

        1. Multiply the factors down to each leaf. A further test on a feature divides by the
           factor that the feature has had, and multiplies by the new one.
        2. Sum the leaves below each side of each test, bottom-up.
        3. A sum counts ``(o - z) / factor`` of its side, less that of the feature's test above.

        Parameters
        ----------
        goes_left : bool array, shape (n_rows, n_tests)

        Returns
        -------
        array of float64, shape (n_values, n_tests, n_rows)
        """
        total = np.zeros((self.forest.values.shape[1], *goes_left.T.shape))
        for weight, gains, sums in self.at_nodes(goes_left):
            for gain, leaf_sum in zip(gains, sums, strict=True):
                total += weight * gain * leaf_sum
        return total

    def at_nodes(
        self, goes_left: Bools
    ) -> Iterator[tuple[float, tuple[Floats, Floats], tuple[Floats, Floats]]]:
        """Yield the weight, the gains and the sums of both sides, at each node of the rule.

        Gains are (n_tests, n_rows), and sums (n_values, n_tests, n_rows).
        """
        forest = self.forest
        paths = self.paths
        decided = goes_left.T
        values = forest.values.data.astype(np.float64)
        open_ = paths.open_tests(decided)
        shape = (values.shape[1], *decided.shape)
        for t, weight in zip(*gauss_legendre(paths.nodes), strict=True):
            factors = paths.factors(t, decided, open_)
            reach = _reach(forest, factors, decided.shape)  # 1
            sums = (np.zeros(shape), np.zeros(shape))
            for level in reversed(paths.levels):  # 2
                for side, children in enumerate((forest.left.data, forest.right.data)):
                    below = reach[level] * factors[side][level]
                    sums[side][:, level] = _sums(children[level], below, values, sums)
            yield float(weight), paths.gains(t, decided, open_), sums  # 3


@dataclass(frozen=True, eq=False)
class TestPaths:
    """How the tests on the way to a leaf belong together: several may be on one feature.

    Parameters
    ----------
    levels : list of int arrays
        Tests by depth.
    above : int array, shape (n_tests,)
        Nearest test on the same feature above each; -1 for none.
    above_left : bool array, shape (n_tests,)
        Whether the way goes left there.
    left, right, before : float array, shape (n_tests,)
        Share of rows that pass all tests on the feature, down either side and above; 1 for none.
    left_share, right_share : float array, shape (n_tests,)
    counts : int array, shape (n_tests,)
        Number of features on the way to either child.
    """

    levels: list[Ints]
    above: Ints
    above_left: Bools
    left: Floats
    right: Floats
    before: Floats
    left_share: Floats
    right_share: Floats
    counts: Ints

    @staticmethod
    def of(covered: CoveredForest) -> TestPaths:
        """Follow the ways from the roots, all trees at once."""
        forest = covered.forest
        levels = _levels(forest)
        parent, from_left = forest.parents
        above, above_left = _same_above(covered.feature.data, parent, from_left)
        left = covered.left_share.data.copy()
        right = covered.right_share.data.copy()
        before = np.ones(forest.n_tests)
        counts = np.ones(forest.n_tests, np.int64)
        for level in levels:
            again = level[above[level] >= 0]
            before[again] = np.where(above_left[again], left[above[again]], right[above[again]])
            left[level] *= before[level]
            right[level] *= before[level]
            counts[level] = (above[level] < 0) + np.where(
                parent[level] >= 0, counts[parent[level]], 0
            )
        shares = covered.left_share.data, covered.right_share.data
        return TestPaths(levels, above, above_left, left, right, before, *shares, counts)

    @property
    def nodes(self) -> int:
        """Nodes of the rule that is exact for all trees."""
        # A rule of n nodes is exact up to degree 2 n - 1, and the integrand has degree k - 1.
        return max(1, -(-int(self.counts.max(initial=1)) // 2))

    def open_tests(self, decided: Bools) -> Bools:
        """Tell where a row passes all tests on the feature above; shape (n_tests, n_rows)."""
        open_ = np.ones(decided.shape, np.bool_)
        for level in self.levels:
            again = level[self.above[level] >= 0]
            above = self.above[again]
            open_[again] = open_[above] & (decided[above] == self.above_left[again][:, None])
        return open_

    def factors(self, t: float, decided: Bools, open_: Bools) -> tuple[Floats, Floats]:
        """Return what the way down either side is multiplied by."""
        before = self._factor(self.before, t)
        left, right = (
            np.where(
                open_,
                ((1 - t) * share[:, None] + t * passed) / before[:, None],
                own_share[:, None],
            )
            for share, own_share, passed in (
                (self.left, self.left_share, decided),
                (self.right, self.right_share, ~decided),
            )
        )
        return left, right

    def gains(self, t: float, decided: Bools, open_: Bools) -> tuple[Floats, Floats]:
        """Return what the sum of the leaves down either side counts."""
        before = (1 - self.before) / self._factor(self.before, t)
        left, right = (
            open_
            * (
                # Nodes of the rule lie inside of (0, 1), so 1 - t is never zero.
                np.where(passed, ((1 - share) / self._factor(share, t))[:, None], -1 / (1 - t))
                - before[:, None]
            )
            for share, passed in ((self.left, decided), (self.right, ~decided))
        )
        return left, right

    @staticmethod
    def _factor(share: Floats, t: float) -> Floats:
        """Return the factor of a feature whose tests a row passes."""
        # t is above 0, so factors can be divided by even where no training row passed.
        return (1 - t) * share + t


def gauss_legendre(nodes: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of the rule on [0, 1]."""
    t, weight = np.polynomial.legendre.leggauss(nodes)
    # leggauss is of the interval [-1, 1].
    return (t + 1) / 2, weight / 2


def _reach(forest: Forest, factors: tuple[Floats, Floats], shape: tuple[int, ...]) -> Floats:
    """Multiply the factors on the way to each test."""
    reach = np.ones(shape)
    for level in _levels(forest):
        for side, children in enumerate((forest.left.data[level], forest.right.data[level])):
            inner = children >= 0
            at = level[inner]
            reach[children[inner]] = reach[at] * factors[side][at]
    return reach


def _sums(
    children: npt.NDArray[np.int32],
    below: Floats,
    values: Floats,
    sums: tuple[Floats, Floats],
) -> Floats:
    """Return the sums of the leaves under children: (n_values, n_children, n_rows)."""
    inner = children >= 0
    below_children = np.empty((values.shape[1], *below.shape))
    below_children[:, inner] = sums[0][:, children[inner]] + sums[1][:, children[inner]]
    below_children[:, ~inner] = values[~children[~inner]].T[:, :, None] * below[~inner]
    return below_children


def _levels(forest: Forest) -> list[Ints]:
    """List the tests by depth."""
    order = np.argsort(forest.depth_of_tests, kind="stable")
    ends = np.cumsum(np.bincount(forest.depth_of_tests, minlength=1))
    return np.split(order, ends[:-1])


def _same_above(
    feature: npt.NDArray[np.int32], parent: Ints, from_left: Bools
) -> tuple[Ints, Bools]:
    """Return the nearest test of the same feature above each, and the side that the way takes."""
    above = parent.copy()
    side = from_left.copy()
    going = np.flatnonzero(above >= 0)
    while len(going):
        # Each turn climbs one test, with those that have met none of their feature so far.
        going = going[feature[above[going]] != feature[going]]
        side[going] = from_left[above[going]]
        above[going] = parent[above[going]]
        going = going[above[going] >= 0]
    return above, side


IntArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class FeaturePairs:
    """The pairs of features that some way to a leaf tests, and of their tests.

    Parameters
    ----------
    first, second : int array, shape (n_pairs,)
        Features of each pair, the smaller one first.
    test, above : int array, shape (n_meetings,)
        Two tests of one way on different features; those of a test are neighbours, in its order.
    from_left : bool array, shape (n_meetings,)
        Whether the way goes left at the upper test.
    pair : int array, shape (n_meetings,)
        Pair of their features.
    """

    first: IntArray
    second: IntArray
    test: IntArray
    above: IntArray
    from_left: Bools
    pair: IntArray

    def places(self, width: int) -> IntArray:
        """Return the number of each pair in a matrix of the features, and -1 elsewhere.

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


# Types, tables and kernels of a forest ask for the same pairs, one after another.
@lru_cache(maxsize=2)
def find_pairs(covered: CoveredForest) -> FeaturePairs:
    """Walk up from all tests, and note the tests above each that are on other features."""
    keys = _pair_keys(covered)
    none: IntArray = np.empty(0, np.int32)
    met: list[tuple[IntArray, IntArray, Bools, IntArray]] = [
        (none, none, none.astype(np.bool_), none)
    ]
    for test, above, from_left in _meetings(covered):
        # int32 halves the memory of the meetings, of which deep trees have many.
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
        # One distance of levels at a time: memory grows with the pairs, not with their meetings.
        keys = np.union1d(keys, _keys(covered, test, above))
    return keys


def _keys(covered: CoveredForest, test: IntArray, above: IntArray) -> npt.NDArray[np.int64]:
    feature = covered.feature.data
    first = np.minimum(feature[test], feature[above])
    second = np.maximum(feature[test], feature[above])
    keys: npt.NDArray[np.int64] = first.astype(np.int64) * covered.n_features + second
    return keys


def _meetings(covered: CoveredForest) -> Iterator[tuple[IntArray, IntArray, Bools]]:
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
    total = np.zeros(shape)
    output = forest.target.data[forest.tree_of_tests[pairs.test]]
    for weight, gains, sums in covered.at_nodes(goes_left.reshape(len(x), forest.n_tests)):
        gain = np.where(pairs.from_left[:, None], gains[0][pairs.above], gains[1][pairs.above])
        for value, (left, right) in enumerate(zip(*sums, strict=True)):
            lower = (gains[0] * left + gains[1] * right)[pairs.test]
            np.add.at(total, (output + value, pairs.pair), weight * lower * gain)
    return total.reshape(shape[0] * shape[1], len(x)).T


def interaction_matrices(covered: CoveredForest, x: npt.NDArray[Any]) -> Floats:
    """Return a matrix of the features for each output: (n_rows, n_outputs * width * width).

    Half of what a pair adds is in either place. The diagonal makes each row add up to the
    contribution of its feature.
    """
    pairs = find_pairs(covered)
    outputs, width = covered.shape
    halves = pair_sums(covered, x).reshape(len(x), outputs, len(pairs.first)) / 2
    matrices = np.zeros((len(x), outputs, width, width))
    matrices[:, :, pairs.first, pairs.second] = halves
    matrices[:, :, pairs.second, pairs.first] = halves
    alone = covered.contributions(x).reshape(len(x), outputs, width) - matrices.sum(axis=3)
    matrices[:, :, np.arange(width), np.arange(width)] = alone
    return matrices.reshape(len(x), outputs * width * width)
