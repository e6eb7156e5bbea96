"""Trees by traversal: some rows at once walk down a tree side by side, until the last of them reaches a leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.kernel import Kernel
from hbconv.backends.tvm.memory import Place
from hbconv.forest import Forest

__all__ = ["leaves", "scores"]

TOGETHER = 8
"""Rows that walk side by side, so that one waits for memory while others step."""


def scores(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_scores``: tree after tree, as the source adds."""
    k.map_vectors(out, (k.constant(forest.start.data),), lambda value: value)
    values, width = k.constant(forest.values.data), forest.values.shape[1]
    target = k.constant(forest.target.data)

    def add(tree: Any, row: Any, leaf: Any) -> None:
        first = k.bind(k.entry(target, tree))
        with k.over((width,)) as (i,):
            k.store(out, (first + i,), row, k.load(out, (first + i,), row) + k.entry(values, leaf * width + i))

    _walk(k, x, forest, add)


def leaves(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_leaves``."""
    _walk(k, x, forest, lambda tree, row, leaf: k.store(out, (tree,), row, leaf))


def _walk(k: Kernel, x: Place, forest: Forest, arrive: Callable[[Any, Any, Any], None]) -> None:
    """Call ``arrive(tree, row, leaf)`` for each tree, and in it for each row."""
    roots = k.constant(forest.roots.data)
    step = _stepper(k, x, forest)
    with k.over((forest.n_trees,)) as (tree,):
        root = k.bind(k.entry(roots, tree))
        with T.serial((k.rows_live + (TOGETHER - 1)) // TOGETHER) as group:
            # Rows past the last, which hold leftovers, would walk too; they repeat the last instead.
            rows = [k.bind(tirx.min(group * TOGETHER + i, k.rows_live - 1)) for i in range(TOGETHER)]
            at = [k.variable("int32", root) for _ in rows]
            if forest.n_tests:
                with T.While(_any_inner(at)):
                    for row, node in zip(rows, at, strict=True):
                        node.set(step(row, node.get()))
            for i, (row, node) in enumerate(zip(rows, at, strict=True)):
                with T.If(group * TOGETHER + i < k.rows_live), T.Then():
                    arrive(tree, row, ~node.get())


def _any_inner(at: list[Any]) -> Any:
    """Whether a row still stands on a test: leaves are negative, so all signs together say."""
    signs = at[0].get()
    for node in at[1:]:
        signs = signs & node.get()
    return signs >= 0


def _stepper(k: Kernel, x: Place, forest: Forest) -> Callable[[Any, Any], Any]:
    """Return what takes a row one test down: NaN is not ``<=``, so only the tests that send it left look for it."""
    tests = np.stack([forest.feature.data, forest.right.data, forest.left.data, forest.default_left.data.astype(np.int32)], axis=1)
    fields, thresholds = k.constant(tests), k.constant(forest.less_equal_thresholds(x.dtype))
    one, zero = tirx.IntImm("int32", 1), tirx.IntImm("int32", 0)

    def step(row: Any, node: Any) -> Any:
        test = k.bind(tirx.max(node, zero))
        value = k.bind(k.load(x, (k.entry(fields, test * 4),), row))
        missing_left = tirx.isnan(value) & tirx.EQ(k.entry(fields, test * 4 + 3), one)
        left = tirx.Select((value <= k.entry(thresholds, test)) | missing_left, one, zero)
        return tirx.Select(node < 0, node, k.entry(fields, test * 4 + 1 + left))

    return step
