"""The select program of a forest over bytes, as rows of numbers.

Macro nodes are small subtrees that a kernel computes as one: what lies between their splits never
leaves the registers. They are in an order in which children come before parents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import SIGNED_BYTE_BIAS, Bins
from hbconv.backends.tvm.trees.list_scheduling import assign_slots, in_runs, lay_out
from hbconv.backends.tvm.trees.tree_order import Trees, largest_tree
from hbconv.trees.forest import Forest

__all__ = [
    "KINDS",
    "LEAF",
    "SLOT",
    "ByteTables",
    "Shape",
    "fields",
    "make_byte_tables",
    "number_dtype",
    "reads_slots",
    "threshold_words",
]

Shape: TypeAlias = "Literal['leaf', 'slot'] | tuple[Shape, Shape]"

LEAF: Shape = "leaf"
SLOT: Shape = "slot"
PAIR: Shape = (LEAF, LEAF)
SHAPES: tuple[Shape, ...] = (
    ((PAIR, PAIR), (PAIR, PAIR)),
    ((SLOT, SLOT), (SLOT, SLOT)),
    (PAIR, PAIR),
    (PAIR, LEAF),
    (LEAF, PAIR),
    (PAIR, SLOT),
    (SLOT, PAIR),
    (SLOT, SLOT),
    (LEAF, SLOT),
    (SLOT, LEAF),
    PAIR,
)
"""Each a split with its two children: a leaf, a split inside the macro node, or a slot.

A slot is where another macro node left its number. The largest come first: the first that fits is
taken. The last nine fit any split between them, so every tree is covered.
"""
KINDS: tuple[Shape, ...] = (*SHAPES, LEAF)
"""Shapes of macro nodes; one without splits is for a tree without."""
REPEATING_FACTORS = {"uint8": 0x01010101, "uint16": 0x00010001, "int32": 1}
"""Factors that repeat a small number to fill a word of 32 bits.

