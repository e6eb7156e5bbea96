"""The program over bit planes that a forest becomes: its joins and steps in an order in which what is read has been written, as rows of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.bitwise.category_planes import SetTables, make_set_tables
from hbconv.backends.tvm.trees.bitwise.leaf_splits import Cuts, cut_trees
from hbconv.backends.tvm.trees.bitwise.planes import BYTES, Masks, make_masks
from hbconv.backends.tvm.trees.list_scheduling import assign_slots, in_runs, lay_out
from hbconv.forest import Forest

__all__ = ["BOTH", "EITHER", "BitTables", "Shape", "group_of", "make_bit_tables", "words_of"]

Shape: TypeAlias = "int | str"
"""A join of so many planes on either side, or one of the following."""
Ints = npt.NDArray[np.int64]

BOTH, EITHER = "both", "either"
"""Steps: a plane and another, or one or the other."""
LOPSIDED = "lopsided"
"""Joins of more planes on one side than on the other, which are few."""
FUSED = 2
"""Planes of sides that are computed with their join: one is decided, from two others."""
ZEROS = 0
"""The plane of what lies before no cut."""
GROUPS = (16, 8, 4)
"""Trees evaluated together: the more, the longer the runs of one shape."""
LEAVES = 1500
"""Leaves of such trees up to which what is between them, about a plane a leaf, stays in the nearest caches."""


@dataclass(frozen=True, eq=False)
class BitTables:
    """A forest as a program over planes: those of the masks, then slots.

    For each join and step there are words: where its result begins, the plane of what lies before its cut, then, for each side, where it begins, or what it is
    computed from (before its cut, left, right). A lopsided join adds how many planes both sides, the left one alone and the right one alone have.
    Of a step the words are the result and two planes.

    Parameters
    ----------
    masks : Masks
    sets : SetTables
    shapes : tuple of Shape
        In use.
    words : int32 (n_words,)
    runs : int32 (n_runs, 3)
        Joins of one shape, one after another: position of the shape, first word, number of joins.
    group_start : int32 (n_groups + 1,)
        First run of each group of trees.
    slots : int
        Planes of slots; those of classes have been there before.
    codes : int32 (n_trees, bits)
        Planes of the code of each tree's leaf, the lowest bit first.
    """

    masks: Masks
    sets: SetTables
    shapes: tuple[Shape, ...]
    words: npt.NDArray[np.int32]
    runs: npt.NDArray[np.int32]
    group_start: npt.NDArray[np.int32]
    slots: int
    codes: npt.NDArray[np.int32]

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1


def make_bit_tables(forest: Forest, bins: Bins, trees: Ints, group: int) -> BitTables:
    """Write the program for the trees in the given order, -1 standing for none; their number is a multiple of ``group``."""
    masks, cuts = make_masks(bins), cut_trees(forest)
    mask, sets = masks.of_tests(bins), make_set_tables(bins.sets, masks.first_set)
    nodes = _Nodes.of(cuts, forest, trees, group)
    order = in_runs(nodes.kind, nodes.parent, nodes.group)
    slot, slots = assign_slots(order, nodes.parent, nodes.planes, nodes.group)
    planes = _Planes(
        cuts, nodes, np.append(masks.count + slot, ZEROS) * BYTES, np.append(mask, ZEROS) * BYTES
    )
    words = [
        planes.words(shape, np.flatnonzero(nodes.kind == i)) for i, shape in enumerate(nodes.shapes)
    ]
    flat, runs, group_start = lay_out(words, nodes.kind, nodes.group, order, len(trees) // group)
    return BitTables(
        masks,
        sets,
        nodes.shapes,
        flat.astype(np.int32),
        runs,
        group_start,
        max(slots, sets.most),
        planes.codes(trees).astype(np.int32),
    )


def group_of(forest: Forest) -> int:
    """Return how many trees to evaluate together."""
    return next(
        (size for size in GROUPS if size * forest.n_leaves <= LEAVES * forest.n_trees), GROUPS[-1]
    )


def words_of(shape: Shape) -> int:
    """Count the words of a shape.

    Examples
    --------
    >>> words_of(BOTH), words_of(1), words_of(FUSED), words_of(LOPSIDED)
    (3, 4, 8, 7)
    """
    return {BOTH: 3, EITHER: 3, FUSED: 8, LOPSIDED: 7}.get(shape, 4)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The joins, of windows that are no part of another's, then the steps.

    ``window`` is that of a join, or whose cut a step helps to decide; ``join`` numbers the join of a window, or that of which it is a part, and ``decided``
    its last step (-1: none). ``parent`` reads a node's result of so many ``planes``, ``before`` is the step before a step.
    """

    shapes: tuple[Shape, ...]
    kind: Ints
    group: Ints
    parent: Ints
    planes: Ints
    window: Ints
    join: Ints
    decided: Ints
    before: Ints
    step: Ints

    @staticmethod
    def of(cuts: Cuts, forest: Forest, trees: Ints, size: int) -> _Nodes:
        turn = np.zeros(forest.n_trees + 1, np.int64)
        turn[trees] = np.arange(len(trees))
        part = (cuts.bits == FUSED) & (np.append(cuts.bits, 0)[cuts.parent] == FUSED + 1)
        own = np.flatnonzero((cuts.bits > 1) & ~part)
        join = np.full(len(cuts.bits) + 1, -1)
        join[own] = np.arange(len(own))
        join[:-1][part] = join[cuts.parent[part]]
        steps = np.arange(len(cuts.step_window)) + len(own)
        follows = np.append(False, cuts.step_window[1:] == cuts.step_window[:-1])[: len(steps)]
        last = ~np.append(follows[1:], False)[: len(steps)]
        decided = np.full(len(cuts.bits), -1)
        decided[cuts.step_window[last]] = steps[last]
        window = np.concatenate([own, cuts.step_window])
        shapes, kind = _kinds(cuts, own)
        return _Nodes(
            shapes=shapes,
            kind=np.concatenate([kind, len(shapes) - 2 + cuts.step_either]),
            group=turn[forest.tree_of_tests[cuts.test[window]]] // size,
            parent=np.concatenate(
                [join[cuts.parent[own]], np.where(last, join[cuts.step_window], steps + 1)]
            ),
            planes=np.concatenate([cuts.bits[own], np.ones(len(steps), np.int64)]),
            window=window,
            join=join,
            decided=decided,
            before=np.concatenate([np.full(len(own), -1), np.where(follows, steps - 1, -1)]),
            step=np.concatenate([np.full(len(own), -1), cuts.step_test]),
        )


