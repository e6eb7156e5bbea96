"""Decisions of all distinct splits of a forest, and trees padded to perfect ones.

What torch does fast decides the form. It compares into the dtype that it compares several times as
fast as into bools. It copies rows of a matrix at the speed of memory, and picks single entries at
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

from hbconv.forest import Forest

__all__ = ["Decisions", "MakeOutput", "at_most", "pad_trees"]

MakeOutput = Callable[[npt.NDArray[np.int32]], nn.Module]
"""Returns the module that maps the places reached to outputs, given the leaf at each place."""

SEGMENT_SPLITS = 16
"""Splits of one column that are compared together."""


class Decisions(nn.Module):
    """Every distinct split of a forest, decided once.

    Attributes
    ----------
    of_split : array of int, shape (n_splits + 1,)
        Position of each split's decision; at -1, that of one that never holds.
    """

    column: Tensor
    threshold: Tensor

    def __init__(self, column: npt.NDArray[np.int32], threshold: npt.NDArray[Any]) -> None:
        super().__init__()
        columns = np.append(column, 0)
        thresholds = np.append(threshold, np.array(np.nan, threshold.dtype))
        order = np.lexsort((thresholds, columns))
        columns = columns[order]
        thresholds = thresholds[order]
        fresh = np.append(True, (np.diff(columns) != 0) | (thresholds[1:] != thresholds[:-1]))
        place, columns, table = _segments(columns[fresh], thresholds[fresh])
        self.of_split = np.empty(len(order), np.int32)
        self.of_split[order] = place[np.cumsum(fresh) - 1]
        self.register_buffer("column", torch.tensor(columns, dtype=torch.int64))
        self.register_buffer("threshold", torch.tensor(table))

    def find(self, nodes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the position of each node's decision; a leaf's never holds."""
        return self.of_split[np.where(nodes >= 0, nodes, -1)]

    def forward(self, x: Tensor) -> Tensor:
        """Return 1 or 0 of x's dtype for each decision.

        (decisions, n_rows) for x (columns, n_rows), a vector for a single row (columns,).
        """
        values = x.index_select(0, self.column).unsqueeze(1)
        threshold = self.threshold.unsqueeze(2) if x.dim() == 2 else self.threshold
        return at_most(values, threshold).flatten(0, 1)


def _segments(
    column: npt.NDArray[Any], threshold: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Lay splits, sorted by column, out in segments of one column each.

    Returns
    -------
    place : int array, shape (n_splits,)
        Position of each split in the flattened table.
    column : int array, shape (n_segments,)
    table : array, shape (n_segments, SEGMENT_SPLITS)
        Thresholds, padded with NaN.
    """
    turn = (np.arange(len(column)) - np.searchsorted(column, column)) % SEGMENT_SPLITS
    segment = np.cumsum(turn == 0) - 1
    table = np.full((segment[-1] + 1, SEGMENT_SPLITS), np.nan, threshold.dtype)
    table[segment, turn] = threshold
    return segment * SEGMENT_SPLITS + turn, column[turn == 0], table


def at_most(x: Tensor, threshold: Tensor) -> Tensor:
    """Compute ``x <= threshold`` in x's dtype, several times as fast in torch as in bools."""
    if torch.compiler.is_compiling():
        return (x <= threshold).to(x.dtype)
    return torch.le(x, threshold, out=x.new_empty(0))


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