A processor spreads such a word over a register as it loads it.
"""
Ints = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class MacroNodes:
    """The macro nodes of one shape.

    Parameters
    ----------
    shape : Shape
    tests : int32 (n_nodes, n_splits_of_shape)
        The splits of each, parents before children, left before right: the first is the root.
    slots : int32 (n_nodes, n_slots_of_shape)
        The splits whose numbers it reads, left before right: roots of other macro nodes.
    """

    shape: Shape
    tests: Ints
    slots: Ints


def fields(shape: Shape) -> Iterator[str]:
    """Name what a macro node reads for each part, parents before children, left before right.

    Examples
    --------
    >>> list(fields((SLOT, LEAF)))
    ['column', 'threshold', 'leaves_left', 'slot']
    >>> list(fields((LEAF, SLOT)))
    ['column', 'threshold', 'slot']
    """
    if shape == SLOT:
        yield "slot"
    if isinstance(shape, tuple):
        yield from ("column", "threshold")
        if reads_slots(shape[0]):
            yield "leaves_left"
        yield from fields(shape[0])
        yield from fields(shape[1])


def reads_slots(shape: Shape) -> bool:
    """Whether the number of leaves of a shape depends on the tree."""
    return any(map(reads_slots, shape)) if isinstance(shape, tuple) else shape == SLOT


def cover(forest: Forest) -> list[MacroNodes]:
    """Cover the trees with macro nodes from their roots down: an entry for each of SHAPES."""
    parts_by_shape: list[list[tuple[Ints, Ints]]] = [[] for _ in SHAPES]
    roots = forest.roots.data[forest.roots.data >= 0]
    while len(roots):
        below = []
        for shape, parts in zip(SHAPES, parts_by_shape, strict=True):
            fits = _fits(forest, shape, roots)
            tests, slots = _parts(forest, shape, roots[fits])
            parts.append((tests, slots))
            below.append(slots.ravel())
            roots = roots[~fits]
        roots = np.concatenate(below)
    return [_join_parts(shape, parts) for shape, parts in zip(SHAPES, parts_by_shape, strict=True)]


def _join_parts(shape: Shape, parts: list[tuple[Ints, Ints]]) -> MacroNodes:
    count = list(fields(shape)).count
    tests = [np.zeros((0, count("column")), np.int32), *(tests for tests, _ in parts)]
    slots = [np.zeros((0, count("slot")), np.int32), *(slots for _, slots in parts)]
    return MacroNodes(shape, np.concatenate(tests), np.concatenate(slots))


def _fits(forest: Forest, shape: Shape, codes: Ints) -> npt.NDArray[np.bool_]:
    """Whether the subtree of each child is of a shape.

    A split above two leaves is no slot: it is left to its parent's macro node.
    """
    if not isinstance(shape, tuple) and shape != SLOT:
        return codes < 0
    test = np.maximum(codes, 0)
    left = forest.left.data[test]
    right = forest.right.data[test]
    if not isinstance(shape, tuple):
        return (codes >= 0) & ((left >= 0) | (right >= 0))
    return (codes >= 0) & _fits(forest, shape[0], left) & _fits(forest, shape[1], right)


def _parts(forest: Forest, shape: Shape, roots: Ints) -> tuple[Ints, Ints]:
    """Return the splits and the slots of macro nodes of a shape, given their roots."""
    tests: list[Ints] = []
    slots: list[Ints] = []

    def visit(part: Shape, codes: Ints) -> None:
        if part == SLOT:
            slots.append(codes)
        if isinstance(part, tuple):
            tests.append(codes)
            visit(part[0], forest.left.data[codes])
            visit(part[1], forest.right.data[codes])

    visit(shape, roots)
    return _stack(tests, len(roots)), _stack(slots, len(roots))


def _stack(columns: list[Ints], n_rows: int) -> Ints:
    return np.stack(columns, axis=1) if columns else np.zeros((n_rows, 0), np.int32)


@dataclass(frozen=True, eq=False)
class ByteTables:
    """A forest as a program over slots of leaf numbers, one number for each row of a block.

    The first slots, one for each tree of a group, hold the numbers of whole trees, the others those
    of subtrees. The words of a macro node are the slot of its result, then what ``fields`` of its
    shape names.

    Parameters
    ----------
    bins : Bins
    words : int32 (n_words,)
    runs : int32 (n_runs, 3)
        Macro nodes of one shape, one after another: position of the shape in KINDS, first word,
        number of macro nodes.
    group_start : int32 (n_groups + 1,)
        First run of each group of trees.
    slots : int
    dtype : str
        Of the numbers: the smallest that counts the leaves of any tree.
    """

    bins: Bins
    words: Ints
    runs: Ints
    group_start: Ints
    slots: int
    dtype: str

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1

    @property
    def kinds(self) -> list[int]:
        """Positions in KINDS of the shapes in use."""
        used: list[int] = np.unique(self.runs[:, 0]).tolist()
        return used


def make_byte_tables(forest: Forest, bins: Bins, trees: Trees) -> ByteTables:
    """Write the program for the trees, in their order.

    1. Find the macro nodes, and an order of them.
    2. Give each result a slot: that of its tree, or one after those of the trees.
    3. Write the words of the macro nodes, shape by shape, and lay them out in the order.
    """
    nodes = _Nodes.of(forest, trees)  # 1
    order = in_runs(nodes.kind, nodes.parent, nodes.group)
    is_inner = (nodes.parent >= 0).astype(np.int64)  # 2
    # Only inner results need slots that are reused: those of trees are read at the end of the
    # group.
    slot, slots = assign_slots(order, nodes.parent, is_inner, nodes.group)
    result = np.where(nodes.parent < 0, nodes.place, trees.group + slot)
    dtype = number_dtype(forest)  # 3
    counts = forest.leftmost(forest.right.data) - forest.leftmost(forest.left.data)
    leaves_left = counts * REPEATING_FACTORS[dtype]
    words = [_words(macros, leaves_left, bins, nodes, result) for macros in nodes.macros]
    words.append(result[nodes.real :, None])
    n_groups = len(trees.order) // trees.group
    flat, runs, group_start = lay_out(words, nodes.kind, nodes.group, order, n_groups)
    # Repeated bytes may exceed 2**31; the bits are kept.
    words_as_int32 = flat.astype(np.uint32).view(np.int32)
    return ByteTables(bins, words_as_int32, runs, group_start, trees.group + slots, dtype)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The macro nodes of a forest, shape after shape; then one for each place without splits.

    The latter gives zero, for a tree of a single leaf, or where there is no tree.

    Parameters
    ----------
    macros : list of MacroNodes
    kind : int64 (n_nodes,)
        Position of the shape in KINDS.
    group, place : int64 (n_nodes,)
        Group of the tree, and its place in the group.
    parent : int64 (n_nodes,)
        The macro node that reads a node's number, -1 for none.
    at : int64 (n_splits,)
        The macro node whose root a split is.
    real : int
        Macro nodes of the forest, which come first.
    """

    macros: list[MacroNodes]
    kind: Ints
    group: Ints
    place: Ints
    parent: Ints
    at: Ints
    real: int

    @staticmethod
    def of(forest: Forest, trees: Trees) -> _Nodes:
        macros = cover(forest)
        root = np.concatenate([m.tests[:, 0] for m in macros])
        at = np.full(forest.n_tests, -1)
        at[root] = np.arange(len(root))
        has_splits = np.append(forest.roots.data >= 0, False)[trees.order]
        empty = np.flatnonzero((trees.order < 0) | ~has_splits)
        parent = np.full(len(root) + len(empty), -1)
        for m in macros:
            parent[at[m.slots]] = at[m.tests[:, :1]]
        kinds = np.repeat(np.arange(len(SHAPES)), [len(m.tests) for m in macros])
        place = np.zeros(forest.n_trees + 1, np.int64)
        place[trees.order] = np.arange(len(trees.order))
        places = np.concatenate([place[forest.tree_of_tests[root]], empty])
        return _Nodes(
            macros,
            np.concatenate([kinds, np.full(len(empty), KINDS.index(LEAF))]),
            places // trees.group,
            places % trees.group,
            parent,
            at,
            len(root),
        )


