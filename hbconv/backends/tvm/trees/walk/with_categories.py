"""Trees with tests on categories by traversal: some rows at once walk down a tree side by side, until the last of them reaches a leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, code_within, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.forest import CategoryTables, Forest

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
            k.store(
                out,
                (first + i,),
                row,
                k.load(out, (first + i,), row) + k.entry(values, leaf * width + i),
            )

    _walk(k, x, forest, add)


def leaves(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_leaves``."""
    _walk(k, x, forest, lambda tree, row, leaf: k.store(out, (tree,), row, leaf))


def _walk(k: Kernel, x: Place, forest: Forest, arrive: Callable[[Any, Any, Any], None]) -> None:
    """Call ``arrive(tree, row, leaf)`` for each tree, and in it for each row."""
    with k.temporary(x.dtype, (2, forest.n_features)) as planes:
        _mirror(k, planes, x)
        step = _stepper(k, planes.view((2 * forest.n_features,)), forest)
        _walk_trees(k, forest, step, arrive)


def _walk_trees(
    k: Kernel,
    forest: Forest,
    step: Callable[[Any, Any], Any],
    arrive: Callable[[Any, Any, Any], None],
) -> None:
    roots = k.constant(forest.roots.data)
    with k.over((forest.n_trees,)) as (tree,):
        root = k.bind(k.entry(roots, tree))
        with T.serial((k.rows_live + (TOGETHER - 1)) // TOGETHER) as group:
            # Rows past the last hold leftovers; the last row walks again in their place.
            rows = [
                k.bind(tirx.min(group * TOGETHER + i, k.rows_live - 1)) for i in range(TOGETHER)
            ]
            at = [k.variable("int32", root) for _ in rows]
            if forest.n_tests:
                with T.While(_any_inner(at)):
                    for row, node in zip(rows, at, strict=True):
                        node.set(step(row, node.get()))
            for i, (row, node) in enumerate(zip(rows, at, strict=True)):
                with T.If(group * TOGETHER + i < k.rows_live), T.Then():
                    arrive(tree, row, ~node.get())


def _any_inner(at: list[Any]) -> Any:
    """Say whether a row still stands on a test: leaves are negative, so the signs of all together tell."""
    signs = at[0].get()
    for node in at[1:]:
        signs = signs & node.get()
    return signs >= 0


def _mirror(k: Kernel, planes: Place, x: Place) -> None:
    """Lay out x, and beside it -x, of which ``x > t`` is a ``<=``."""
    minus = literal(-1, x.dtype, k.lanes)
    with k.over(x.shape) as (column,), k.vectors() as row:
        value = k.bind(k.load(x, (column,), row))
        k.store(planes, (0, column), row, value)
        k.store(planes, (1, column), row, value * minus)


def _stepper(k: Kernel, planes: Place, forest: Forest) -> Callable[[Any, Any], Any]:
    """Return what takes a row one test down: to the first child where ``value <= threshold``, which NaN never is.

    A test that sends NaN left asks ``-x <= (largest value below -t)``, that is ``x > t``, and its first child is the right one.
    The threshold of a test on a category never holds: its table tells.
    """
    mirrored, below = (
        forest.default_left.data & ~forest.on_category,
        forest.less_equal_thresholds(planes.dtype),
    )
    thresholds = k.constant(np.where(mirrored, _mirror_thresholds(below), below))
    left, right = forest.left.data, forest.right.data
    columns = forest.feature.data + mirrored * forest.n_features
    fields = k.constant(
        np.stack(
            [columns, np.where(mirrored, left, right), np.where(mirrored, right, left)], axis=1
        ).astype(np.int32)
    )
    look_up = _looker(k, planes.dtype, forest.tables) if forest.tables else None

    def step(row: Any, node: Any) -> Any:
        test = k.bind(tirx.max(node, tirx.IntImm("int32", 0)))
        value = k.bind(k.load(planes, (k.entry(fields, test * 3),), row))
        below_threshold = value <= k.entry(thresholds, test)
        holds = tirx.Or(below_threshold, look_up(test, value)) if look_up else below_threshold
        child = k.entry(
            fields,
            test * 3 + 1 + tirx.Select(holds, tirx.IntImm("int32", 1), tirx.IntImm("int32", 0)),
        )
        return tirx.Select(node < 0, node, child)

    return step


def _looker(k: Kernel, dtype: str, tables: CategoryTables) -> Callable[[Any, Any], Any]:
    """Return what looks a value up in a test's table; a test on a threshold has one of a single entry that never holds."""
    table = tables.of_test.data
    starts = k.constant(np.where(table >= 0, tables.start.data[table] + 1, 0).astype(np.int32))
    lasts = k.constant(np.where(table >= 0, tables.last[table], 0).astype(dtype))
    goes_left = k.constant(np.concatenate([[0], tables.goes_left.data]).astype(np.uint8))

    def look_up(test: Any, value: Any) -> Any:
        code = code_within(k, value, k.bind(k.entry(lasts, test)), dtype)
        return tirx.NE(k.entry(goes_left, k.entry(starts, test) + code), tirx.IntImm("uint8", 0))

    return look_up


def _mirror_thresholds(thresholds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return thresholds u such that ``-x <= u`` where ``x > t``; NaN, below which nothing is, becomes infinity, and back."""
    above, below = np.array(np.inf, thresholds.dtype), np.array(-np.inf, thresholds.dtype)
    with np.errstate(over="ignore"):
        beyond = np.nextafter(-thresholds, below)
    return np.where(
        np.isnan(thresholds),
        above,
        np.where(thresholds == above, np.array(np.nan, thresholds.dtype), beyond),
    )
