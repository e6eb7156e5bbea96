"""What rows read that walk down trees side by side: packed nodes, and how far most go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.packed_nodes.tables import PackedNodes, pack_nodes
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.category_sets import CategorySets, find_sets
from hbconv.trees.forest import Forest

__all__ = ["WalkTables", "make_walk_tables"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class WalkTables:
    """Packed nodes, the category sets they ask for, and where to begin and stop in each tree.

    Parameters
    ----------
    packed : PackedNodes
    sets : CategorySets
    roots : int64 (n_trees,)
        Position of the root.
    usual_depths : int64 (n_trees,)
        Mean depth of the leaves, rounded up: most rows go no further. Depth of the deepest leaf
        where paths are even.
    even : bool
        Whether all paths of a tree are about as long: no row has far to go on.
    """

    packed: PackedNodes
    sets: CategorySets
    roots: Ints
    usual_depths: Ints
    even: bool

    @property
    def n_keys(self) -> int:
        """Keys of a row: of thresholds, of sets, and the one that leaves compare with."""
        return len(self.packed.feature) + self.sets.count + 1


def make_walk_tables(forest: Forest, dtype: str, stride: int, trees: Trees) -> WalkTables:
    """Pack the nodes for keys of ``stride`` rows side by side."""
    packed = pack_nodes(forest, dtype, stride)
    depths = packed.depths[trees.order]
    usual = _mean_depths(forest)[trees.order]
    even = bool((depths <= usual + 1).all())
    roots = packed.roots[trees.order]
    return WalkTables(packed, find_sets(forest), roots, depths if even else usual, even)


def _mean_depths(forest: Forest) -> Ints:
    leaves_below = (forest.left.data < 0).astype(np.int64) + (forest.right.data < 0)
    depths = (forest.depth_of_tests + 1) * leaves_below
    total = np.bincount(forest.tree_of_tests, depths, minlength=forest.n_trees)
    return np.ceil(total / np.diff(forest.first_leaf.data)).astype(np.int64)
