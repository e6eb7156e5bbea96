"""Select: decide every split, then choose leaf numbers from the bottom up.

``leaf = where(x <= threshold, leaf_left, leaf_right)``. All splits of one depth, over all trees,
are one operation, from the deepest level up. A level needs only the level below it and the numbers
of its own leaves.

It compares, selects, and reads at fixed places. No address depends on the data, so it vectorizes
everywhere. Work grows with the number of splits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.cost_model import Work
from hbconv.target import Target
from hbconv.tensor import Builder, Value
from hbconv.trees.forest import Forest
from hbconv.trees.splits import prepare_splits
from hbconv.trees.strategy import Refusal
from hbconv_strategies._splits import VALUE_BYTES, fixed_leaves, refuse_memory, splits_work

__all__ = ["check", "lower", "work"]

Codes = npt.NDArray[np.int32]


def check(forest: Forest, target: Target) -> Refusal | None:
    """Refuse where a level takes too much memory."""
    return refuse_memory(
        forest, work(forest), target, "its thresholds", "the widest level of tests"
    )


def work(forest: Forest) -> Work:
    """Count the work.

    Each split is read, decided, and selects. A child that is a split is read once. A leaf in a
    group with splits is laid out first.
    """
    if not forest.n_tests:
        return Work(operators=1, elementwise=forest.n_trees, temporaries=4 * forest.n_trees)
    levels, prepared = _levels(forest), splits_work(forest)
    groups = [_children(forest, level) for level in levels]
    pools = [len(_beside(group)) for group in groups[1:]] + [len(_beside((forest.roots.data,)))]
    inner = [codes for group in groups for codes in group if (codes >= 0).any()] + [
        forest.roots.data
    ]
    laid = sum(
        fixed + len(level) + fixed for fixed, level in zip(pools, levels, strict=True) if fixed
    )
    return Work(
        operators=prepared.operators
        + 3 * len(levels)
        + len(inner)
        + 2 * sum(fixed > 0 for fixed in pools),
        elementwise=prepared.elementwise + 2 * forest.n_tests + laid,
        takes=forest.n_tests + sum(map(len, inner)),
        visits=forest.n_tests,
        tables=prepared.tables + forest.n_tests * (12 + VALUE_BYTES) + 4 * forest.n_leaves,
        temporaries=prepared.temporaries + 25 * max(map(len, levels)) + 8 * forest.n_trees,
    )


def lower(forest: Forest, x: Value, b: Builder) -> Value:
    """Write the choices, from the deepest splits up to the roots."""
    if not forest.n_tests:
        return fixed_leaves(forest, x, b)
    tests = prepare_splits(forest, x, b)
    place = np.zeros(forest.n_tests, np.int32)
    below: Value | None = None
    for level in _levels(forest):
        left = tests.goes_left(level, b)
        below = b.where(left, *_leaves_of(_children(forest, level), below, place, x, b))
        place[level] = np.arange(len(level))
    return _leaves_of((forest.roots.data,), below, place, x, b)[0]


def _levels(forest: Forest) -> list[npt.NDArray[np.intp]]:
    """List the splits of each depth, deepest first."""
    return [
        np.flatnonzero(forest.depth_of_tests == depth) for depth in reversed(range(forest.depth))
    ]


def _children(forest: Forest, level: npt.NDArray[np.intp]) -> tuple[Codes, Codes]:
    return forest.left.data[level], forest.right.data[level]


def _leaves_of(
    groups: tuple[Codes, ...], below: Value | None, place: Codes, x: Value, b: Builder
) -> list[Value]:
    """Write the leaf number of each child.

    That of a leaf is fixed. That of a split is the choice of the level below, at ``place``.
    """
    if below is None:
        return [b.constant(~codes) for codes in groups]
    beside = _beside(groups)
    pool = b.concat([below, b.op("expand", x, b.constant(beside))]) if len(beside) else below
    places = [
        np.where(
            codes >= 0,
            place[np.maximum(codes, 0)],
            below.shape[0] + np.searchsorted(beside, ~codes),
        )
        for codes in groups
    ]
    return [
        b.take(pool, at) if (codes >= 0).any() else b.constant(~codes)
        for codes, at in zip(groups, places, strict=True)
    ]


def _beside(groups: tuple[Codes, ...]) -> Codes:
    """Return the leaves in groups that also hold splits, ascending.

    A group of leaves alone is a constant.
    """
    return np.sort(
        ~np.concatenate(
            [np.zeros(0, np.int32), *(codes[codes < 0] for codes in groups if (codes >= 0).any())]
        )
    )
