"""Count the work of the tree kernels, as the cost model prices it. Needs no TVM."""

from __future__ import annotations

import numpy as np

from hbconv.backends.tvm.trees.single_row.row_limit import MAX_ROWS_BESIDE_WALK, MIN_SPLITS
from hbconv.cost_model import Work
from hbconv.trees.forest import Forest
from hbconv.trees.ranked import EDGES_PER_COLUMN

__all__ = ["count_tree_work"]

NODE_BYTES = {"float32": 8, "float64": 16}
"""Bytes of a split, and of a leaf, in the nodes of a walk, by the dtype of the columns."""
VISIT = {"float32": 1.0, "float64": 1.2}
"""Steps down trees of float32 that one down trees of the dtype takes as long as."""
VALUE_BYTES = 8
"""Bytes of the value of a leaf."""
DOUBLES = 1.5
"""Columns of float32 that one of doubles takes as long as.

Half as many fit a register. Measured: 0.4 to 1 ns more, and 0.6 for one of float32.
"""
SELECT_ROWS = 128
"""Rows from which ``select`` takes no longer than for fewer: tiles for few rows are shorter."""
WALK_ROWS = 16
"""Rows that walk side by side."""


def count_tree_work(strategy: str, forest: Forest, dtype: str, rows: int) -> Work:
    """Count the work of a kernel: columns prepared, splits decided or stepped over, leaves added.

    ``select`` prepares a column of bytes for each 255 thresholds, a walk one of keys. Few rows walk
    one after another in larger forests, whatever the strategy.
    """
    each = DOUBLES if dtype == "float64" else 1.0
    alone = rows <= MAX_ROWS_BESIDE_WALK and forest.n_tests >= MIN_SPLITS
    sums = forest.n_trees * forest.values.shape[1]
    leaf_bytes = VALUE_BYTES * forest.n_leaves * forest.values.shape[1]
    if strategy == "select" and not alone:
        return Work(
            operators=1,
            visits=forest.n_tests,
            columns=each * _byte_columns(forest, dtype),
            tables=leaf_bytes,
            sums=sums,
            tile=SELECT_ROWS,
        )
    return Work(
        operators=1,
        visits=VISIT[dtype] * _usual_steps(forest),
        columns=each * len(np.unique(forest.feature.data)),
        tables=NODE_BYTES[dtype] * (forest.n_tests + forest.n_leaves) + leaf_bytes,
        sums=sums,
        tile=1 if alone else WALK_ROWS,
    )


def _byte_columns(forest: Forest, dtype: str) -> int:
    """Count the columns of bytes that tell the distinct thresholds of each feature apart."""
    return int((-(-forest.count_thresholds(dtype) // EDGES_PER_COLUMN)).sum())


def _usual_steps(forest: Forest) -> int:
    """Add up the mean depths of the leaves, rounded up: of 16 rows, one goes so far."""
    leaves_below = (forest.left.data < 0).astype(np.int64) + (forest.right.data < 0)
    depths = (forest.depth_of_tests + 1) * leaves_below
    total = np.bincount(forest.tree_of_tests, depths, minlength=forest.n_trees)
    return int(np.ceil(total / np.diff(forest.first_leaf.data)).sum())
