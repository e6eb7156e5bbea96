"""The order in which a kernel evaluates trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = ["NO_TREE", "Trees"]

NO_TREE = -1
"""Stands in an order where the last group has a place but no tree."""

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
        # Only the last places of a group may lack a tree, so the first tells its output.
        first = np.maximum(self.order[:: self.group], 0)
        return forest.target.data[first].astype(np.int32)


def _fill_group(trees: Ints, group: int) -> Ints:
    """Fill the last group."""
    return np.concatenate([trees, np.full(-len(trees) % group, NO_TREE, np.int64)])
