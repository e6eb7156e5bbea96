"""The tests of a forest in the order in which their factors are multiplied and their sums added."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import SIGNED_BYTE_BIAS, Bins, make_bins
from hbconv.trees.covered_forest import CoveredForest, find_pairs, gauss_legendre
from hbconv.trees.forest import Forest

__all__ = [
    "ALWAYS",
    "LEFT",
    "NUMBERS",
    "OFF",
    "RIGHT",
    "WORDS",
    "ContributionTables",
    "make_pair_tables",
    "make_tables",
]

OFF, LEFT, RIGHT = range(3)
"""State of a row at a test: it fails one above on the same feature, goes left, goes right."""
ALWAYS = LEFT
"""What the first state holds: it is above tests on features that no test above reads."""
WORDS = 8
"""Words of a test."""
NUMBERS = 8
"""Numbers of a test."""
REPEATED = 0x01010101
DEPTH_STEP = 8
"""Depth is rounded up to a multiple: models of about the same depth share code."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ContributionTables:
    """A forest as steps over slots of sums, each one number for each row of a block.

    The steps of a tree go down before a test's branches, and up after them. Slot 0 belongs to the
    root, and two slots to the children of the tests of each depth. So they are few.

    Parameters
    ----------
    bins : Bins
    steps : int32 (n_steps,)
        ``2 * test``, and 1 more for the way up. A tree of vector leaves has steps for each value.
    start : int32 (n_trees * n_values + 1,)
        First step of each tree.
    rule, nodes : int32 (n_trees * n_values,)
        First node of each tree's rule, and their number.
    t, weight : float64
        Nodes and weights of all rules.
    words : int32 (n_tests * n_values, WORDS)
        Column of bytes, and the byte above those that go left, four times; slot, and that of the
        left child; state; state of the test above on the same feature, and what passes it; column
        of the result.
    numbers : float64 (n_tests * n_values, NUMBERS)
        Shares of rows that pass the tests on the feature down the left side, the right side, and
        above; shares of the test alone; values of the children that are leaves, 1 for others.
    depth : int
        Of the deepest tree, or more.
    """

    bins: Bins
    steps: npt.NDArray[np.int32]
    start: npt.NDArray[np.int32]
    rule: npt.NDArray[np.int32]
    nodes: npt.NDArray[np.int32]
    t: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    words: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.float64]
    depth: int


