"""Contributions and interactions of features as primitives, for backends without their kernels.

Every leaf counts for every row. So the work is that of all leaves, as wide as their ways are long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.tensor.builder import Builder, Value
from hbconv.tensor.decompositions import Rule
from hbconv.trees.covered_forest import CoveredForest, find_pairs, gauss_legendre
from hbconv.trees.splits import prepare_splits

__all__ = ["DECOMPOSITIONS", "write_interaction_matrices"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def write_contributions(b: Builder, x: Value, covered: CoveredForest) -> Value:
    """Write ``tree_contributions`` as other primitives.

    1. Tell which features of the way to each leaf a row passes.
    2. Add up what each of them adds, at the nodes of the rule (``CoveredForest.of_decisions``).
    3. Add up the leaves of each feature, times their values.
    """
    if not covered.forest.n_tests:
        return b.op("expand", x, b.constant(covered.start))
    ways = _Ways.of(covered)
    counts = [
        b.reshape(gain * b.reshape(product, 1, ways.edge.shape[1]), ways.edge.size)
        for gain, product in _at_nodes(b, x, covered, ways)  # 1
    ]
    outputs, width = covered.shape
    feature = ways.feature.ravel()
    leaf = np.tile(np.arange(ways.edge.shape[1]), ways.edge.shape[0])
    used = np.unique(feature[feature >= 0])
    sums = _sum_by_key(b, _total(counts), covered, feature, leaf)  # 2, 3
    none = b.op("expand", x, b.constant(np.zeros(1)))
    # Features that no tree tests read the zero behind the sums.
    place = np.full((outputs, width), len(used) * outputs)
    place[:, used] = np.arange(outputs)[:, None] + outputs * np.arange(len(used))
    return b.take(b.concat([*sums, none]), place.ravel()) + b.constant(covered.start)


def write_interactions(b: Builder, x: Value, covered: CoveredForest) -> Value:
    """Write ``tree_interactions`` as other primitives.

    As contributions are, with the gains of two features of each way.
    """
    pairs = find_pairs(covered)
    outputs = covered.forest.n_outputs
    if not len(pairs.first):
        return b.op("expand", x, b.constant(np.zeros(0)))
    ways = _Ways.of(covered)
    upper, lower = (place.ravel() for place in np.triu_indices(len(ways.edge), 1))
    leaf = np.tile(np.arange(ways.edge.shape[1]), len(upper))
    places = [np.repeat(place, ways.edge.shape[1]) for place in (upper, lower)]
    features = np.stack([ways.feature[place, leaf] for place in places])
    some = np.flatnonzero((features >= 0).all(axis=0))
    leaf = leaf[some]
    entries = [place[some] * ways.edge.shape[1] + leaf for place in places]
    counts = []
    for gain, product in _at_nodes(b, x, covered, ways):
        flat = b.reshape(gain, ways.edge.size)
        counts.append(b.take(flat, entries[0]) * b.take(flat, entries[1]) * b.take(product, leaf))
    key = pairs.places(covered.n_features)[features[0, some], features[1, some]]
    sums = b.concat(_sum_by_key(b, _total(counts), covered, key, leaf))
    return b.take(sums, np.arange(len(pairs.first) * outputs).reshape(-1, outputs).T.ravel())


def write_interaction_matrices(
    b: Builder, x: Value, covered: CoveredForest, contributions: Value
) -> Value:
    """Write ``tree_interaction_matrices`` as contributions and what pairs add.

    1. Halve what pairs add, and find their places, those of other entries at a zero.
    2. Take the sum of each row off the contribution of its feature.
    """
    outputs, width = covered.shape
    pairs = find_pairs(covered)
    count = len(pairs.first)
    parts = [b.op("expand", contributions, b.constant(np.zeros(1)))]
    if count:
        both = b.op("tree_interactions", x, covered=covered)
        parts = [both * b.constant(0.5), *parts]
    place = pairs.places(width)
    output = count * np.arange(outputs)[:, None, None]
    places = np.where(place < 0, count * outputs, place + output)  # 1
    off_diagonal = b.take(b.concat(parts), places.ravel())
    sums = b.reduce("reduce_sum", b.reshape(off_diagonal, outputs * width, width), axis=1)
    places[:, np.arange(width), np.arange(width)] = (
        count * outputs + 1 + np.arange(outputs * width).reshape(outputs, width)
    )
    return b.take(b.concat([*parts, contributions - sums]), places.ravel())  # 2


@dataclass(frozen=True, eq=False)
class _Ways:
    """The features on the way to each leaf, each by its last test: (most features, n_leaves).

    Parameters
    ----------
    edge : int array
        Side of a test, ``2 * test + 1`` for the right one. Ways of fewer features have the edge
        past all others, which every row passes.
    share : float array
        Part of the training rows that pass all tests on the feature.
    feature : int array
        The feature, -1 for none.
    """

    edge: Ints
    share: Floats
    feature: Ints

    @staticmethod
    def of(covered: CoveredForest) -> _Ways:
        """Walk up from all leaves, and drop tests that have a later one on their feature."""
        forest = covered.forest
        paths = covered.paths
        leaf, edge = _walk_up(covered)
        key = leaf * forest.n_tests + edge // 2
        above = paths.above[edge // 2]
        later = leaf[above >= 0] * forest.n_tests + above[above >= 0]
        last = ~np.isin(key, later)
        order = np.argsort(leaf[last], kind="stable")
        leaf = leaf[last][order]
        edge = edge[last][order]
        counts = np.bincount(leaf, minlength=forest.n_leaves)
        place = np.arange(len(leaf)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (int(counts.max()), forest.n_leaves)
        edges = np.full(shape, 2 * forest.n_tests)
        edges[place, leaf] = edge
        shares = np.append(np.stack([paths.left, paths.right], axis=1).ravel(), 1.0)
        features = np.append(np.repeat(covered.feature.data, 2), -1)
        return _Ways(edges, shares[edges], features[edges])


def _walk_up(covered: CoveredForest) -> tuple[Ints, Ints]:
    """Return the edges on the way to each leaf, and their leaves."""
    forest = covered.forest
    over_leaf = np.full(forest.n_leaves, -1, np.int64)
    over_test = np.full(forest.n_tests, -1, np.int64)
    for side, children in enumerate((forest.left.data, forest.right.data)):
        edge = 2 * np.arange(forest.n_tests) + side
        inner = children >= 0
        over_leaf[~children[~inner]] = edge[~inner]
        over_test[children[inner]] = edge[inner]
    leaf = np.flatnonzero(over_leaf >= 0)
    edge = over_leaf[leaf]
    leaves = []
    edges = []
    while len(leaf):
        leaves.append(leaf)
        edges.append(edge)
        edge = over_test[edge // 2]
        leaf = leaf[edge >= 0]
        edge = edge[edge >= 0]
    return np.concatenate(leaves), np.concatenate(edges)


def _write_passed(b: Builder, x: Value, covered: CoveredForest) -> Value:
    """Tell whether a row passes all tests of an edge's feature down to the edge; then True.

    Tests on a feature that has been tested n times follow those with n - 1 such tests above.
    """
    forest = covered.forest
    paths = covered.paths
    splits = prepare_splits(forest, x, b)
    turn = np.zeros(forest.n_tests, np.int64)
    for level in paths.levels:
        again = level[paths.above[level] >= 0]
        turn[again] = turn[paths.above[again]] + 1
    place = np.empty(2 * forest.n_tests, np.int64)
    parts: list[Value] = []
    first = 0
    for number in range(int(turn.max()) + 1):
        tests = np.flatnonzero(turn == number)
        left = splits.goes_left(tests, b)
        both = b.concat([left, ~left])
        if number:
            above = place[2 * paths.above[tests] + ~paths.above_left[tests]]
            passed = b.take(parts[-1], above - first)
            both = both & b.concat([passed, passed])
            first += parts[-1].shape[0]
        place[2 * tests] = first + np.arange(len(tests))
        place[2 * tests + 1] = place[2 * tests] + len(tests)
        parts.append(both)
    some = b.take(parts[0], [0])
    return b.take(b.concat([*parts, some | ~some]), np.append(place, 2 * forest.n_tests))


def _at_nodes(
    b: Builder, x: Value, covered: CoveredForest, ways: _Ways
) -> Iterator[tuple[Value, Value]]:
    """Yield the gains of the ways, and the weighted products of their factors, at each node.

    They are of the shapes (most features, n_leaves) and (n_leaves,).
    """
    passed = b.reshape(b.take(_write_passed(b, x, covered), ways.edge.ravel()), *ways.edge.shape)
    share = ways.share
    for t, weight in zip(*gauss_legendre(covered.paths.nodes), strict=True):
        factor = (1 - t) * share + t
        factors = b.where(passed, b.constant(factor), b.constant((1 - t) * share))
        product = b.reduce("reduce_prod", factors) * b.constant(float(weight))
        lost = np.full(share.shape, -1 / (1 - t))
        yield b.where(passed, b.constant((1 - share) / factor), b.constant(lost)), product


def _total(counts: list[Value]) -> Value:
    total = counts[0]
    for more in counts[1:]:
        total = total + more
    return total


def _sum_by_key(
    b: Builder, counts: Value, covered: CoveredForest, key: Ints, leaf: Ints
) -> list[Value]:
    """Add up the counts of each key, negative ones left out, times the values of the leaves."""
    values = _values(covered)
    sums = []
    for each in np.unique(key[key >= 0]):
        places = np.flatnonzero(key == each)
        sums.append(b.matmul(b.take(counts, places), b.constant(values[leaf[places]])))
    return sums


def _values(covered: CoveredForest) -> Floats:
    """Return what each leaf adds to each output: (n_leaves, n_outputs)."""
    forest = covered.forest
    values: Floats = forest.values.data.astype(np.float64)
    if values.shape[1] > 1:
        return values
    target = np.repeat(forest.target.data, np.diff(forest.first_leaf.data))
    spread: Floats = values * (target[:, None] == np.arange(forest.n_outputs))
    return spread


DECOMPOSITIONS: Mapping[str, Rule] = {
    "tree_contributions": write_contributions,
    "tree_interactions": write_interactions,
}
"""The rule of each primitive that has no kernel on most backends."""
