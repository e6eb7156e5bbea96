"""Strategy ``perfect_tree_traversal`` as torch modules, for one row and for many."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hbconv.backends.torch.tree_decisions import Decisions, MakeOutput, RankedDecisions, pad_trees
from hbconv.trees.forest import Forest

__all__ = ["TraverseManyRows", "TraverseOneRow"]

TOP_LEVELS = 4
"""Levels decided by selection among all their splits, above those that are walked."""


class TraverseOneRow(nn.Module):
    """One row down padded trees: the next place is ``2 * at + left``."""

    start: Tensor

    def __init__(
        self,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        make_output: MakeOutput,
    ) -> None:
        super().__init__()
        self.decisions = Decisions(column, threshold)
        *levels, last = pad_trees(forest)
        for level, nodes in enumerate(levels):
            splits = torch.tensor(self.decisions.find(nodes).ravel())
            self.register_buffer(f"splits_{level}", splits)
        self.register_buffer("start", 2 * torch.arange(forest.n_trees, dtype=torch.int32))
        self.depth = forest.depth
        self.output = make_output(~last.ravel())

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for a row (columns,)."""
        left = self.decisions(x).to(torch.int32)
        at = left.index_select(0, self.splits_0) + self.start
        for level in range(1, self.depth):
            splits = self.get_buffer(f"splits_{level}").index_select(0, at)
            at = torch.add(left.index_select(0, splits), at, alpha=2)
        output: Tensor = self.output(at)
        return output


class TraverseManyRows(nn.Module):
    """Many rows down padded trees: the top levels by selection, the levels below by walking.

    Selection combines all splits of the top levels, from the lowest of them up to the roots.
    """

    top: Tensor
    path: Tensor
    first: Tensor

    def __init__(
        self,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        make_output: MakeOutput,
    ) -> None:
        super().__init__()
        self.decisions = RankedDecisions(column, threshold)
        *levels, last = pad_trees(forest)
        self.n_trees = forest.n_trees
        self.depth = forest.depth
        self.n_top = min(TOP_LEVELS, forest.depth)
        order = _orders(self.n_top)
        top = [
            self.decisions.find(nodes)[:, places].T.ravel()
            for nodes, places in zip(levels, order, strict=False)
        ]
        # int8 holds the places of the top levels, of which there are 16 at most.
        path = np.repeat(2 * order[-1], forest.n_trees)[:, None].astype(np.int8)
        # So many places of a tree come before those of the next, on the first level that is walked.
        first = torch.arange(forest.n_trees, dtype=torch.int32).unsqueeze(1) << self.n_top
        self.sizes = [len(places) * forest.n_trees for places in order]
        self.register_buffer("top", torch.tensor(np.concatenate(top), dtype=torch.int64))
        self.register_buffer("path", torch.tensor(path))
        self.register_buffer("first", first)
        for level in range(self.n_top, forest.depth):
            splits = torch.tensor(self.decisions.find(levels[level]).ravel())
            self.register_buffer(f"splits_{level}", splits)
        self.output = make_output(~last.ravel())
        self.bytes_per_row = self.decisions.bytes_per_row + 2 * len(self.top) + 16 * forest.n_trees

    def forward(self, x: Tensor, unbounded: bool = False) -> Tensor:
        """Return the output for x (columns, n_rows); ``unbounded`` allows any number of rows."""
        decisions = self.decisions(x)
        levels = decisions.index_select(0, self.top).split(self.sizes)
        path = levels[-1] + self.path
        for left in reversed(levels[:-1]):
            to_left, to_right = path.chunk(2)
            path = torch.addcmul(to_right, left, to_left - to_right)
        at = self.first + path
        rows = torch.arange(x.shape[1], dtype=torch.int32, device=x.device)
        for level in range(self.n_top, self.depth):
            table = self.get_buffer(f"splits_{level}")
            splits = table.index_select(0, at.flatten()).view(self.n_trees, -1)
            at = at.mul_(2).add_(_read(decisions, splits, rows, unbounded))
        output: Tensor = self.output(at)
        return output


def _orders(n_levels: int) -> list[npt.NDArray[np.int64]]:
    """Return the order of each level's places: all left children, then all right ones."""
    order = [np.zeros(1, np.int64)]
    for _ in range(n_levels - 1):
        order.append(np.concatenate([2 * order[-1] + 1, 2 * order[-1]]))
    return order


def _read(decisions: Tensor, splits: Tensor, rows: Tensor, unbounded: bool) -> Tensor:
    """Read the decisions of the splits that each row is at.

    One flat vector is fastest, but int32 can number its places for a bounded number of rows only.
    """
    if unbounded:
        return decisions.gather(0, splits.to(torch.int64))
    places = splits.mul_(rows.shape[0]).add_(rows).flatten()
    return decisions.flatten().index_select(0, places).view(splits.shape)
