"""Count the work of the tree modules, as the cost model prices it."""

from __future__ import annotations

import numpy as np

from hbconv.backends.torch.tree_decisions import SEGMENT_SPLITS
from hbconv.backends.torch.tree_traversal import TOP_LEVELS
from hbconv.backends.torch.tree_walk import BYTES_PER_WALK, expected_walks
from hbconv.cost_model import Work
from hbconv.trees.forest import Forest

__all__ = ["count_tree_work"]

WORD_BYTES = 4
PLACE_BYTES = 8
"""Bytes of a position that torch reads at."""
NARROW_LEAVES = 256
"""Leaves of a tree that a byte can number."""


def count_tree_work(strategy: str, forest: Forest, dtype: str, rows: int) -> Work:
    """Count the work of a module of ``torch.forest``, for one row or for many.

    Elementwise words are decisions, takes are bytes of codes copied and selected, and visits are
    steps at computed positions.
    """
    if not forest.n_tests:
        return Work(operators=4, sums=forest.n_trees)
    if strategy == "select":
        return _select_one(forest, dtype) if rows == 1 else _select_many(forest, dtype)
    if strategy == "tree_traversal":
        return _walk_nodes(forest, dtype)
    return _walk_one(forest, dtype) if rows == 1 else _walk_many(forest, dtype)


def _words(dtype: str) -> float:
    return np.dtype(dtype).itemsize / WORD_BYTES


def _decided(forest: Forest, dtype: str) -> int:
    """Count the distinct splits, a column at a time filled up to whole segments."""
    segments = -(-forest.count_thresholds(dtype) // SEGMENT_SPLITS)
    return int(segments.sum()) * SEGMENT_SPLITS


def _sums(forest: Forest) -> int:
    return forest.n_trees * forest.values.shape[1]


def _select_one(forest: Forest, dtype: str) -> Work:
    """Decide all splits, then read the successor once a level."""
    return Work(
        operators=12 + forest.depth,
        elementwise=4 * forest.n_tests + forest.n_tests * _words(dtype),
        visits=forest.n_trees * forest.depth,
        tables=4 * (3 * forest.n_tests + 2 * forest.n_leaves),
        sums=_sums(forest),
    )


def _select_many(forest: Forest, dtype: str) -> Work:
    """Decide the distinct splits, and select leaf codes level by level."""
    widest = int(np.bincount(forest.depth_of_tests).max())
    largest = int(np.diff(forest.first_leaf.data).max())
    code = 1 if largest <= NARROW_LEAVES else WORD_BYTES
    decided = _decided(forest, dtype)
    return Work(
        operators=30 + 9 * forest.depth,
        elementwise=decided * _words(dtype),
        takes=code * (forest.n_tests + forest.depth * largest),
        tables=8 * forest.n_leaves,
        temporaries=5 * decided + 5 * widest * code + 16 * forest.n_trees,
        columns=forest.n_features * _words(dtype),
        sums=_sums(forest),
    )


def _walk_one(forest: Forest, dtype: str) -> Work:
    """Decide the distinct splits, and read two tables a level."""
    return Work(
        operators=10 + 4 * forest.depth,
        elementwise=_decided(forest, dtype) * _words(dtype),
        visits=forest.n_trees * forest.depth,
        tables=PLACE_BYTES * (forest.n_trees << forest.depth),
        sums=_sums(forest),
    )


def _walk_many(forest: Forest, dtype: str) -> Work:
    """Decide the distinct splits, select down the top levels, and step down those below."""
    top = min(TOP_LEVELS, forest.depth)
    copied = forest.n_trees * ((1 << top) - 1)
    decided = _decided(forest, dtype)
    return Work(
        operators=30 + 3 * top + 6 * (forest.depth - top),
        elementwise=decided * _words(dtype),
        takes=copied,
        visits=forest.n_trees * (forest.depth - top),
        tables=PLACE_BYTES * (forest.n_trees << forest.depth),
        temporaries=5 * decided + 2 * copied + 16 * forest.n_trees,
        columns=forest.n_features * _words(dtype),
        sums=_sums(forest),
    )


def _walk_nodes(forest: Forest, dtype: str) -> Work:
    """Rank the columns, and step down until the leaf is reached."""
    thresholds = forest.count_thresholds(dtype)
    searched = np.ceil(np.log2(1 + thresholds)).sum()
    return Work(
        operators=40 + 9 * forest.depth,
        elementwise=float(searched) * _words(dtype),
        visits=float(expected_walks(forest).sum()),
        tables=2 * WORD_BYTES * 2 * forest.n_tests,
        temporaries=BYTES_PER_WALK * forest.n_trees,
        columns=forest.n_features * _words(dtype),
        sums=_sums(forest),
    )
