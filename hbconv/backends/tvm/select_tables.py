"""The select program of a forest: its tests in an order in which children come before parents, as rows of numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.bins import Bins
from hbconv.forest import Forest

__all__ = ["GROUP", "SelectTables", "make_tables"]

GROUP = 8
"""Trees evaluated before their leaf values are added: a row's sum stays in a register for so many additions."""
FIELDS = ("column", "left", "right", "result", "place", "leaves_left")
NEVER = 255
"""A place that no byte exceeds."""

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class SelectTables:
    """A forest as a program over slots of leaf numbers, one number for each row of a tile.

    Slot 0 holds zeros, slots 1 to ``stack`` the numbers of subtrees, the next ``GROUP`` those of whole trees. Each step does
    ``slot[result] = where(bins[column] > place, slot[right] + leaves_left, slot[left])``.

    Parameters
    ----------
    steps : int32 (n_steps, 6)
        Fields as in FIELDS.
    group_start : int32 (n_groups + 1,)
        Steps of each group of trees.
    tree : int32 (n_groups * GROUP,)
        Tree whose number each slot of whole trees gets; -1 for none, of which the number is 0.
    stack : int
    dtype : str
        Of the numbers: the smallest that counts the leaves of any tree.
    """

    steps: Ints
    group_start: Ints
    tree: Ints
    stack: int
    dtype: str

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1


def make_tables(forest: Forest, bins: Bins, trees: Ints) -> SelectTables:
    """Write the program for the trees in the given order, -1 standing for none; their number is a multiple of GROUP."""
    leaves, need = _count(forest)
    slot, order, stack = _place(forest, leaves, need)
    whole = np.zeros(forest.n_trees + 1, np.int32)
    whole[trees] = stack + 1 + np.arange(len(trees)) % GROUP
    real = forest.roots.data >= 0
    slot[forest.roots.data[real]] = whole[:-1][real]
    left, right = (np.where(child >= 0, slot[np.maximum(child, 0)], 0) for child in (forest.left.data, forest.right.data))
    count_left = np.where(forest.left.data >= 0, leaves[np.maximum(forest.left.data, 0)], 1)
    steps = np.stack([bins.column, left, right, slot, bins.place, count_left], axis=1) if forest.n_tests else np.zeros((0, len(FIELDS)))
    parts = [_steps_of_tree(forest, steps, order, tree, stack + 1 + position % GROUP) for position, tree in enumerate(trees)]
    sizes = np.array([len(p) for p in parts], np.int64).reshape(-1, GROUP).sum(axis=1)
    largest = int(np.diff(forest.first_leaf.data).max(initial=1))
    dtype = "uint8" if largest <= 2**8 else "uint16" if largest <= 2**16 else "int32"
    joined = np.concatenate([np.zeros((0, len(FIELDS))), *parts]).astype(np.int32)
    return SelectTables(joined, np.cumsum([0, *sizes], dtype=np.int32), trees.astype(np.int32), stack, dtype)


def _steps_of_tree(forest: Forest, steps: Ints, order: list[Ints], tree: int, result: int) -> Ints:
    """List the steps of a tree; one without tests takes a step that gives zero."""
    if tree < 0 or forest.roots.data[tree] < 0:
        return np.array([[0, 0, 0, result, NEVER, 0]])
    return steps[order[tree]]


def _levels(forest: Forest) -> list[Ints]:
    """List the tests of each depth."""
    by_depth = np.argsort(forest.depth_of_tests, kind="stable")
    return np.split(by_depth, np.cumsum(np.bincount(forest.depth_of_tests, minlength=forest.depth))[:-1]) if forest.n_tests else []


def _count(forest: Forest) -> tuple[Ints, Ints]:
    """Count the leaves below each test, and the slots its subtree needs: from the deepest level up."""
    leaves, need = np.ones(forest.n_tests, np.int32), np.zeros(forest.n_tests, np.int32)
    for level in reversed(_levels(forest)):
        left, right = forest.left.data[level], forest.right.data[level]
        below = [np.where(child >= 0, counts[np.maximum(child, 0)], leaf) for counts, leaf in ((leaves, 1), (need, 0)) for child in (left, right)]
        leaves[level] = below[0] + below[1]
        need[level] = np.maximum(np.maximum(below[2], below[3]), 1 + np.minimum(below[2], below[3]))
    return leaves, need


def _place(forest: Forest, leaves: Ints, need: Ints) -> tuple[Ints, list[Ints], int]:
    """Give each test a slot, and each tree an order of its tests: the needier child first, so that few slots are in use."""
    slot, start = np.ones(forest.n_tests, np.int32), np.zeros(forest.n_tests, np.int64)
    for level in _levels(forest):
        children = np.stack([forest.left.data[level], forest.right.data[level]])
        needs = np.where(children >= 0, need[np.maximum(children, 0)], 0)
        sizes = np.where(children >= 0, leaves[np.maximum(children, 0)] - 1, 0)
        heavy = np.argmax(needs, axis=0)
        columns = np.arange(len(level))
        for rank, side in enumerate((heavy, 1 - heavy)):
            child, inner = children[side, columns], children[side, columns] >= 0
            slot[child[inner]] = slot[level[inner]] + rank
            start[child[inner]] = start[level[inner]] + rank * sizes[heavy, columns][inner]
    position = start + leaves - 2
    by_tree = np.lexsort([position, forest.tree_of_tests])
    order = np.split(by_tree, np.cumsum(np.bincount(forest.tree_of_tests, minlength=forest.n_trees))[:-1]) if forest.n_trees else []
    return slot, order, int(need.max(initial=0))
