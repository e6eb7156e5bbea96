"""What rows read that walk down trees side by side: packed nodes, and how far each tree goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.packed_nodes.tables import PackedNodes, pack_nodes
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.forest import Forest

__all__ = ["WalkTables", "make_walk_tables"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class WalkTables:
    """Packed nodes, and where to begin and stop in each tree of the order.

    Parameters
    ----------
    packed : PackedNodes
    roots : int64 (n_trees,)
        Position of the root.
    depths : int64 (n_trees,)
        Steps to the deepest leaf.
    usual_depths : int64 (n_trees,)
        Mean depth of the leaves, rounded up: of many rows, one nearly always goes so far.
    """

    packed: PackedNodes
    roots: Ints
    depths: Ints
    usual_depths: Ints


def make_walk_tables(forest: Forest, dtype: str, stride: int, trees: Trees) -> WalkTables:
    """Pack the nodes for keys of ``stride`` rows side by side."""
    packed = pack_nodes(forest, dtype, stride)
    usual_depths = _mean_depths(forest)[trees.order]
    return WalkTables(packed, packed.roots[trees.order], packed.depths[trees.order], usual_depths)


def _mean_depths(forest: Forest) -> Ints:
    leaves_below = (forest.left.data < 0).astype(np.int64) + (forest.right.data < 0)
    depths = (forest.depth_of_tests + 1) * leaves_below
    total = np.bincount(forest.tree_of_tests, depths, minlength=forest.n_trees)
    return np.ceil(total / np.diff(forest.first_leaf.data)).astype(np.int64)
