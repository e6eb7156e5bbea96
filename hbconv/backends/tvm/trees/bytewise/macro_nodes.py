"""Macro nodes: small subtrees that a kernel computes as one.

What lies between their splits never leaves the registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = [
    "LEAF",
    "PAIR",
    "SHAPES",
    "SLOT",
    "MacroNodes",
    "Shape",
    "cover",
    "fields",
    "reads_slots",
]

Ints = npt.NDArray[np.int32]
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

A slot is where another macro node left its number. The largest stand first: the first that fits is
taken. The last nine fit any split between them, so every tree is covered.
"""


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
    found: list[list[tuple[Ints, Ints]]] = [[] for _ in SHAPES]
    roots = forest.roots.data[forest.roots.data >= 0]
    while len(roots):
        below = []
        for shape, parts in zip(SHAPES, found, strict=True):
            fits = _fits(forest, shape, roots)
            tests, slots = _parts(forest, shape, roots[fits])
            parts.append((tests, slots))
            below.append(slots.ravel())
            roots = roots[~fits]
        roots = np.concatenate(below)
    return [_joined(shape, parts) for shape, parts in zip(SHAPES, found, strict=True)]


def _joined(shape: Shape, parts: list[tuple[Ints, Ints]]) -> MacroNodes:
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
    return _stacked(tests, len(roots)), _stacked(slots, len(roots))


def _stacked(columns: list[Ints], n_rows: int) -> Ints:
    return np.stack(columns, axis=1) if columns else np.zeros((n_rows, 0), np.int32)