def _words(macros: MacroNodes, leaves_left: Ints, bins: Bins, nodes: _Nodes, result: Ints) -> Ints:
    """Write the words of the macro nodes of one shape."""
    root = nodes.at[macros.tests[:, 0]]
    tests = iter(macros.tests.T)
    slots = iter(macros.slots.T)
    columns = [result[root]]
    test = root
    for field in fields(macros.shape):
        if field == "column":
            test = next(tests)
            columns.append(bins.column[test])
        elif field == "threshold":
            columns.append(threshold_words(bins.threshold_bin[test]))
        elif field == "leaves_left":
            columns.append(leaves_left[test])
        else:
            columns.append(result[nodes.at[next(slots)]])
    return np.stack(columns, axis=1)


def threshold_words(threshold_bin: Ints) -> Ints:
    """Repeat the byte that is larger than those of rows that go left, and than no others."""
    # Left is "threshold above byte" as signed bytes, so the threshold is one more.
    byte = (threshold_bin.astype(np.int64) + 1 - SIGNED_BYTE_BIAS) % 256
    return byte * REPEATING_FACTORS["uint8"]


def number_dtype(forest: Forest) -> str:
    """Return the smallest dtype that counts the leaves of any tree."""
    largest = largest_tree(forest)
    # Numbers begin at 0, so a byte counts 256 leaves.
    fitting = (dtype for dtype in ("uint8", "uint16") if largest <= np.iinfo(dtype).max + 1)
    return next(fitting, "int32")
