"""Strategy ``select`` as torch modules, for one row and for many.

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
    RankedDecisions,
    at_most,
)
from hbconv.trees.forest import Forest
from hbconv.trees.symmetric_forest import find_levels

__all__ = [
    "SelectManyRows",
    "SelectOneRow",
    "SymmetricManyRows",
    "SymmetricOneRow",
    "find_answers",
    "find_code_type",
]

MAX_INT_FLOAT32 = 2**24
"""Integers up to this are exact in float32."""


class SelectOneRow(nn.Module):
    """One row: the successor of every node is selected at once, then read once a level.

    A leaf is its own successor.
    """

    column: Tensor
    threshold: Tensor
    right: Tensor
    to_left: Tensor
    ends: Tensor
    roots: Tensor

    def __init__(
        self,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        make_output: MakeOutput,
    ) -> None:
        super().__init__()
        self.depth = forest.depth
        left, right, roots = (
            np.where(c.data >= 0, c.data, forest.n_tests + ~c.data)
            for c in (forest.left, forest.right, forest.roots)
        )
        n_nodes = forest.n_tests + forest.n_leaves
        numbers = np.float32 if n_nodes <= MAX_INT_FLOAT32 else np.float64
        leaves = np.arange(forest.n_leaves, dtype=np.int32)
        self.register_buffer("column", torch.tensor(column, dtype=torch.int64))
        self.register_buffer("threshold", torch.tensor(threshold))
        self.register_buffer("right", torch.tensor(right.astype(numbers)))
        self.register_buffer("to_left", torch.tensor((left - right).astype(numbers)))
        self.register_buffer("ends", torch.tensor(leaves + forest.n_tests))
        self.register_buffer("roots", torch.tensor(roots, dtype=torch.int32))
        self.output = make_output(np.concatenate([np.zeros(forest.n_tests, np.int32), leaves]))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for a row (columns,)."""
        left = at_most(x.index_select(0, self.column), self.threshold)
        left = left if left.dtype == self.right.dtype else left.to(self.right.dtype)
        # right + left * (left child - right child) is exact: float32 holds node numbers up to
        # 2**24.
        selected = torch.addcmul(self.right, left, self.to_left).to(torch.int32)
        successor = torch.cat([selected, self.ends])
        at = self.roots
        for _ in range(self.depth):
            at = successor.index_select(0, at)
        output: Tensor = self.output(at)
        return output


class SelectManyRows(nn.Module):
    """Many rows: leaf numbers selected from the deepest splits up to the roots.

    A leaf number counts within its tree, and is the narrowest integer that holds those of all
    trees.
    """

    start: Tensor
    roots: Tensor
    codes: Tensor

    def __init__(
        self,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        make_output: MakeOutput,
    ) -> None:
        super().__init__()
        self.decisions = RankedDecisions(column, threshold)
        self.depth = forest.depth
        most = int(np.diff(forest.first_leaf.data).max(initial=0))
        # Numbers from -128 on let int8 hold 256 leaves.
        self.dtype, least = (torch.int8, -128) if most <= 256 else (torch.int32, 0)
        place = np.zeros(forest.n_tests, np.int64)
        below = 0
        widest = 0
        for depth in reversed(range(forest.depth)):
            level = _Level(forest, depth, place, below)
            splits = self.decisions.find(level.splits)
            self.add_module(f"level_{depth}", SelectLevel(level, splits, least, self.dtype))
            place[level.splits] = np.arange(len(level.splits))
            below = len(level.splits)
            # Levels are computed one after another, so only the widest counts for memory.
            widest = max(widest, below)
        start = forest.first_leaf.data[:-1, None] - least
        codes = torch.arange(least, least + most).to(self.dtype).unsqueeze(1)
        roots = _read_at(forest, forest.roots.data, np.arange(forest.n_trees), place, below)
        self.register_buffer("start", torch.tensor(start, dtype=torch.int32))
        self.register_buffer("codes", codes)
        self.register_buffer("roots", torch.tensor(roots))
        self.output = make_output(np.arange(forest.n_leaves, dtype=np.int32))
        code_bytes = codes.element_size()
        self.bytes_per_row = (
            self.decisions.bytes_per_row + 5 * widest * code_bytes + 16 * forest.n_trees
        )

    def forward(self, x: Tensor, unbounded: bool = False) -> Tensor:  # noqa: ARG002
        """Return the output for x (columns, n_rows)."""
        decisions = self.decisions(x).to(self.dtype)
        codes = self.codes.expand(-1, x.shape[1])
        pool = codes
        for depth in reversed(range(self.depth)):
            pool = torch.cat([*self.get_submodule(f"level_{depth}")(decisions, pool), codes])
        output: Tensor = self.output(self.start + pool.index_select(0, self.roots))
        return output


