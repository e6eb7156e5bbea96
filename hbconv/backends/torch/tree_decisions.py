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

from hbconv.backends.torch.tree_ranks import (
    LEAST_BYTE,
    MAX_RANK,
    Ranks,
    at_most,
    number_thresholds,
)
from hbconv.trees.forest import Forest

__all__ = [
    "Decisions",
    "DistinctSplits",
    "MakeOutput",
    "RankedDecisions",
    "pad_trees",
]

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
