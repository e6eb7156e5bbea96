"""Perfect tree traversal: pad trees to perfect ones, so that the next place is ``2 * at + left``.

Level d of all trees is one row of ``trees * 2**d`` places. A leaf above the last level is padded by
splits that never hold, and by copies of itself. Each level takes one lookup less than tree
traversal; tables grow as 2**depth.
Source: Nakandala et al., "A Tensor Compiler for Unified Machine Learning Prediction Serving", 2020.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.cost_model import Work
from hbconv.target import Target
from hbconv.tensor import Builder, Value
from hbconv.trees.forest import Forest
from hbconv.trees.splits import Splits, prepare_splits
from hbconv.trees.strategy import Refusal
from hbconv_strategies._splits import VALUE_BYTES, fixed_leaves, refuse_memory, splits_work

__all__ = ["check", "lower", "work"]

MAX_PLACES = 2**31
"""Places that an int32 can number."""


def check(forest: Forest, target: Target) -> Refusal | None:
    """Refuse deep forests: their padded trees do not fit."""
    if forest.n_trees << forest.depth >= MAX_PLACES:
        return Refusal(
            f"{forest.n_trees} trees padded to depth {forest.depth} have "
            f"{forest.n_trees} * 2**{forest.depth} leaves, more than int32 can number"
        )
    return refuse_memory(
        forest,
        work(forest),
        target,
        f"trees padded to depth {forest.depth}",
        "the places of all trees",
    )


def work(forest: Forest) -> Work:
    """Count the work.

    The first level reads fixed columns; each level below looks up column and threshold.
    """
    trees = forest.n_trees
    below = forest.depth - 1
    prepared = splits_work(forest)
    if not forest.n_tests:
        return Work(operators=1, elementwise=trees, temporaries=4 * trees)
    return Work(
        operators=prepared.operators + 4 + 7 * below + 1,
        elementwise=prepared.elementwise + trees * (3 + 4 * below),
        takes=trees,
        reads=trees * (3 * below + 1),
        visits=trees * forest.depth,
        tables=prepared.tables + (trees << forest.depth) * (8 + VALUE_BYTES),
        temporaries=prepared.temporaries + trees * (8 + 2 * VALUE_BYTES),
    )


def lower(forest: Forest, x: Value, b: Builder) -> Value:
    """Write ``forest.depth`` steps down, then read the leaf."""
    if not forest.n_tests:
        return fixed_leaves(forest, x, b)
    tests = prepare_splits(forest, x, b)
    node = forest.roots.data
    column, threshold = _level(tests, node)
    left = b.take(tests.x, column) <= b.constant(threshold)
    at = b.cast(left, "int32") + b.constant(2 * np.arange(forest.n_trees, dtype=np.int32))
    for _ in range(forest.depth - 1):
        node = _children(forest, node)
        column, threshold = _level(tests, node)
        left = b.gather(tests.x, b.lookup(b.constant(column), at)) <= b.lookup(
            b.constant(threshold), at
        )
        at = at + at + b.cast(left, "int32")
    return b.lookup(b.constant(~_children(forest, node)), at)


def _level(
    tests: Splits, node: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.floating]]:
    """Return column and threshold at each place of a level; under a leaf, the split never holds."""
    inner = node >= 0
    split = np.maximum(node, 0)
    never = np.array(np.nan, tests.threshold.dtype)
    column = np.where(inner, tests.column[split], np.int32(0))
    return column, np.where(inner, tests.threshold[split], never)


def _children(forest: Forest, node: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the level below, right child first; a leaf is copied twice."""
    pairs = [
        np.where(node >= 0, side.data[np.maximum(node, 0)], node)
        for side in (forest.right, forest.left)
    ]
    return np.stack(pairs, axis=1).ravel()
