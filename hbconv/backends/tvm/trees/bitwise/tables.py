"""The program over bit planes that a forest becomes, as rows of numbers.

A forest is joins of planes, and steps that decide what lies before a split of leaves. They stand in
an order in which what is read has been written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.bitwise.leaf_splits import LeafSplits
from hbconv.backends.tvm.trees.bitwise.masks import PLANE_BYTES, Masks, make_masks
from hbconv.backends.tvm.trees.bitwise.set_tables import SetTables, make_set_tables
from hbconv.backends.tvm.trees.list_scheduling import assign_slots, in_runs, lay_out
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.forest import Forest

__all__ = [
    "BOTH",
    "EITHER",
    "FUSED",
    "LOPSIDED",
    "BitTables",
    "Shape",
    "choose_group",
    "make_bit_tables",
    "words_of",
]

Shape: TypeAlias = "int | str"
"""A join of so many planes on either side, or one of the following."""
Ints = npt.NDArray[np.int64]

BOTH = "both"
EITHER = "either"
"""Steps: a plane and another, or one or the other."""
LOPSIDED = "lopsided"
"""Joins of more planes on one side than on the other, which are few."""
FUSED = 2
"""Planes of sides that are computed with their join: one is decided, from two others."""
ZEROS_PLANE = 0
"""The plane of what lies before no split."""
BITWISE_GROUP_SIZES = (16, 8, 4)
"""Trees evaluated together: the more, the longer the runs of one shape."""
MAX_LEAVES_TOGETHER = 1500
"""Leaves of such trees up to which what is between them stays in the nearest caches.

That is about a plane a leaf.
"""


@dataclass(frozen=True, eq=False)
class BitTables:
    """A forest as a program over planes: those of the masks, then slots.

    The words of a join are where its result begins, and the plane of what lies before its split.
    Then, for each side, where it begins; or what it is computed from: before its split, left,
    right. A lopsided join adds how many planes both sides, the left one alone and the right one
    alone have. The words of a step are the result and two planes.

    Parameters
    ----------
    bins : Bins
    masks : Masks
    sets : SetTables
    shapes : tuple of Shape
        In use.
    words : int32 (n_words,)
    runs : int32 (n_runs, 3)
        Joins of one shape, one after another: position of the shape, first word, number of joins.
    group_start : int32 (n_groups + 1,)
        First run of each group of trees.
    group : int
        Trees of a group.
    slots : int
        Planes of slots; those of classes have been there before.
    codes : int32 (n_places, n_bits)
        Planes of the code of each tree's leaf, the lowest bit first.
    """

    bins: Bins
    masks: Masks
    sets: SetTables
    shapes: tuple[Shape, ...]
    words: npt.NDArray[np.int32]
    runs: npt.NDArray[np.int32]
    group_start: npt.NDArray[np.int32]
    group: int
    slots: int
    codes: npt.NDArray[np.int32]

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.group_start) - 1


def make_bit_tables(forest: Forest, bins: Bins, splits: LeafSplits, trees: Trees) -> BitTables:
    """Write the program for the trees, in their order.

    1. Find the nodes, joins and steps, and an order of them.
    2. Give each result slots after the planes of the masks; the last entry stands for zeros.
    3. Write the words of the nodes, shape by shape, and lay them out in the order.
    """
    masks = make_masks(bins)
    sets = make_set_tables(bins.sets, masks.first_set)
    nodes = _Nodes.of(splits, forest, trees)  # 1
    order = in_runs(nodes.kind, nodes.parent, nodes.group)
    slot, slots = assign_slots(order, nodes.parent, nodes.planes, nodes.group)  # 2
    result = np.append(masks.count + slot, ZEROS_PLANE) * PLANE_BYTES
    mask = np.append(masks.of_tests(bins), ZEROS_PLANE) * PLANE_BYTES
    planes = _Planes(splits, nodes, result, mask)
    words = [  # 3
        planes.words(shape, np.flatnonzero(nodes.kind == i)) for i, shape in enumerate(nodes.shapes)
    ]
    n_groups = len(trees.order) // trees.group
    flat, runs, group_start = lay_out(words, nodes.kind, nodes.group, order, n_groups)
    return BitTables(
        bins=bins,
        masks=masks,
        sets=sets,
        shapes=nodes.shapes,
        words=flat.astype(np.int32),
        runs=runs,
        group_start=group_start,
        group=trees.group,
        slots=max(slots, sets.max_class_planes),
        codes=planes.codes(trees.order).astype(np.int32),
    )


def choose_group(forest: Forest) -> int:
    """Return how many trees to evaluate together."""
    most = MAX_LEAVES_TOGETHER * forest.n_trees
    return next(
        (size for size in BITWISE_GROUP_SIZES if size * forest.n_leaves <= most),
        BITWISE_GROUP_SIZES[-1],
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
    """The joins, of ranges that are no part of another's, then the steps.

    Parameters
    ----------
    shapes : tuple of Shape
    kind, group : int64 (n_nodes,)
        Position of the shape, and group of the tree.
    parent : int64 (n_nodes,)
        The node that reads a node's result, -1 for none.
    planes : int64 (n_nodes,)
        Planes of the result.
    range : int64 (n_nodes,)
        Of a join; or whose split a step helps to decide.
    join : int64 (n_ranges + 1,)
        The join of a range, or that of which it is a part.
    decided : int64 (n_ranges,)
        Its last step, -1 for none.
    before : int64 (n_nodes,)
        The step before a step, -1 for none.
    test : int64 (n_nodes,)
        That of a step.
    """

    shapes: tuple[Shape, ...]
    kind: Ints
    group: Ints
    parent: Ints
    planes: Ints
    range: Ints
    join: Ints
    decided: Ints
    before: Ints
    test: Ints

    @staticmethod
    def of(splits: LeafSplits, forest: Forest, trees: Trees) -> _Nodes:
        """Find the nodes.

        1. A range of two bits is computed with its parent, if that has three: it has no node.
        2. The other ranges of more than one bit have joins, numbered first.
        3. Steps follow, in a chain for each range; the last one decides the range's split.
        """
        part = (splits.bits == FUSED) & (np.append(splits.bits, 0)[splits.parent] == FUSED + 1)  # 1
        own = np.flatnonzero((splits.bits > 1) & ~part)  # 2
        join = np.full(len(splits.bits) + 1, -1)
        join[own] = np.arange(len(own))
        join[:-1][part] = join[splits.parent[part]]
        n_steps = len(splits.step_range)  # 3
        steps = np.arange(n_steps) + len(own)
        follows = np.append(False, splits.step_range[1:] == splits.step_range[:-1])[:n_steps]
        last = ~np.append(follows[1:], False)[:n_steps]
        decided = np.full(len(splits.bits), -1)
        decided[splits.step_range[last]] = steps[last]
        ranges = np.concatenate([own, splits.step_range])
        place = np.zeros(forest.n_trees + 1, np.int64)
        place[trees.order] = np.arange(len(trees.order))
        shapes, kind = _kinds(splits, own)
        none = np.full(len(own), -1)
        read_by = np.where(last, join[splits.step_range], steps + 1)
        return _Nodes(
            shapes=shapes,
            kind=np.concatenate([kind, len(shapes) - 2 + splits.step_either]),
            group=place[forest.tree_of_tests[splits.test[ranges]]] // trees.group,
            parent=np.concatenate([join[splits.parent[own]], read_by]),
            planes=np.concatenate([splits.bits[own], np.ones(n_steps, np.int64)]),
            range=ranges,
            join=join,
            decided=decided,
            before=np.concatenate([none, np.where(follows, steps - 1, -1)]),
            test=np.concatenate([none, splits.step_test]),
        )


def _kinds(splits: LeafSplits, own: Ints) -> tuple[tuple[Shape, ...], Ints]:
    """Name all shapes in trees of so many bits, and return the positions of some ranges' shapes."""
    bits = np.append(splits.bits, 0)
    most = max(int(bits.max()), FUSED + 1)
    planes = bits[own] - 1
    lopsided = (planes > FUSED) & (bits[splits.left[own]] != bits[splits.right[own]])
    return (*range(1, most), LOPSIDED, BOTH, EITHER), np.where(lopsided, most, planes) - 1


