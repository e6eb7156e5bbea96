"""Nodes in the order in which kernels walk them: siblings side by side, level after level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = ["Nodes", "order_nodes"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Nodes:
    """Tests and leaves of some trees, tree after tree.

    Parameters
    ----------
    child : int64 (n_nodes,)
        The test, or ``~leaf``, at each place.
    left : int64 (n_nodes,)
        Place of a test's left child; the right one follows. That of the leaf itself for a leaf.
    level : int64 (n_nodes,)
        Number of tests above each.
    first : int64 (n_trees + 1,)
        First place of each tree.
    depth : int32 (n_trees,)
        Largest number of tests on a path.
    """

    child: Ints
    left: Ints
    level: Ints
    first: Ints
    depth: npt.NDArray[np.int32]

    @property
    def is_test(self) -> npt.NDArray[np.bool_]:
        """Whether each is a test."""
        return self.child >= 0

    @property
    def tree(self) -> Ints:
        """Tree of each."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @property
    def levels(self) -> list[Ints]:
        """Places of the nodes of each level."""
        at = self.first[:-1]
        found = []
        while len(at):
            found.append(at)
            inner = at[self.is_test[at]]
            at = (self.left[inner, None] + np.arange(2)).ravel()
        return found

    @property
    def widths(self) -> Ints:
        """Nodes of each level of each tree: (n_levels, n_trees)."""
        tree = self.tree
        return np.stack([np.bincount(tree[at], minlength=len(self.depth)) for at in self.levels])

    @property
    def leaf_counts(self) -> Ints:
        """Leaves below each."""
        inner = self.is_test
        counts = (~inner).astype(np.int64)
        for at in reversed(self.levels):
            tests = at[inner[at]]
            counts[tests] = counts[self.left[tests]] + counts[self.left[tests] + 1]
        return counts


def order_nodes(forest: Forest, trees: npt.NDArray[np.int32]) -> Nodes:
    """Lay out some trees, a level of all of them at a time.

    1. Number the nodes level by level; the children of a level's tests are the next level.
    2. Sort by tree, which keeps the levels and the siblings in their order.
    """
    child = forest.roots.data[trees].astype(np.int64)
    tree = np.arange(len(trees))
    levels = []
    left = []
    count = 0
    depth = np.zeros(len(trees), np.int32)
    while len(child):  # 1
        inner = np.flatnonzero(child >= 0)
        levels.append((child, tree))
        below = np.arange(len(child)) + count
        count += len(child)
        below[inner] = count + 2 * np.arange(len(inner))
        left.append(below)
        depth[tree[inner]] = len(levels)
        sides = [side.data[child[inner]] for side in (forest.left, forest.right)]
        child = np.stack(sides, axis=1).ravel().astype(np.int64)
        tree = np.repeat(tree[inner], 2)
    return _by_tree(levels, left, depth)


def _by_tree(
    levels: list[tuple[Ints, Ints]], left: list[Ints], depth: npt.NDArray[np.int32]
) -> Nodes:
    child, tree = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    order = np.argsort(tree, kind="stable")  # 2
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    level = np.repeat(np.arange(len(levels)), [len(child) for child, _ in levels])
    first = np.append(0, np.cumsum(np.bincount(tree, minlength=len(depth))))
    return Nodes(child[order], place[np.concatenate(left)[order]], level[order], first, depth)
