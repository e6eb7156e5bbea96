"""Tree traversal: all trees walk down one level at a time, a table of nodes saying where each goes next.

The nodes of all trees stand in one table, the two children of a test side by side, the right one first, so that the next
place is ``child[at] + left``. A leaf is its own child, and its test never holds. Work grows with trees x depth.
"""

from __future__ import annotations

import numpy as np

from hbconv.forest import Forest
from hbconv.strategy import Prices, Refusal, Work
from hbconv.target import Target
from hbconv.tensor import Builder, Value
from hbconv_strategies._tests import VALUE, fixed_leaves, prepare_tests, refuse_memory, tests_work

__all__ = ["check", "cost", "lower", "work"]


def check(forest: Forest, target: Target) -> Refusal | None:
    """Refuse where the walk takes too much memory."""
    return refuse_memory(work(forest), target, "its table of nodes", "the places of all trees")


def cost(forest: Forest, target: Target, prices: Prices) -> float:
    """Predicted seconds for ``target.rows`` rows."""
    return prices.seconds(work(forest), target)


def work(forest: Forest) -> Work:
    """Count: the first level reads fixed columns, each level below looks up column, threshold and child."""
    trees, below, prepared = forest.n_trees, forest.depth - 1, tests_work(forest)
    if not forest.n_tests:
        return Work(operators=1, elementwise=trees, temporaries=4 * trees)
    return Work(
        operators=prepared.operators + 4 + 7 * below + 1,
        elementwise=prepared.elementwise + trees * (3 + 3 * below),
        takes=trees,
        reads=trees * (4 * below + 1),
        visits=trees * forest.depth,
        tables=(trees + 2 * forest.n_tests) * (12 + VALUE),
        temporaries=prepared.temporaries + trees * (8 + 2 * VALUE),
    )


def lower(forest: Forest, x: Value, b: Builder) -> Value:
    """Walk ``forest.depth`` levels, then read the leaf."""
    if not forest.n_tests:
        return fixed_leaves(forest, x, b)
    tests = prepare_tests(forest, x, b)
    node = np.concatenate([forest.roots.data, np.stack([forest.right.data, forest.left.data], axis=1).ravel()])
    inner, test, place = node >= 0, np.maximum(node, 0), np.arange(len(node), dtype=np.int32)
    child = np.where(inner, forest.n_trees + 2 * node, place)
    threshold = np.where(inner, tests.threshold[test], np.array(np.nan, tests.threshold.dtype))
    column = np.where(inner, tests.column[test], np.int32(0))

    roots = place[: forest.n_trees]
    left = b.take(tests.x, column[roots]) <= b.constant(threshold[roots])
    at = b.cast(left, "int32") + b.constant(child[roots])
    columns, thresholds, children = b.constant(column), b.constant(threshold), b.constant(child)
    for _ in range(forest.depth - 1):
        left = b.gather(tests.x, b.lookup(columns, at)) <= b.lookup(thresholds, at)
        at = b.lookup(children, at) + b.cast(left, "int32")
    return b.lookup(b.constant(np.where(inner, np.int32(0), ~node)), at)
