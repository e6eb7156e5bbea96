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
    stack : int
    dtype : str
        Of the numbers: the smallest that counts the leaves of any tree.
    """

    steps: Ints
    group_start: Ints
    stack: int
    dtype: str

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1


def make_tables(forest: Forest, bins: Bins, trees: Ints) -> SelectTables:
    """Write the program for the trees in the given order, -1 standing for none; their number is a multiple of GROUP."""
    leaves, need = _count(forest)
    slot, position = _place(forest, leaves, need)
    stack, turn = int(need.max(initial=0)), np.zeros(forest.n_trees + 1, np.int32)
    turn[trees] = np.arange(len(trees))
    whole = stack + 1 + turn[:-1] % GROUP
    real = forest.roots.data >= 0
    slot[forest.roots.data[real]] = whole[real]
    left, right = (_of_child(child, slot, 0) for child in (forest.left.data, forest.right.data))
    steps = np.stack([bins.column, left, right, slot, bins.place, _of_child(forest.left.data, leaves, 1)], axis=1)
    # A tree without tests takes a step that gives zero.
    empty = np.flatnonzero((trees < 0) | ~np.append(real, False)[trees])
    idle = np.array([[0, 0, 0, stack + 1 + i % GROUP, NEVER, 0] for i in empty], np.int32).reshape(-1, len(FIELDS))
    turns = np.concatenate([turn[forest.tree_of_tests], empty])
    order = np.lexsort([np.concatenate([position, np.zeros(len(empty), np.int64)]), turns])
    sizes = np.bincount(turns // GROUP, minlength=len(trees) // GROUP)
    return SelectTables(np.concatenate([steps, idle])[order].astype(np.int32), np.cumsum([0, *sizes], dtype=np.int32), stack, _number_dtype(forest))


def _number_dtype(forest: Forest) -> str:
    largest = int(np.diff(forest.first_leaf.data).max(initial=1))
    return "uint8" if largest <= 2**8 else "uint16" if largest <= 2**16 else "int32"


def _of_child(child: Ints, values: Ints, leaf: int) -> Ints:
    """Read a value of each child that is a test; a leaf has a fixed one."""
    return np.where(child >= 0, np.append(values, 0)[np.maximum(child, 0)], leaf).astype(np.int32)


def _levels(forest: Forest) -> list[Ints]:
    """List the tests of each depth."""
    by_depth = np.argsort(forest.depth_of_tests, kind="stable")
    return np.split(by_depth, np.cumsum(np.bincount(forest.depth_of_tests, minlength=forest.depth))[:-1]) if forest.n_tests else []


def _count(forest: Forest) -> tuple[Ints, Ints]:
    """Count the leaves below each test, and the slots its subtree needs: from the deepest level up."""
    leaves, need = np.ones(forest.n_tests, np.int32), np.zeros(forest.n_tests, np.int32)
    for level in reversed(_levels(forest)):
        children = forest.left.data[level], forest.right.data[level]
        leaves[level] = sum(_of_child(child, leaves, 1) for child in children)
        needs = [_of_child(child, need, 0) for child in children]
        need[level] = np.maximum(np.maximum(*needs), 1 + np.minimum(*needs))
    return leaves, need


def _place(forest: Forest, leaves: Ints, need: Ints) -> tuple[Ints, Ints]:
    """Give each test a slot, and a position in its tree's program: the needier child first, so that few slots are in use."""
    slot, start = np.ones(forest.n_tests, np.int32), np.zeros(forest.n_tests, np.int32)
    for level in _levels(forest):
        children = np.stack([forest.left.data[level], forest.right.data[level]])
        heavy, every = np.argmax(_of_child(children, need, 0), axis=0), np.arange(len(level))
        for rank, side in enumerate((heavy, 1 - heavy)):
            child = children[side, every]
            inner = child >= 0
            slot[child[inner]] = slot[level[inner]] + rank
            steps_before = rank * (_of_child(children[heavy, every], leaves, 1) - 1)
            start[child[inner]] = (start[level] + steps_before)[inner]
    return slot, start + leaves - 2
