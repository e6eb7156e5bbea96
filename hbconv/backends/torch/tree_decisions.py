"""Decisions of all distinct splits of a forest, and trees padded to perfect ones.

What torch does fast decides the form. It compares into the dtype that it compares several times as
fast as into bools. It compares bytes many times as fast as doubles, so many rows become ranks among
the thresholds first. It copies rows of a matrix at the speed of memory, and picks single entries at
a hundredth of it. So rows stand side by side, ``(splits, n_rows)``: each distinct split is decided
once, and the nodes of the trees copy their rows of decisions. A single row is a vector, and its
time is the number of operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hbconv.trees.forest import Forest

__all__ = [
    "MAX_RANK",
    "ComparedDecisions",
    "Decisions",
    "DistinctSplits",
    "MakeOutput",
    "RankedDecisions",
    "Ranks",
    "at_most",
    "number_thresholds",
    "pad_trees",
]

MAX_RANK = 254
"""Thresholds that one column of bytes distinguishes. No value has the next rank."""
LEAST_BYTE = -128
"""The byte of rank 0: torch compares signed bytes into signed bytes."""


def number_thresholds(
    column: npt.NDArray[np.int32], threshold: npt.NDArray[Any], most: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give each threshold its number in its column, counted from the largest, which is 1.

    A column of more than ``most`` thresholds becomes several columns of ranks.

    Parameters
    ----------
    column, threshold : array, shape (n_splits,)
        Distinct splits, sorted by column and threshold. NaN comes last.
    most : int

    Returns
    -------
    ranked : int array, shape (n_splits,)
        The column of ranks that each split reads.
    number : int array, shape (n_splits,)
        The least rank that holds; for NaN ``most + 1``, which no value has.

    Examples
    --------
    >>> number_thresholds(np.array([0, 0, 2]), np.array([1.5, 4.0, np.nan]), 254)
    (array([0, 0, 1]), array([  2,   1, 255]))
    """
    end = np.searchsorted(column, column, side="right")
    missing = np.isnan(threshold)
    real = end - np.bincount(column, missing).astype(np.int64)[column]
    # From the largest down: a value that is at most a threshold is at most all larger ones too.
    turn = np.maximum(real - 1 - np.arange(len(column)), 0)
    part = -(turn // most)
    _, ranked = np.unique(np.stack([column, part]), axis=1, return_inverse=True)
    return ranked.reshape(-1), np.where(missing, most + 1, turn % most + 1)


class Ranks(nn.Module):
    """The rank of each value: how many thresholds of its column it is at most.

    A column of one threshold is compared with it. Others are searched, all at once and without
    branches: torch's own search takes ten times as long, as a processor cannot predict where it
    turns. The columns with the most thresholds come first, so each step of the search takes those
    that need it. NaN has rank 0.

    Parameters
    ----------
    ranked, number : int array, shape (n_splits,)
        As ``number_thresholds`` returns them.
    column, threshold : array, shape (n_splits,)
    most : int
        Largest rank.
    least : int
        Integer of rank 0.
    dtype : torch.dtype
        Signed integers that hold ``least + most + 1``.
    """

    single: Tensor
    threshold: Tensor
    several: Tensor
    edges: Tensor
    first: Tensor
    order: Tensor

    def __init__(
        self,
        ranked: npt.NDArray[np.int64],
        number: npt.NDArray[np.int64],
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        most: int,
        least: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.least = least
        source = np.zeros(ranked.max() + 1, np.int64)
        source[ranked] = column
        real = number <= most
        count = np.bincount(ranked[real], minlength=len(source))
        single = np.flatnonzero(count <= 1)
        # The bits of a count are the steps of a binary search among as many edges.
        steps = np.frexp(count)[1]
        by_steps = np.argsort(-steps, kind="stable")
        several = by_steps[count[by_steps] > 1]
        self.sizes = [int((steps[several] > step).sum()) for step in range(steps.max())]
        first = np.zeros(len(source), np.int64)
        first[several] = np.cumsum(1 << steps[several]) - (1 << steps[several])
        # No value is <= NaN, so a search never steps over padding.
        edges = np.full(int((1 << steps[several]).sum()), np.nan, threshold.dtype)
        searched = real & (count > 1)[ranked]
        edges[first[ranked[searched]] + number[searched] - 1] = threshold[searched]
        alone = np.full(len(source), np.nan, threshold.dtype)
        alone[ranked[real]] = threshold[real]
        self.n_several = len(several)
        self.n_single = len(single)
        order = np.argsort(np.concatenate([single, several]))
        self.register_buffer("single", torch.tensor(source[single]))
        self.register_buffer("threshold", torch.tensor(alone[single, None]))
        self.register_buffer("several", torch.tensor(source[several]))
        self.register_buffer("edges", torch.tensor(edges))
        self.register_buffer("first", torch.tensor(first[several, None], dtype=torch.int32))
        self.register_buffer("order", torch.tensor(order))
        words = threshold.dtype.itemsize
        self.bytes_per_row = 2 * self.n_single * words + self.n_several * (3 * words + 12)

    def forward(self, x: Tensor) -> Tensor:
        """Return ranks plus ``least``: (ranked columns, n_rows) for x (columns, n_rows)."""
        parts = []
        if self.n_single:
            values = x.index_select(0, self.single)
            parts.append(at_most(values, self.threshold).to(self.dtype).add_(self.least))
        if self.n_several:
            parts.append(self._search(x.index_select(0, self.several)).to(self.dtype))
        if not self.n_several:
            return parts[0]
        return torch.cat(parts).index_select(0, self.order)

    def _search(self, x: Tensor) -> Tensor:
        """Find ranks from the highest bit down: step over ``half`` if the last of them holds.

        A column joins at the highest bit of its own.
        """
        at = torch.empty(0)
        searched = 0
        for step in reversed(range(len(self.sizes))):
            half = 1 << step
            edges = self.edges[half - 1 :]
            if searched:
                edge = edges.index_select(0, at.flatten()).view(at.shape)
                at = at.add_(at_most(x[:searched], edge).to(torch.int32), alpha=half)
            if self.sizes[step] > searched:
                first = self.first[searched : self.sizes[step]]
                edge = edges.index_select(0, first.flatten()).unsqueeze(1)
                holds = at_most(x[searched : self.sizes[step]], edge)
                joined = torch.add(first, holds.to(torch.int32), alpha=half)
                at = torch.cat([at, joined]) if searched else joined
                searched = self.sizes[step]
        return at.sub_(self.first - self.least)


def at_most(x: Tensor, threshold: Tensor) -> Tensor:
    """Compute ``x <= threshold`` in x's dtype, several times as fast in torch as in bools."""
    scripting = torch.jit.is_scripting()  # type: ignore[attr-defined]
    if not scripting and torch.compiler.is_compiling():
        return (x <= threshold).to(x.dtype)
    return torch.le(x, threshold, out=x.new_empty([0]))


MakeOutput = Callable[[npt.NDArray[np.int32]], nn.Module]
"""Returns the module that maps the places reached to outputs, given the leaf at each place."""

SEGMENT_SPLITS = 16
"""Splits of one column that are compared together."""


class DistinctSplits(nn.Module):
    """Every distinct split of a forest, decided once.

    Attributes
    ----------
    of_split : array of int, shape (n_splits + 1,)
        Position of each split's decision; at -1, that of one that never holds.
    """

    def __init__(self, column: npt.NDArray[np.int32], threshold: npt.NDArray[Any]) -> None:
        super().__init__()
        # The last split is for leaves: no value is <= NaN, so it never holds.
        columns = np.append(column, 0)
        thresholds = np.append(threshold, np.array(np.nan, threshold.dtype))
        order = np.lexsort((thresholds, columns))
        columns = columns[order]
        thresholds = thresholds[order]
        fresh = np.append(True, (np.diff(columns) != 0) | (thresholds[1:] != thresholds[:-1]))
        place = self.lay_out(columns[fresh], thresholds[fresh])
        dtype = np.int32 if place.max() <= np.iinfo(np.int32).max else np.int64
        self.of_split: npt.NDArray[Any] = np.empty(len(order), dtype)
        self.of_split[order] = place[np.cumsum(fresh) - 1]

    def lay_out(
        self, column: npt.NDArray[np.int32], threshold: npt.NDArray[Any]
    ) -> npt.NDArray[np.int64]:
        """Keep distinct splits, sorted by column and threshold; return their positions."""
        raise NotImplementedError

    def find(self, nodes: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        """Return the position of each node's decision; a leaf's never holds."""
        return self.of_split[np.where(nodes >= 0, nodes, -1)]


class Decisions(DistinctSplits):
    """The distinct splits of a single row, compared with their thresholds."""

    column: Tensor
    threshold: Tensor

    def lay_out(
        self, column: npt.NDArray[np.int32], threshold: npt.NDArray[Any]
    ) -> npt.NDArray[np.int64]:
        """Keep segments of one column each."""
        place, columns, table = _segments(column, threshold, np.nan)
        self.register_buffer("column", torch.tensor(columns, dtype=torch.int64))
        self.register_buffer("threshold", torch.tensor(table))
        return place

    def forward(self, x: Tensor) -> Tensor:
        """Return 1 or 0 of x's dtype for each decision: a vector for a single row (columns,)."""
        values = x.index_select(0, self.column).unsqueeze(1)
        return at_most(values, self.threshold).flatten()


class ComparedDecisions(Decisions):
    """The distinct splits of many rows, compared with their thresholds.

    Attributes
    ----------
    count : int
        Decisions in all, padding included.
    bytes_per_row : int
        Bytes of temporaries for a row.
    """

    def lay_out(
        self, column: npt.NDArray[np.int32], threshold: npt.NDArray[Any]
    ) -> npt.NDArray[np.int64]:
        """Keep segments of one column each."""
        place = super().lay_out(column, threshold)
        self.count = self.threshold.numel()
        self.bytes_per_row = threshold.dtype.itemsize * (len(self.column) + self.count) + self.count
        return place

    def forward(self, x: Tensor) -> Tensor:
        """Return 1 or 0 for each decision: int8 (decisions, n_rows) for x (columns, n_rows)."""
        values = x.index_select(0, self.column).unsqueeze(1)
        return at_most(values, self.threshold.unsqueeze(2)).flatten(0, 1).to(torch.int8)


class RankedDecisions(DistinctSplits):
    """The distinct splits of many rows, as compares of bytes.

    Attributes
    ----------
    count : int
        Decisions in all, padding included.
    bytes_per_row : int
        Bytes of temporaries for a row.
    """

    column: Tensor
    least_rank: Tensor

    def lay_out(
        self, column: npt.NDArray[np.int32], threshold: npt.NDArray[Any]
    ) -> npt.NDArray[np.int64]:
        """Keep ranks, and segments of one column of ranks each.

        ``x <= threshold`` holds where x has at least the threshold's number among those of its
        column, counted from the largest.
        """
        ranked, number = number_thresholds(column, threshold, MAX_RANK)
        self.ranks = Ranks(ranked, number, column, threshold, MAX_RANK, LEAST_BYTE, torch.int8)
        # Padding needs a rank that no value has, so it never holds.
        place, columns, table = _segments(ranked, number, MAX_RANK + 1)
        least = torch.tensor(table + LEAST_BYTE).to(torch.int8).unsqueeze(2)
        self.register_buffer("column", torch.tensor(columns, dtype=torch.int64))
        self.register_buffer("least_rank", least)
        self.count = table.size
        self.bytes_per_row = self.ranks.bytes_per_row + table.shape[0] + self.count
        return place

    def forward(self, x: Tensor) -> Tensor:
        """Return 1 or 0 for each decision: int8 (decisions, n_rows) for x (columns, n_rows)."""
        values = self.ranks(x).index_select(0, self.column).unsqueeze(1)
        return at_most(self.least_rank, values).flatten(0, 1)


def _segments(
    column: npt.NDArray[Any], threshold: npt.NDArray[Any], padding: float
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Lay splits, sorted by column, out in segments of one column each.

    Returns
    -------
    place : int array, shape (n_splits,)
        Position of each split in the flattened table.
    column : int array, shape (n_segments,)
    table : array, shape (n_segments, SEGMENT_SPLITS)
        Thresholds, padded.
    """
    turn = (np.arange(len(column)) - np.searchsorted(column, column)) % SEGMENT_SPLITS
    segment = np.cumsum(turn == 0) - 1
    table = np.full((segment[-1] + 1, SEGMENT_SPLITS), padding, threshold.dtype)
    table[segment, turn] = threshold
    return segment * SEGMENT_SPLITS + turn, column[turn == 0], table


def pad_trees(forest: Forest) -> list[npt.NDArray[np.int32]]:
    """Pad trees to perfect ones, and return the nodes of each level: (trees, 2**level).

    The right child of place i is at 2i, the left one at 2i + 1. A leaf is copied down.
    """
    levels = [forest.roots.data[:, None]]
    for _ in range(forest.depth):
        node = levels[-1]
        children = [
            np.where(node >= 0, side.data[np.maximum(node, 0)], node)
            for side in (forest.right, forest.left)
        ]
        levels.append(np.stack(children, axis=2).reshape(forest.n_trees, -1))
    return levels
