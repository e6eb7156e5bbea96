"""When few rows are better off with a loop of their own."""

from __future__ import annotations

import numpy as np

from hbconv.forest import Forest
from hbconv.tensor import Op, TensorProgram

__all__ = ["few_rows"]

TESTS = 1_000
"""Tests below which one row takes about as long by either loop."""
STEPS = 3
"""Tests that select decides for a tile of any few rows while a row takes one step down a tree."""
WALKERS = 8
"""Rows that a walk over rows needs side by side to be the faster."""
MOST = 64


def few_rows(program: TensorProgram) -> int:
    """Return up to how many rows walking down trees one row at a time is the faster: none where there are few tests."""
    ops = [i for i in program.instructions if isinstance(i, Op) and "forest" in i.attributes]
    forests: list[Forest] = [op.attributes["forest"] for op in ops]
    if sum(forest.n_tests for forest in forests) < TESTS:
        return 0
    if any(op.attributes["strategy"] != "select" for op in ops):
        return 0 if any(forest.tables for forest in forests) else WALKERS  # Walks over rows look up only what tables they reach.
    return min(MOST, STEPS * sum(map(_tests, forests)) // sum(forest.n_trees * min(forest.depth, MOST) for forest in forests))


def _tests(forest: Forest) -> int:
    """Count the tests that are decided for a tile: of oblivious trees one a level."""
    if forest.n_tests != forest.n_trees * (2**forest.depth - 1):
        return forest.n_tests
    first = forest.tree_of_tests.astype(np.int64) * forest.depth + forest.depth_of_tests
    tests = np.unique(np.stack([first, forest.feature.data, forest.threshold.data], axis=1), axis=0)
    return len(tests) if len(tests) == forest.n_trees * forest.depth else forest.n_tests