@dataclass(frozen=True, eq=False)
class _Planes:
    """Where planes begin: ``result`` the first of each node, ``mask`` that of each test.

    The last entry of either is the plane of zeros.
    """

    splits: LeafSplits
    nodes: _Nodes
    result: Ints
    mask: Ints

    def words(self, shape: Shape, nodes: Ints) -> Ints:
        """Write the words of the nodes of a shape."""
        operands = self._operands(shape, nodes, self.nodes.range[nodes])
        return np.stack([self.result[nodes], *operands], axis=1)

    def _operands(self, shape: Shape, nodes: Ints, ranges: Ints) -> list[Ints]:
        left = self.splits.left[ranges]
        right = self.splits.right[ranges]
        if shape in (BOTH, EITHER):
            before = self.nodes.before[nodes]
            at_split = self.mask[self.splits.test[ranges]]
            decided = np.where(before >= 0, self.result[before], at_split)
            return [self.mask[self.nodes.test[nodes]], decided]
        if shape == FUSED:
            return [self._decided(ranges), *self._part(left), *self._part(right)]
        sides = [self._decided(ranges), self._of(left), self._of(right)]
        return [*sides, *self._counts(left, right)] if shape == LOPSIDED else sides

    def _decided(self, ranges: Ints) -> Ints:
        """Return the plane of what lies before the split."""
        step = self.nodes.decided[ranges]
        return np.where(step >= 0, self.result[step], self.mask[self.splits.test[ranges]])

    def _part(self, ranges: Ints) -> list[Ints]:
        """Return what a side is computed from.

        One of fewer planes is the right side of a split that nothing lies before.
        """
        full = self._bits(ranges) == FUSED
        before = np.where(full, self._decided(ranges), ZEROS_PLANE)
        left = np.where(full, self.splits.left[ranges], ranges)
        right = np.where(full, self.splits.right[ranges], ranges)
        return [before, self._of(left), self._of(right)]

    def _of(self, ranges: Ints) -> Ints:
        """Return the first plane of ranges.

        One of two leaves is told by its test, one of a single leaf by none.
        """
        by_test = self.mask[np.append(self.splits.test, -1)[ranges]]
        return np.where(self._bits(ranges) > 1, self.result[self.nodes.join[ranges]], by_test)

    def _counts(self, left: Ints, right: Ints) -> list[Ints]:
        """Count the planes of both sides, of the left one alone and of the right one alone."""
        left_bits = self._bits(left)
        right_bits = self._bits(right)
        both = np.minimum(left_bits, right_bits)
        return [both, left_bits - both, right_bits - both]

    def _bits(self, ranges: Ints) -> Ints:
        return np.append(self.splits.bits, 0)[ranges]

    def codes(self, order: Ints) -> Ints:
        """Return the planes of the codes of trees; zeros past the bits of a tree."""
        root = np.append(self.splits.root, -1)[order]
        bit = np.arange(self.splits.bits.max(initial=0))
        planes = self._of(root)[:, None] + bit * PLANE_BYTES
        return np.where(bit < self._bits(root)[:, None], planes, ZEROS_PLANE)
