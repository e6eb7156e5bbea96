"""Count the work of the tree kernels, as the cost model prices it. Needs no TVM.

``single_row_limit`` chooses by it how many rows are computed one at a time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.trees.leaves.tables import MIN_WIDTH, sparse_cost
from hbconv.backends.tvm.trees.single_row.tables import MAX_COLUMNS_SHUFFLED
from hbconv.backends.tvm.trees.single_row.top_tables import count_slots, count_vectors
from hbconv.cost_model import SINGLE_ROW, SMALL_TILE, Work
from hbconv.target import Target
from hbconv.tensor import Op, TensorProgram
from hbconv.trees.category_sets import find_sets
from hbconv.trees.forest import Forest
from hbconv.trees.ranked import EDGES_PER_COLUMN
from hbconv.trees.symmetric_forest import find_level_splits

__all__ = ["count_tree_work", "single_row_limit"]

NODE_BYTES = {"float32": 8, "float64": 16}
"""Bytes of a split, and of a leaf, in the nodes of a walk, by the dtype of the columns."""
# So priced, 100 trees of 4,490 leaves over one-hot codes keep their tests: 4,095 ns a row, 15,700
# before.
VISIT = {"float32": 1.0, "float64": 1.2}
"""Steps down trees of float32 that one down trees of the dtype takes as long as."""
VALUE_BYTES = 8
"""Bytes of the value of a leaf."""
WIDE_SUM = 0.3
"""Sums of single values that one takes as long as where leaves have several, added as vectors."""
DOUBLES = 1.5
"""Columns of float32 that one of doubles takes as long as.

Half as many fit a register. Measured: 0.4 to 1 ns more, and 0.6 for one of float32.
"""
SELECT_ROWS = 128
"""Rows from which ``select`` takes no longer than for fewer: tiles for few rows are shorter."""
WALK_ROWS = 16
"""Rows that walk side by side."""
# No timings of this choice are kept.
MIN_SPLITS = 1_000
"""Splits and outputs below which one row takes about as long in either loop."""
MAX_ROWS_BESIDE_WALK = 8
"""Rows that a walk needs side by side to be the faster."""
# With tops looked up, trees of 31 leaves gain by it up to 32 rows.
MAX_ROWS_BESIDE_SELECT = 40
"""Rows for which deciding all splits on bit planes is never the slower."""
MAX_DEPTH = 40
"""Depth beyond which a walk is not expected to go."""
ONE_ROW = Target(rows=1)

Ints = npt.NDArray[np.int64]


def count_tree_work(strategy: str, forest: Forest, dtype: str, rows: int) -> Work:
    """Count the work of a kernel: columns prepared, splits decided or stepped over, leaves added.

    ``select`` prepares a column of bytes for each 255 thresholds, a walk one of keys. Few rows walk
    one after another in larger forests, whatever the strategy.
    """
    each = DOUBLES if dtype == "float64" else 1.0
    # As ``single_row_limit`` decides, but for what depends on the machine.
    alone = rows <= MAX_ROWS_BESIDE_WALK and forest.n_tests + forest.n_outputs >= MIN_SPLITS
    width = forest.values.shape[1]
    added = sparse_cost(forest) or width
    sums = forest.n_trees * added * (WIDE_SUM if width >= MIN_WIDTH else 1.0)
    leaf_bytes = int(VALUE_BYTES * forest.n_leaves * added)
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
        columns=each * np.count_nonzero(np.bincount(forest.feature.data)),
        tables=NODE_BYTES[dtype] * (forest.n_tests + forest.n_leaves) + leaf_bytes,
        sums=sums,
        tile=1 if alone else WALK_ROWS,
    )


def _byte_columns(forest: Forest, dtype: str) -> int:
    """Count the columns of bytes that tell the distinct thresholds of each feature apart."""
    return int((-(-forest.count_thresholds(dtype) // EDGES_PER_COLUMN)).sum())


def _usual_steps(forest: Forest) -> int:
    """Add up the mean depths of the leaves, rounded up: of 16 rows, one takes so many steps."""
    leaves_below = (forest.left.data < 0).astype(np.int64) + (forest.right.data < 0)
    depths = (forest.depth_of_tests + 1) * leaves_below
    total = np.bincount(forest.tree_of_tests, depths, minlength=forest.n_trees)
    return int(np.ceil(total / np.diff(forest.first_leaf.data)).sum())


def single_row_limit(program: TensorProgram, machine: Machine) -> int:
    """Return up to how many rows a loop over single rows is the faster; 0 for small forests."""
    ops = [i for i in program.instructions if isinstance(i, Op) and "forest" in i.attributes]
    forests: list[Forest] = [op.attributes["forest"] for op in ops]
    if sum(forest.n_tests + forest.n_outputs for forest in forests) < MIN_SPLITS:
        return 0
    if any(op.attributes["strategy"] != "select" for op in ops):
        # A walk looks up only the category tables that it reaches; a single row decides all sets.
        return 0 if any(forest.tables for forest in forests) else MAX_ROWS_BESIDE_WALK
    # A tile takes as long for one row as for all its rows, so the ratio counts rows.
    tile_seconds = row_seconds = 0.0
    for forest in forests:
        levels = find_level_splits(forest)
        splits = forest.n_tests if levels is None else len(levels)
        tile_seconds += SMALL_TILE.seconds(Work(visits=splits), ONE_ROW)
        row_seconds += SINGLE_ROW.seconds(_row_work(forest, levels, machine), ONE_ROW)
    return min(MAX_ROWS_BESIDE_SELECT, int(tile_seconds / row_seconds))


def _row_work(forest: Forest, level_splits: Ints | None, machine: Machine) -> Work:
    """Count the work of one row."""
    # Each feature may need a twin column for the other side of NaN.
    n_columns = 2 * len(forest.used_features) + find_sets(forest).count
    depth = min(forest.depth, MAX_DEPTH)
    if not machine.shuffles or n_columns > MAX_COLUMNS_SHUFFLED:
        return Work(operators=1, elementwise=forest.n_trees, reads=forest.n_trees * depth)
    slots, levels = count_slots(forest, level_splits)
    return Work(
        operators=1,
        elementwise=forest.n_trees,
        reads=forest.n_trees * max(0, depth - levels),
        visits=count_vectors(forest.n_trees, machine) * slots,
    )
