"""When few rows are better off with a loop of their own."""

from __future__ import annotations

import numpy as np

from hbconv.backends.tvm.target.machine import Machine
from hbconv.backends.tvm.trees.categories.tables import find_sets
from hbconv.backends.tvm.trees.single_row.tables import LANES, MOST_COLUMNS, WIDE, most_tests
from hbconv.cost_model import SINGLE_ROW, SMALL_TILE, Work
from hbconv.forest import Forest
from hbconv.target import Target
from hbconv.tensor import Op, TensorProgram

__all__ = ["few_rows"]

TESTS = 1_000
"""Tests below which one row takes about as long by either loop."""
WALKERS = 8
"""Rows that a walk over rows needs side by side to be the faster."""
ONE_ROW = Target(rows=1)
MOST = 40
"""Rows for which select on bit planes is never the slower."""


def few_rows(program: TensorProgram, machine: Machine) -> int:
    """Return up to how many rows going through the trees one row at a time is the faster: none where there are few tests."""
    ops = [i for i in program.instructions if isinstance(i, Op) and "forest" in i.attributes]
    forests: list[Forest] = [op.attributes["forest"] for op in ops]
    if sum(forest.n_tests for forest in forests) < TESTS:
        return 0
    if any(op.attributes["strategy"] != "select" for op in ops):
        return (
            0 if any(forest.tables for forest in forests) else WALKERS
        )  # Walks over rows look up only what tables they reach.
    tile = SMALL_TILE.seconds(Work(visits=sum(map(_tests, forests))), ONE_ROW)
    rows = [SINGLE_ROW.seconds(_work(forest, machine), ONE_ROW) for forest in forests]
    return min(MOST, int(tile / sum(rows)))


def _work(forest: Forest, machine: Machine) -> Work:
    """Count the work of one row."""
    n_columns = 2 * len(forest.used_features) + find_sets(forest).count
    if not machine.shuffles or n_columns > MOST_COLUMNS:
        steps = forest.n_trees * min(forest.depth, MOST)
        return Work(operators=1, elementwise=forest.n_trees, reads=steps)
    largest = int(np.bincount(forest.tree_of_tests, minlength=1).max())
    top = min(largest, most_tests(largest))
    vectors = -(-forest.n_trees // (LANES * WIDE)) * WIDE * top
    below = min(forest.depth, MOST) - top.bit_length() if top < largest else 0
    steps = forest.n_trees * max(below, 0)
    return Work(operators=1, elementwise=forest.n_trees, reads=steps, visits=vectors)


def _tests(forest: Forest) -> int:
    """Count the tests that are decided for a tile: of oblivious trees one a level."""
    if forest.n_tests != forest.n_trees * (2**forest.depth - 1):
        return forest.n_tests
    first = forest.tree_of_tests.astype(np.int64) * forest.depth + forest.depth_of_tests
    tests = np.unique(np.stack([first, forest.feature.data, forest.threshold.data], axis=1), axis=0)
    return len(tests) if len(tests) == forest.n_trees * forest.depth else forest.n_tests
