"""What one row reads: its columns, the tops of many trees, then packed nodes below them.

Columns are bytes that the splits compare, arranged for few look-ups. Tops are the first splits of
each tree, those of many trees side by side as bytes. A row passes them without a branch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.single_row.row_columns import RowColumns
from hbconv.backends.tvm.trees.single_row.top_tables import TreeTops, make_tree_tops
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.backends.tvm.trees.walk.tables import PackedNodes, pack_nodes
from hbconv.trees.category_sets import CategorySets, find_sets
from hbconv.trees.forest import Forest

__all__ = [
    "MAX_COLUMNS_SHUFFLED",
    "RowWalkTables",
    "SingleRowTables",
    "make_single_row_tables",
]

Ints = npt.NDArray[np.int64]
# No timings of this choice are kept.
MAX_COLUMNS_SHUFFLED = 128
"""Columns up to which splits look them up in registers: each sixteen cost a shuffle a split."""


@dataclass(frozen=True, eq=False)
class RowWalkTables:
    """Trees that one row walks down.

    Parameters
    ----------
    packed : PackedNodes
    sets : CategorySets
    starts : int64
        Positions where a walk may begin: of each tree's root, or of each exit of the tops.
    steps : int
        Most steps from there to a leaf.
    n_places : int
        Places in the order of the trees.
    """

    packed: PackedNodes
    sets: CategorySets
    starts: Ints
    steps: int
    n_places: int


@dataclass(frozen=True, eq=False)
class SingleRowTables:
    """Tops, and the trees below them; either may be missing, but not both.

    Parameters
    ----------
    n_places : int
        Places in the order of the trees.
    columns : RowColumns
        The bytes that the tops compare.
    tops : TreeTops or None
        None where the columns cannot be looked up in registers: rows walk from the roots.
    walk : RowWalkTables or None
        None where the tops are whole trees.
    """

    n_places: int
    columns: RowColumns
    tops: TreeTops | None
    walk: RowWalkTables | None


def make_single_row_tables(
    forest: Forest,
    dtype: str,
    bins: Bins,
    level_splits: Ints | None,
    trees: Trees,
    machine: Machine,
) -> SingleRowTables:
    """Cut the trees at their tops, where shuffles can look the columns up."""
    columns = RowColumns.of(bins)
    places = len(trees.order)
    if not machine.shuffles or bins.columns > MAX_COLUMNS_SHUFFLED:
        # A place without a tree starts on the leaf of no tree.
        roots = np.append(forest.roots.data, ~forest.n_leaves)[trees.order]
        whole = _walk_from(forest, dtype, trees, roots)
        return SingleRowTables(places, columns, None, whole)
    tops = make_tree_tops(forest, columns, trees.order, level_splits, machine)
    walk = None if tops.are_whole else _walk_from(forest, dtype, trees, tops.exits)
    return SingleRowTables(places, columns, tops, walk)


def _walk_from(forest: Forest, dtype: str, trees: Trees, children: Ints) -> RowWalkTables:
    """Pack the trees to be walked down from some splits and leaves."""
    packed = pack_nodes(forest, dtype, trees.numbers)
    starts = packed.positions(children)
    steps = forest.depth_below(children)
    return RowWalkTables(packed, find_sets(forest), starts, steps, len(trees.order))