def make_tables(covered: CoveredForest, dtype: str) -> ContributionTables:
    """Lay out the steps, for values of a dtype."""
    forest = covered.forest
    bins = make_bins(forest, dtype)
    values = range(forest.values.shape[1])
    steps, counts = _steps(forest)
    most = covered.paths.nodes
    nodes = np.ones(forest.n_trees, np.int64)
    # A rule of n nodes is exact to degree 2 n - 1, so half of the features of a path suffice.
    np.maximum.at(nodes, forest.tree_of_tests, -(-covered.paths.counts // 2))
    rules = [gauss_legendre(count) for count in range(1, most + 1)]
    return ContributionTables(
        bins=bins,
        steps=np.concatenate([steps + 2 * forest.n_tests * i for i in values]).astype(np.int32),
        start=np.append(0, np.cumsum(np.tile(counts, len(values)))).astype(np.int32),
        # Rules of 1, 2, 3, ... nodes follow one another: that of n begins at n (n - 1) / 2.
        rule=np.tile(nodes * (nodes - 1) // 2, len(values)).astype(np.int32),
        nodes=np.tile(nodes, len(values)).astype(np.int32),
        t=np.concatenate([t for t, _ in rules]),
        weight=np.concatenate([weight for _, weight in rules]),
        words=np.concatenate([_words(covered, bins, i) for i in values]),
        numbers=np.concatenate([_numbers(covered, i) for i in values]),
        depth=-(-forest.depth // DEPTH_STEP) * DEPTH_STEP,
    )


def _steps(forest: Forest) -> tuple[Ints, Ints]:
    """Return the steps of all trees, and their number in each.

    A test with m tests in its branches and itself has 2 m steps: one down, those of the left
    branch, those of the right one, and one up.
    """
    size = np.ones(forest.n_tests, np.int64)
    levels = [np.flatnonzero(forest.depth_of_tests == d) for d in range(forest.depth)]
    left = forest.left.data
    right = forest.right.data

    def sizes(children: npt.NDArray[np.int32]) -> Ints:
        # Leaves have no steps; the product keeps their negative codes from being positions.
        return np.where(children >= 0, size[children * (children >= 0)], 0)

    for level in reversed(levels):
        size[level] += sizes(left[level]) + sizes(right[level])
    inner = forest.roots.data >= 0
    counts = np.zeros(forest.n_trees, np.int64)
    counts[inner] = 2 * size[forest.roots.data[inner]]
    down = np.zeros(forest.n_tests, np.int64)
    down[forest.roots.data[inner]] = (np.cumsum(counts) - counts)[inner]
    for level in levels:
        after = down[level] + 1
        for children in (left[level], right[level]):
            some = children >= 0
            down[children[some]] = after[some]
            after += 2 * sizes(children)
    steps = np.empty(2 * forest.n_tests, np.int64)
    steps[down] = 2 * np.arange(forest.n_tests)
    # The way up comes after both branches, each test of which takes two steps.
    steps[down + 2 * size - 1] = 2 * np.arange(forest.n_tests) + 1
    return steps, counts


def _words(covered: CoveredForest, bins: Bins, value: int) -> npt.NDArray[np.int32]:
    """Write the words of the tests, for one value of the leaves."""
    forest = covered.forest
    paths = covered.paths
    depth = forest.depth_of_tests.astype(np.int64)
    slot = np.zeros(forest.n_tests, np.int64)
    for side, children in enumerate((forest.left.data, forest.right.data)):
        some = children >= 0
        slot[children[some]] = 1 + 2 * depth[some] + side
    again = paths.above >= 0
    # Left is "threshold above byte" as signed bytes, so the threshold is one more.
    byte = (bins.threshold_bin.astype(np.int64) + 1 - SIGNED_BYTE_BIAS) % 256
    words = np.stack(
        [
            bins.column,
            byte * REPEATED,
            slot,
            1 + 2 * depth,
            depth + 1,
            np.where(again, depth[paths.above] + 1, 0),
            np.where(again & ~paths.above_left, RIGHT, LEFT),
            covered.columns[:, value],
        ],
        axis=1,
    )
    # Repeated bytes may exceed 2**31; the bits are kept.
    return words.astype(np.uint32).view(np.int32)


def _numbers(covered: CoveredForest, value: int) -> npt.NDArray[np.float64]:
    """Write the numbers of the tests, for one value of the leaves."""
    forest = covered.forest
    paths = covered.paths
    values = forest.values.data[:, value].astype(np.float64)
    ends = [
        np.where(children < 0, values[~children * (children < 0)], 1.0)
        for children in (forest.left.data, forest.right.data)
    ]
    shares = (paths.left, paths.right, paths.before, paths.left_share, paths.right_share)
    # Padded to eight numbers, so that those of a test fill a cache line.
    return np.stack([*shares, *ends, np.zeros(forest.n_tests)], axis=1)


def make_pair_tables(
    covered: CoveredForest, depth: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """List the tests above each test that are on other features.

    Returns the first entry of each test, (n_tests * n_values + 1,), and the entries: the slot of
    the upper gain, behind those of the sums, and the column of the result.
    """
    forest = covered.forest
    pairs = find_pairs(covered)
    counts = np.bincount(pairs.test, minlength=forest.n_tests)
    slot = 2 * depth + 1 + 2 * forest.depth_of_tests[pairs.above] + ~pairs.from_left
    output = forest.target.data[forest.tree_of_tests[pairs.test]].astype(np.int64)
    values = range(forest.values.shape[1])
    columns = [(output + value) * len(pairs.first) + pairs.pair for value in values]
    words = [np.stack([slot, column], axis=1) for column in columns]
    start = np.append(0, np.cumsum(np.tile(counts, len(values))))
    return start.astype(np.int32), np.concatenate(words).astype(np.int32)
