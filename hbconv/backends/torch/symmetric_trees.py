"""Strategy ``select`` of symmetric trees as torch modules, for one row and for many.

A symmetric tree asks one split on each level, so its answers are the bits of the leaf's place. A
tree of depth 6 has 63 splits to select by, and 6 answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hbconv.backends.torch.tree_decisions import (
    ComparedDecisions,
    Decisions,
    DistinctSplits,
    MakeOutput,
)
from hbconv.trees.forest import Forest
from hbconv.trees.symmetric_forest import find_levels

__all__ = ["SymmetricManyRows", "SymmetricOneRow", "find_answers", "find_code_type"]

MAX_PADDING = 4
"""Places for each leaf: a tree has as many as the deepest has leaves."""

_Levels = npt.NDArray[np.int64]


def find_answers(forest: Forest) -> _Levels | None:
    """Return a split of each level of each tree: (depth, n_trees), -1 below the last level.

    None where a tree is not symmetric, or where trees are too unlike in depth.
    """
    if forest.n_trees << forest.depth > MAX_PADDING * forest.n_leaves:
        return None
    return find_levels(forest)


def find_code_type(depth: int) -> torch.dtype:
    """Return the narrowest signed integers whose bits hold the answers of so many levels.

    Torch converts floats to int8 seven times as fast as to uint8.
    """
    if depth <= 7:
        return torch.int8
    return torch.int16 if depth <= 15 else torch.int32


class SymmetricManyRows(nn.Module):
    """Many rows: the answers to a level of all trees are added to twice the places so far.

    Parameters
    ----------
    levels : int array, shape (depth, n_trees)
        As ``find_answers`` returns them.
    forest : Forest
    column, threshold : array, shape (n_splits,)
    make_output : callable
    """

    levels: Tensor
    first: Tensor

    def __init__(
        self,
        levels: _Levels,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        make_output: MakeOutput,
    ) -> None:
        super().__init__()
        self.decisions = ComparedDecisions(column, threshold)
        self.dtype = find_code_type(forest.depth)
        self.register_buffer("levels", _find_decisions(self.decisions, levels))
        self.register_buffer("first", _first_places(levels).unsqueeze(1))
        self.output = make_output(_leaves(forest, levels))
        code_bytes = 2 * self.dtype.itemsize
        self.bytes_per_row = self.decisions.bytes_per_row + (code_bytes + 12) * forest.n_trees

    def forward(self, x: Tensor, unbounded: bool = False) -> Tensor:  # noqa: ARG002
        """Return the output for x (columns, n_rows)."""
        decisions = self.decisions(x).to(self.dtype)
        levels = self.levels.unbind()
        place = decisions.index_select(0, levels[0])
        for level in levels[1:]:
            place = decisions.index_select(0, level).add_(place, alpha=2)
        output: Tensor = self.output(place.to(torch.int32).add_(self.first))
        return output


class SymmetricOneRow(nn.Module):
    """One row: the answers of all levels are read at once, and each weighs as its bit does."""

    levels: Tensor
    weights: Tensor
    first: Tensor

    def __init__(
        self,
        levels: _Levels,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        make_output: MakeOutput,
    ) -> None:
        super().__init__()
        self.decisions = Decisions(column, threshold)
        weights = np.exp2(np.arange(forest.depth)[::-1, None]).astype(threshold.dtype)
        answers = _find_decisions(self.decisions, levels)
        self.shape = answers.shape
        self.register_buffer("levels", answers.flatten())
        self.register_buffer("weights", torch.tensor(weights))
        self.register_buffer("first", _first_places(levels))
        self.output = make_output(_leaves(forest, levels))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for a row (columns,)."""
        answers = self.decisions(x).index_select(0, self.levels).view(self.shape)
        # Sums of bits are exact in any order.
        place = answers.mul_(self.weights).sum(0).to(torch.int32)
        output: Tensor = self.output(place.add_(self.first))
        return output


def _find_decisions(decisions: DistinctSplits, levels: _Levels) -> Tensor:
    """Return the position of each level's decision: (depth, n_trees)."""
    return torch.tensor(decisions.find(levels.astype(np.int32)), dtype=torch.int64)


def _first_places(levels: _Levels) -> Tensor:
    """Return the place of each tree where all answers are zeros."""
    depth, n_trees = levels.shape
    return torch.arange(n_trees, dtype=torch.int32).bitwise_left_shift(depth)


def _leaves(forest: Forest, levels: _Levels) -> npt.NDArray[np.int32]:
    """Return the leaf at each place: a row goes left at an answer of one.

    Answers below the last level of a tree are zeros.
    """
    places = 1 << len(levels)
    sizes = np.diff(forest.first_leaf.data)[:, None]
    from_last = np.arange(places) // (places // sizes)
    leaves: npt.NDArray[np.int64] = forest.first_leaf.data[:-1, None] + sizes - 1 - from_last
    return leaves.ravel().astype(np.int32)
