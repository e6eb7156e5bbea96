"""The order in which a kernel evaluates trees, and how many go together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = ["NO_TREE", "Trees", "choose_bitwise_group", "choose_bytewise_group", "largest_tree"]

NO_TREE = -1
"""Is in an order where the last group has a place but no tree."""
# No timings of this choice are kept.
BITWISE_GROUP_SIZES = (16, 8, 4)
"""Trees evaluated together: the more, the longer the runs of one kind."""
MAX_LEAVES_TOGETHER = 1500
"""Leaves of such trees up to which what is between them stays in the nearest caches.

That is about a plane a leaf.
"""
# No timings of this choice are kept.
BYTEWISE_GROUP_SIZES = ((64, 16), (256, 4), (2**31, 1))
"""Trees evaluated together, by the leaves of the largest.

The more, the longer the runs of one shape, as long as the slots stay in the nearest caches.
"""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees in the order of their evaluation, in groups of one size.

    Parameters
    ----------
    order : int64 (n_places,)
        Tree at each place, or NO_TREE. The number of places is a multiple of the group size.
    group : int
        Trees evaluated together.
    numbers : int64 (n_leaves,)
        Number by which the kernel names each leaf.
    """

    order: Ints
    group: int
    numbers: Ints

    @classmethod
    def by_output(cls, forest: Forest, group: int, numbers: Ints) -> Trees:
        """Order trees by the output that they add to, so that a group has one output.

        The trees of an output keep their order: the source adds their values in it.
        """
        target = forest.target.data
        # Stable: another order of the trees would round sums in another way.
        order = np.argsort(target, kind="stable")
        outputs = [
            _fill_group(order[target[order] == output], group) for output in np.unique(target)
        ]
        return cls(np.concatenate([np.zeros(0, np.int64), *outputs]), group, numbers)

    @classmethod
    def by_number(cls, forest: Forest, group: int, numbers: Ints) -> Trees:
        """Keep the order of the forest."""
        return cls(_fill_group(np.arange(forest.n_trees), group), group, numbers)

    def targets(self, forest: Forest) -> npt.NDArray[np.int32]:
        """Return the output that each group adds to."""
        # Only the last places of a group may lack a tree, so the first one has its output.
        first = np.maximum(self.order[:: self.group], 0)
        return forest.target.data[first].astype(np.int32)


def _fill_group(trees: Ints, group: int) -> Ints:
    """Fill the last group."""
    return np.concatenate([trees, np.full(-len(trees) % group, NO_TREE, np.int64)])


def choose_bitwise_group(forest: Forest) -> int:
    """Return how many trees to evaluate together."""
    most = MAX_LEAVES_TOGETHER * forest.n_trees
    return next(
        (size for size in BITWISE_GROUP_SIZES if size * forest.n_leaves <= most),
        BITWISE_GROUP_SIZES[-1],
    )


def choose_bytewise_group(forest: Forest) -> int:
    """Return how many trees to evaluate together."""
    largest = largest_tree(forest)
    return next(size for leaves, size in BYTEWISE_GROUP_SIZES if largest <= leaves)


def largest_tree(forest: Forest) -> int:
    """Count the leaves of the largest tree."""
    return int(np.diff(forest.first_leaf.data).max(initial=1))