def _kinds(cuts: Cuts, own: Ints) -> tuple[tuple[Shape, ...], Ints]:
    """Name all shapes of trees of so many bits, and return the positions of those of the given windows."""
    bits = np.append(cuts.bits, 0)
    most, planes = max(int(bits.max()), FUSED + 1), bits[own] - 1
    lopsided = (planes > FUSED) & (bits[cuts.left[own]] != bits[cuts.right[own]])
    return (*range(1, most), LOPSIDED, BOTH, EITHER), np.where(lopsided, most, planes) - 1


@dataclass(frozen=True, eq=False)
class _Planes:
    """Where planes begin: ``result`` the first of each node, ``mask`` that of each test; the last of either are zeros."""

    cuts: Cuts
    nodes: _Nodes
    result: Ints
    mask: Ints

    def words(self, shape: Shape, nodes: Ints) -> Ints:
        """Write the words of the nodes of a shape."""
        return np.stack(
            [self.result[nodes], *self._operands(shape, nodes, self.nodes.window[nodes])], axis=1
        )

    def _operands(self, shape: Shape, nodes: Ints, window: Ints) -> list[Ints]:
        left, right = self.cuts.left[window], self.cuts.right[window]
        if shape in (BOTH, EITHER):
            before = self.nodes.before[nodes]
            return [
                self.mask[self.nodes.step[nodes]],
                np.where(before >= 0, self.result[before], self.mask[self.cuts.test[window]]),
            ]
        if shape == FUSED:
            return [self._decided(window), *self._part(left), *self._part(right)]
        sides = [self._decided(window), self._of(left), self._of(right)]
        return [*sides, *self._counts(left, right)] if shape == LOPSIDED else sides

    def _decided(self, windows: Ints) -> Ints:
        """Return the plane of what lies before the cut."""
        step = self.nodes.decided[windows]
        return np.where(step >= 0, self.result[step], self.mask[self.cuts.test[windows]])

    def _part(self, windows: Ints) -> list[Ints]:
        """Return what a side is computed from: one of fewer planes is the right one of a cut that nothing lies before."""
        bits = self._bits(windows)
        before = np.where(bits == FUSED, self._decided(windows), ZEROS)
        left, right = (
            np.where(bits == FUSED, side[windows], windows)
            for side in (self.cuts.left, self.cuts.right)
        )
        return [before, self._of(left), self._of(right)]

    def _of(self, windows: Ints) -> Ints:
        """Return the first plane of windows: one of two leaves is told by its test, one of a single leaf by none."""
        return np.where(
            self._bits(windows) > 1,
            self.result[self.nodes.join[windows]],
            self.mask[np.append(self.cuts.test, -1)[windows]],
        )

    def _counts(self, left: Ints, right: Ints) -> list[Ints]:
        """Count the planes of both sides, of the left one alone and of the right one alone."""
        some, others = self._bits(left), self._bits(right)
        both = np.minimum(some, others)
        return [both, some - both, others - both]

    def _bits(self, windows: Ints) -> Ints:
        return np.append(self.cuts.bits, 0)[windows]

    def codes(self, trees: Ints) -> Ints:
        """Return the planes of the codes of trees; zeros past the bits of a tree."""
        root = np.append(self.cuts.root, -1)[trees]
        bit = np.arange(self.cuts.bits.max(initial=0))
        return np.where(
            bit < self._bits(root)[:, None], self._of(root)[:, None] + bit * BYTES, ZEROS
        )
