"""The program over bit planes that a forest becomes: its joins and steps in an order in which what is read has been written, as rows of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.bins import Bins
from hbconv.backends.tvm.bit_planes import BYTES, Masks, make_masks
from hbconv.backends.tvm.cuts import Cuts, cut_trees
from hbconv.backends.tvm.list_schedule import in_runs
from hbconv.forest import Forest

__all__ = ["BOTH", "EITHER", "GROUP", "BitTables", "Shape", "make_bit_tables", "words_of"]

Shape: TypeAlias = "int | str | tuple[Shape, Shape]"
Ints = npt.NDArray[np.int64]

BOTH, EITHER = "both", "either"
"""Shapes of steps: a plane and another, or one or the other."""
FUSED = 3
"""Bits of windows whose parts are computed at once."""
GROUP = 16
"""Trees evaluated together: the more, the longer the runs of one shape, as long as what is between them stays in the nearest caches."""


@dataclass(frozen=True, eq=False)
class BitTables:
    """A forest as a program over planes: those of the masks, then slots.

    For each join and step there are words: where the first plane of its result begins, then those that it reads, as ``words_of`` counts them.

    Parameters
    ----------
    masks : Masks
    shapes : tuple of Shape
        In use.
    words : int32 (n_words,)
    runs : int32 (n_runs, 3)
        Joins of one shape, one after another: position of the shape, first word, number of joins.
    group_start : int32 (n_groups + 1,)
        First run of each group of trees.
    slots : int
    codes : int32 (n_groups * GROUP, bits)
        Planes of the code of each tree's leaf, the lowest bit first.
    """

    masks: Masks
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


def make_bit_tables(forest: Forest, bins: Bins, trees: Ints) -> BitTables:
    """Write the program for the trees in the given order, -1 standing for none; their number is a multiple of GROUP."""
    masks, cuts = make_masks(bins), cut_trees(forest)
    mask = masks.start[bins.column] + bins.place.astype(np.int64) + 1
    nodes = _Nodes.of(cuts, forest, trees)
    order = in_runs(nodes.kind, nodes.parent, nodes.group)
    slot, slots = _assign_slots(nodes, order)
    planes = _Planes(cuts, nodes, np.append(masks.count + slot, 0), mask)
    words = [planes.words(shape, np.flatnonzero(nodes.kind == i)) for i, shape in enumerate(nodes.shapes)]
    kind, group = nodes.kind[order], nodes.group[order]
    start = np.concatenate([[0], np.cumsum(np.array([w.shape[1] for w in words], np.int64)[kind])])
    first = np.flatnonzero(np.append(len(order) > 0, (np.diff(kind) != 0) | (np.diff(group) != 0))[: len(order)])
    runs = np.stack([kind[first], start[first], np.diff(np.append(first, len(order)))], axis=1)
    return BitTables(
        masks=masks,
        shapes=nodes.shapes,
        words=(_lay_out(words, nodes.kind, order, start) * BYTES).astype(np.int32),
        runs=runs.astype(np.int32),
        group_start=np.searchsorted(group[first], np.arange(len(trees) // GROUP + 1)).astype(np.int32),
        slots=slots,
        codes=(planes.codes(trees) * BYTES).astype(np.int32),
    )


def words_of(shape: Shape) -> int:
    """Count the words of a shape besides that of its result: one for each cut, and one for each part that has planes.

    Examples
    --------
    >>> words_of(BOTH), words_of((4, 0)), words_of(((1, 1), (1, 0)))
    (2, 2, 6)
    """
    if isinstance(shape, tuple):
        return 1 + sum(map(words_of, shape))
    return 2 if isinstance(shape, str) else min(shape, 1)


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
    def of(cuts: Cuts, forest: Forest, trees: Ints) -> _Nodes:
        turn = np.zeros(forest.n_trees + 1, np.int64)
        turn[trees] = np.arange(len(trees))
        part = (cuts.bits == FUSED - 1) & (np.append(cuts.bits, 0)[cuts.parent] == FUSED)
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
        shapes, shape = _shapes(cuts, own)
        kind = np.concatenate([shape, len(shapes) + cuts.step_either])
        return _Nodes(
            shapes=(*shapes, BOTH, EITHER),
            kind=kind,
            group=turn[forest.tree_of_tests[cuts.test[window]]] // GROUP,
            parent=np.concatenate([join[cuts.parent[own]], np.where(last, join[cuts.step_window], steps + 1)]),
            planes=np.concatenate([cuts.bits[own], np.ones(len(steps), np.int64)]),
            window=window,
            join=join[:-1],
            decided=decided,
            before=np.concatenate([np.full(len(own), -1), np.where(follows, steps - 1, -1)]),
            step=np.concatenate([np.full(len(own), -1), cuts.step_test]),
        )


def _shapes(cuts: Cuts, own: Ints) -> tuple[list[Shape], Ints]:
    """Name the shapes of the given windows, and number them."""
    bits = np.append(cuts.bits, 0)
    pair = bits[cuts.left] + 2 * bits[cuts.right]
    # A side counts for its bits, or, where it is a part, for its own sides.
    part = np.append(np.where(cuts.bits == FUSED - 1, -pair, cuts.bits), 0)
    sides = np.stack([np.where(cuts.bits[own] == FUSED, part[side], bits[side]) for side in (cuts.left[own], cuts.right[own])], axis=1)
    found, number = np.unique(sides, axis=0, return_inverse=True)
    inside: dict[int, Shape] = {-1: (1, 0), -2: (0, 1), -3: (1, 1)}
    return [tuple(inside.get(side, side) for side in pair) for pair in found.tolist()], number.reshape(-1)


def _assign_slots(nodes: _Nodes, order: Ints) -> tuple[Ints, int]:
    """Give each result neighbouring slots until it has been read, those that came free last first: they are in the nearest cache. Groups begin anew."""
    parent, planes, group = nodes.parent.tolist(), nodes.planes.tolist(), nodes.group.tolist()
    below: list[list[int]] = [[] for _ in parent]
    free: list[list[int]] = []
    slot, used, most, now = [0] * len(parent), 0, 0, -1
    for node in order.tolist():
        if group[node] != now:
            free, used, now = [[] for _ in range(9)], 0, group[node]
        for child in below[node]:
            free[planes[child]].append(slot[child])
        if parent[node] >= 0:
            below[parent[node]].append(node)
        width = planes[node]
        if free[width]:
            slot[node] = free[width].pop()
        else:
            slot[node], used = used, used + width
            most = max(most, used)
    return np.array(slot, np.int64), most


@dataclass(frozen=True, eq=False)
class _Planes:
    """Where planes lie: ``result`` the first of each node, ``mask`` that of each test."""

    cuts: Cuts
    nodes: _Nodes
    result: Ints
    mask: Ints

    def words(self, shape: Shape, nodes: Ints) -> Ints:
        """Write the words of the nodes of a shape."""
        window, before = self.nodes.window[nodes], self.nodes.before[nodes]
        if not isinstance(shape, str):
            return np.stack([self.result[nodes], *self._parts(shape, window)], axis=1)
        decided = np.where(before >= 0, self.result[before], self.mask[self.cuts.test[window]])
        return np.stack([self.result[nodes], self.mask[self.nodes.step[nodes]], decided], axis=1)

    def _parts(self, shape: Shape, windows: Ints) -> Iterator[Ints]:
        if isinstance(shape, tuple):
            decided = self.nodes.decided[windows]
            yield np.where(decided >= 0, self.result[decided], self.mask[self.cuts.test[windows]])
            yield from self._parts(shape[0], self.cuts.left[windows])
            yield from self._parts(shape[1], self.cuts.right[windows])
        elif shape:
            yield self._of(windows)

    def _of(self, windows: Ints) -> Ints:
        """Return the first plane of windows: one of two leaves is told by its test."""
        return np.where(self.cuts.bits[windows] > 1, self.result[self.nodes.join[windows]], self.mask[self.cuts.test[windows]])

    def codes(self, trees: Ints) -> Ints:
        """Return the planes of the codes of trees; zeros, which are plane 0, past the bits of a tree."""
        root = np.append(self.cuts.root, -1)[trees]
        there = np.flatnonzero(root >= 0)
        bits, first = np.zeros(len(trees), np.int64), np.zeros(len(trees), np.int64)
        bits[there], first[there] = self.cuts.bits[root[there]], self._of(root[there])
        bit = np.arange(self.cuts.bits.max(initial=0))
        return np.where(bit < bits[:, None], first[:, None] + bit, 0)


def _lay_out(words: list[Ints], kind: Ints, order: Ints, start: Ints) -> Ints:
    """Write the words of all nodes one after another, in their order."""
    flat, place = np.zeros(start[-1], np.int64), np.empty(len(order), np.int64)
    place[order] = start[:-1]
    for i, block in enumerate(words):
        flat[place[kind == i][:, None] + np.arange(block.shape[1])] = block
    return flat
