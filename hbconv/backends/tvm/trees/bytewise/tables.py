"""The select program of a forest: its macro nodes in an order in which children come before parents, as rows of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import BIAS, Bins
from hbconv.backends.tvm.trees.bytewise.macro_nodes import (
    LEAF,
    SHAPES,
    Macros,
    Shape,
    cover,
    fields,
)
from hbconv.backends.tvm.trees.list_scheduling import assign_slots, in_runs, lay_out
from hbconv.forest import Forest

__all__ = ["KINDS", "ByteTables", "group_of", "make_byte_tables"]

GROUPS = ((64, 16), (256, 4), (2**31, 1))
"""Trees evaluated together, by leaves of the largest: the more, the longer the runs of one shape, as long as the slots stay in the nearest caches."""
KINDS: tuple[Shape, ...] = (*SHAPES, LEAF)
"""Shapes of macro nodes; one without tests stands for a tree without."""
REPEATED = {"uint8": 0x01010101, "uint16": 0x00010001, "int32": 1}
"""Factors that repeat a small number to fill a word of 32 bits, which a processor spreads over a register as it loads it."""

Ints = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ByteTables:
    """A forest as a program over slots of leaf numbers, one number for each row of a block.

    The first slots, one for each tree of a group, hold the numbers of whole trees, the others those of subtrees. For each macro node there are words:
    the slot of its result, then what ``fields`` of its shape names.

    Parameters
    ----------
    words : int32 (n_words,)
    runs : int32 (n_runs, 3)
        Macro nodes of one shape, one after another: position of the shape in KINDS, first word, number of macro nodes.
    group_start : int32 (n_groups + 1,)
        First run of each group of trees.
    slots : int
    dtype : str
        Of the numbers: the smallest that counts the leaves of any tree.
    """

    words: Ints
    runs: Ints
    group_start: Ints
    slots: int
    dtype: str

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1

    @property
    def kinds(self) -> list[int]:
        """Positions in KINDS of the shapes in use."""
        used: list[int] = np.unique(self.runs[:, 0]).tolist()
        return used


def make_byte_tables(
    forest: Forest, bins: Bins, trees: npt.NDArray[np.int64], size: int
) -> ByteTables:
    """Write the program for the trees in the given order, -1 standing for none; their number is a multiple of ``size``, that of a group."""
    nodes = _Nodes.of(forest, trees, size)
    order = in_runs(nodes.kind, nodes.parent, nodes.group)
    slot, slots = assign_slots(
        order, nodes.parent, (nodes.parent >= 0).astype(np.int64), nodes.group
    )
    result = np.where(nodes.parent < 0, nodes.turn, size + slot)
    dtype = _number_dtype(forest)
    leaves_left = (
        forest.leftmost(forest.right.data) - forest.leftmost(forest.left.data)
    ) * REPEATED[dtype]
    words = [_words(macros, leaves_left, bins, nodes, result) for macros in nodes.macros]
    words.append(result[nodes.real :, None])
    flat, runs, group_start = lay_out(words, nodes.kind, nodes.group, order, len(trees) // size)
    return ByteTables(flat.astype(np.uint32).view(np.int32), runs, group_start, size + slots, dtype)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The macro nodes of a forest, shape after shape; then one that gives zero for each place of a tree that has no tests.

    ``group`` is that of a node's tree and ``turn`` the tree's place in it, ``parent`` the macro node that reads its number (-1: none), ``at`` the macro node
    whose root a test is; the first ``real`` are macro nodes of the forest.
    """

    macros: list[Macros]
    kind: Ints
    group: Ints
    turn: Ints
    parent: Ints
    at: Ints
    real: int

    @staticmethod
    def of(forest: Forest, trees: npt.NDArray[np.int64], size: int) -> _Nodes:
        macros, turn = cover(forest), np.zeros(forest.n_trees + 1, np.int64)
        turn[trees] = np.arange(len(trees))
        empty = np.flatnonzero((trees < 0) | ~np.append(forest.roots.data >= 0, False)[trees])
        kinds = np.repeat(np.arange(len(SHAPES)), [len(m.tests) for m in macros])
        root = np.concatenate([m.tests[:, 0] for m in macros])
        at = np.full(forest.n_tests, -1)
        at[root] = np.arange(len(root))
        parent = np.full(len(root) + len(empty), -1)
        for m in macros:
            parent[at[m.slots]] = at[m.tests[:, :1]]
        turns = np.concatenate([turn[forest.tree_of_tests[root]], empty])
        return _Nodes(
            macros,
            np.concatenate([kinds, np.full(len(empty), KINDS.index(LEAF))]),
            turns // size,
            turns % size,
            parent,
            at,
            len(root),
        )


def _words(macros: Macros, leaves_left: Ints, bins: Bins, nodes: _Nodes, result: Ints) -> Ints:
    """Write the words of the macro nodes of one shape."""
    root = nodes.at[macros.tests[:, 0]]
    columns, tests, slots = [result[root]], iter(macros.tests.T), iter(macros.slots.T)
    test = root
    for field in fields(macros.shape):
        if field == "column":
            test = next(tests)
            columns.append(bins.column[test])
        elif field == "place":
            columns.append(_place_word(bins.place[test]))
        elif field == "leaves_left":
            columns.append(leaves_left[test])
        else:
            columns.append(result[nodes.at[next(slots)]])
    return np.stack(columns, axis=1)


def _place_word(place: Ints) -> Ints:
    """Write the byte that is larger than those of rows that go left, and than no others."""
    return (place.astype(np.int64) + 1 - BIAS) % 256 * REPEATED["uint8"]


def group_of(forest: Forest) -> int:
    """Return how many trees to evaluate together."""
    largest = int(np.diff(forest.first_leaf.data).max(initial=1))
    return next(size for leaves, size in GROUPS if largest <= leaves)


def _number_dtype(forest: Forest) -> str:
    largest = int(np.diff(forest.first_leaf.data).max(initial=1))
    return "uint8" if largest <= 2**8 else "uint16" if largest <= 2**16 else "int32"
