"""What one row reads: the tops of many trees, then packed nodes below them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.target.machine import Machine
from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.packed_nodes.tables import PackedNodes, pack_nodes
from hbconv.backends.tvm.trees.single_row.row_columns import RowColumns
from hbconv.backends.tvm.trees.single_row.top_tables import (
    MAX_COLUMNS_SHUFFLED,
    TreeTops,
    make_tree_tops,
)
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.category_sets import CategorySets, find_sets
from hbconv.trees.forest import Forest

__all__ = ["RowWalkTables", "SingleRowTables", "make_single_row_tables"]

Ints = npt.NDArray[np.int64]


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
    forest: Forest, dtype: str, bins: Bins, trees: Trees, machine: Machine
) -> SingleRowTables:
    """Cut the trees at their tops, where shuffles can look the columns up."""
    columns = RowColumns.of(bins)
    places = len(trees.order)
    if not machine.shuffles or bins.columns > MAX_COLUMNS_SHUFFLED:
        roots = np.append(forest.roots.data, ~forest.n_leaves)[trees.order]
        return SingleRowTables(places, columns, None, _walk_from(forest, dtype, roots, places))
    tops = make_tree_tops(forest, columns, trees.order, machine)
    walk = None if tops.are_whole else _walk_from(forest, dtype, tops.exits, places)
    return SingleRowTables(places, columns, tops, walk)


def _walk_from(forest: Forest, dtype: str, children: Ints, places: int) -> RowWalkTables:
    """Pack the trees to be walked down from some splits and leaves."""
    packed = pack_nodes(forest, dtype)
    steps = forest.depth_below(children)
    return RowWalkTables(packed, find_sets(forest), packed.positions(children), steps, places)