class _Level:
    """The splits of a depth, those above other splits first.

    Attributes
    ----------
    above : int
        Number of splits above others.
    splits : int array, shape (n_splits,)
    left, right : int array, shape (above,)
        Positions in the pool of the numbers selected for their children.
    left_leaf, right_leaf : int array, shape (n_splits - above,)
        Leaf numbers below the other splits.
    """

    def __init__(
        self, forest: Forest, depth: int, place: npt.NDArray[np.int64], below: int
    ) -> None:
        splits = np.flatnonzero(forest.depth_of_tests == depth)
        over = (forest.left.data[splits] >= 0) | (forest.right.data[splits] >= 0)
        self.above = int(over.sum())
        self.splits = np.concatenate([splits[over], splits[~over]])
        tree = forest.tree_of_tests[self.splits]
        sides = [side.data[self.splits] for side in (forest.left, forest.right)]
        self.left, self.right = (
            _read_at(forest, side[: self.above], tree[: self.above], place, below) for side in sides
        )
        self.left_leaf, self.right_leaf = (
            (~side - forest.first_leaf.data[tree])[self.above :] for side in sides
        )


def _read_at(
    forest: Forest,
    child: npt.NDArray[np.int32],
    tree: npt.NDArray[Any],
    place: npt.NDArray[np.int64],
    below: int,
) -> npt.NDArray[np.int64]:
    """Return the position of each child's leaf number in the pool.

    The pool holds the numbers that the level below selected, then all numbers in order.
    """
    selected = place[np.maximum(child, 0)] if len(place) else 0
    leaf = below + ~child - forest.first_leaf.data[tree]
    return np.where(child >= 0, selected, leaf).astype(np.int64)


class SelectLevel(nn.Module):
    """The leaf numbers that the splits of a level select."""

    splits: Tensor
    left: Tensor
    right: Tensor
    leaf: Tensor
    to_left: Tensor

    def __init__(
        self, level: _Level, splits: npt.NDArray[np.int32], least: int, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.above = level.above
        leaf = torch.tensor(level.right_leaf[:, None] + least)
        to_left = torch.tensor((level.left_leaf - level.right_leaf)[:, None])
        self.register_buffer("splits", torch.tensor(splits, dtype=torch.int64))
        self.register_buffer("left", torch.tensor(level.left))
        self.register_buffer("right", torch.tensor(level.right))
        self.register_buffer("leaf", leaf.to(dtype))
        self.register_buffer("to_left", to_left.to(dtype))

    def forward(self, decisions: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
        """Select from the pool for splits above others, and between leaves for the rest."""
        left = decisions.index_select(0, self.splits)
        to_left = pool.index_select(0, self.left)
        to_right = pool.index_select(0, self.right)
        # Differences may wrap around in int8, and the sum wraps back: decisions are 0 or 1.
        above = torch.addcmul(to_right, left[: self.above], to_left.sub_(to_right))
        return above, left[self.above :].mul_(self.to_left).add_(self.leaf)


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
