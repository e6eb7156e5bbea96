"""Tree traversal: step down one level of all trees at a time, by one table of nodes.

The two children of a split stand side by side in the table, the right one first. So the next place
is ``child[at] + left``. A leaf is its own child, and its split never holds.

Work grows with trees x depth.
Source: Nakandala et al., "A Tensor Compiler for Unified Machine Learning Prediction Serving", 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.cost_model import Work
from hbconv.target import Target
from hbconv.tensor import Builder, Value
from hbconv.trees.forest import Forest
from hbconv.trees.splits import prepare_threshold_splits
from hbconv.trees.strategy import Refusal
from hbconv_strategies._splits import (
    VALUE_BYTES,
    fixed_leaves,
    refuse_memory,
    threshold_splits_work,
)

__all__ = ["check", "lower", "work"]


def check(forest: Forest, target: Target) -> Refusal | None:
    """Refuse if the traversal takes too much memory."""
    return refuse_memory(
        forest, work(forest), target, "its table of nodes", "the places of all trees"
    )


def work(forest: Forest) -> Work:
    """Count the work.

    The first level reads fixed columns. Each level below looks up column, threshold and child, and
    the place of a category table.
    """
    trees = forest.n_trees
    below = forest.depth - 1
    prepared = threshold_splits_work(forest)
    if not forest.n_tests:
        return Work(operators=1, elementwise=trees, temporaries=4 * trees)
    listed = int(forest.tables is not None)
    entries = len(forest.tables.goes_left) + 1 if forest.tables else 0
    return Work(
        operators=prepared.operators + 4 + 7 * below + 1 + listed * (6 + 8 * below),
        elementwise=prepared.elementwise + trees * (3 + 3 * below + 5 * listed * forest.depth),
        takes=trees,
        reads=trees * (4 * below + 1 + listed * (1 + 3 * below)),
        visits=trees * forest.depth,
        tables=prepared.tables
        + (trees + 2 * forest.n_tests) * (12 + VALUE_BYTES + 8 * listed)
        + entries,
        temporaries=prepared.temporaries + trees * (8 + 2 * VALUE_BYTES + 10 * listed),
    )


def lower(forest: Forest, x: Value, b: Builder) -> Value:
    """Write ``forest.depth`` steps down, then read the leaf."""
    if not forest.n_tests:
        return fixed_leaves(forest, x, b)
    tests = prepare_threshold_splits(forest, x, b)
    node = np.concatenate(
        [forest.roots.data, np.stack([forest.right.data, forest.left.data], axis=1).ravel()]
    )
    inner = node >= 0
    test = np.maximum(node, 0)
    place = np.arange(len(node), dtype=np.int32)
    child = np.where(inner, forest.n_trees + 2 * node, place)
    threshold = np.where(inner, tests.threshold[test], np.array(np.nan, tests.threshold.dtype))
    column = np.where(inner, tests.column[test], np.int32(0))
    decide = _decider(forest, np.where(inner, test, -1), b)

    roots = place[: forest.n_trees]
    left = decide(
        b.take(tests.x, column[roots]),
        b.constant(threshold[roots]),
        lambda table: b.constant(table[roots]),
    )
    at = b.cast(left, "int32") + b.constant(child[roots])
    columns = b.constant(column)
    thresholds = b.constant(threshold)
    children = b.constant(child)
    for _ in range(forest.depth - 1):
        value = b.gather(tests.x, b.lookup(columns, at))
        left = decide(value, b.lookup(thresholds, at), partial(_read, b, at))
        at = b.lookup(children, at) + b.cast(left, "int32")
    return b.lookup(b.constant(np.where(inner, np.int32(0), ~node)), at)


def _read(b: Builder, at: Value, table: npt.NDArray[Any]) -> Value:
    return b.lookup(b.constant(table), at)


def _decider(
    forest: Forest, test: npt.NDArray[Any], b: Builder
) -> Callable[[Value, Value, Callable[[npt.NDArray[Any]], Value]], Value]:
    """Return the function that decides the splits reached: ``decide(value, threshold, read)``.

    ``read(table)`` reads an array over the nodes at the places reached. The threshold of a
    categorical split never holds. All other nodes have a category table of one entry, which never
    holds.
    """
    tables = forest.tables
    if tables is None:
        return lambda value, threshold, _: value <= threshold
    table = np.where(test >= 0, tables.of_test.data[test], -1)
    start = np.where(table >= 0, tables.start.data[table] + 1, 0).astype(np.int32)
    last = np.where(table >= 0, tables.last[table], 0).astype(np.int32)
    goes_left = b.constant(np.concatenate([[False], tables.goes_left.data]))
    zero = b.constant(np.zeros((), np.int32))

    def decide(value: Value, threshold: Value, read: Callable[[npt.NDArray[Any]], Value]) -> Value:
        code = b.op("maximum", b.op("minimum", b.cast(value, "int32"), read(last)), zero)
        return (value <= threshold) | b.lookup(goes_left, code + read(start))

    return decide
