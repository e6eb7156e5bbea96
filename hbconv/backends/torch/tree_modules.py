"""Trees on the CPU in torch's own terms: bytes with rows side by side for many rows, as few operators as can be for one.

What torch does fast decides the form. It compares several times as fast into the dtype it compares than into bools; it copies
whole rows of a matrix at the speed of memory, and picks single entries at a hundredth of it. So many rows stand side by side,
``(tests, rows)``: each distinct test is decided once, and the nodes of the trees copy their rows of decisions. For a single
row everything is a vector, and what counts is the number of operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hbconv.forest import Forest

__all__ = ["Answer", "Descent", "Next", "Select", "Walk"]

Answer = Callable[[npt.NDArray[np.int32]], nn.Module]
"""Makes what answers for the places that the trees reach, given the leaf of each place."""

_SEGMENT = 16
"""Tests of one column that are compared together."""
_TOP = 4
"""Levels whose tests are all selected from, above those that are walked."""


class Decisions(nn.Module):
    """Every distinct test of a forest, decided once.

    Attributes
    ----------
    of_test : array of int, shape (n_tests + 1,)
        Where each test of the forest finds its decision; at -1, one that never holds.
    """

    column: Tensor
    threshold: Tensor

    def __init__(self, column: npt.NDArray[np.int32], threshold: npt.NDArray[Any]) -> None:
        super().__init__()
        columns, thresholds = (
            np.append(column, 0),
            np.append(threshold, np.array(np.nan, threshold.dtype)),
        )
        order = np.lexsort((thresholds, columns))
        columns, thresholds = columns[order], thresholds[order]
        fresh = np.append(True, (np.diff(columns) != 0) | (thresholds[1:] != thresholds[:-1]))
        place, columns, table = _segments(columns[fresh], thresholds[fresh])
        self.of_test = np.empty(len(order), np.int32)
        self.of_test[order] = place[np.cumsum(fresh) - 1]
        self.register_buffer("column", torch.tensor(columns, dtype=torch.int64))
        self.register_buffer("threshold", torch.tensor(table))

    def find(self, nodes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Where each node finds its decision; a leaf one that never holds."""
        return self.of_test[np.where(nodes >= 0, nodes, -1)]

    def forward(self, x: Tensor) -> Tensor:
        """1 or 0 of x's dtype: (decisions, rows) for x (columns, rows), a vector for a single row (columns,)."""
        values = x.index_select(0, self.column).unsqueeze(1)
        return at_most(
            values, self.threshold.unsqueeze(2) if x.dim() == 2 else self.threshold
        ).flatten(0, 1)


def _segments(
    column: npt.NDArray[Any], threshold: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Lay tests, sorted by column, out in rows of one column each: the place of each test, the rows' columns and thresholds."""
    turn = (np.arange(len(column)) - np.searchsorted(column, column)) % _SEGMENT
    row = np.cumsum(turn == 0) - 1
    table = np.full((row[-1] + 1, _SEGMENT), np.nan, threshold.dtype)
    table[row, turn] = threshold
    return row * _SEGMENT + turn, column[turn == 0], table


def at_most(x: Tensor, threshold: Tensor) -> Tensor:
    """``x <= threshold`` in x's dtype, which torch computes several times as fast as bools."""
    return (
        (x <= threshold).to(x.dtype)
        if torch.compiler.is_compiling()
        else torch.le(x, threshold, out=x.new_empty(0))
    )


class Next(nn.Module):
    """One row: where it goes from every node, then one read a level. A leaf is its own next."""

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
        answer: Answer,
    ) -> None:
        super().__init__()
        self.depth = forest.depth
        left, right, roots = (
            np.where(c.data >= 0, c.data, forest.n_tests + ~c.data)
            for c in (forest.left, forest.right, forest.roots)
        )
        numbers = np.float32 if forest.n_tests + forest.n_leaves <= 2**24 else np.float64
        leaves = np.arange(forest.n_leaves, dtype=np.int32)
        self.register_buffer("column", torch.tensor(column, dtype=torch.int64))
        self.register_buffer("threshold", torch.tensor(threshold))
        self.register_buffer("right", torch.tensor(right.astype(numbers)))
        self.register_buffer("to_left", torch.tensor((left - right).astype(numbers)))
        self.register_buffer("ends", torch.tensor(leaves + forest.n_tests))
        self.register_buffer("roots", torch.tensor(roots, dtype=torch.int32))
        self.answer = answer(np.concatenate([np.zeros(forest.n_tests, np.int32), leaves]))

    def forward(self, x: Tensor) -> Tensor:
        """Answer for a row (columns,)."""
        left = at_most(x.index_select(0, self.column), self.threshold)
        left = left if left.dtype == self.right.dtype else left.to(self.right.dtype)
        following = torch.cat(
            [torch.addcmul(self.right, left, self.to_left).to(torch.int32), self.ends]
        )
        at = self.roots
        for _ in range(self.depth):
            at = following.index_select(0, at)
        answer: Tensor = self.answer(at)
        return answer


def _padded(forest: Forest) -> list[npt.NDArray[np.int32]]:
    """Pad trees to perfect ones: the nodes of each level, (trees, 2**level), the right child of place i at 2i, the left one at 2i + 1."""
    levels = [forest.roots.data[:, None]]
    for _ in range(forest.depth):
        node = levels[-1]
        children = [
            np.where(node >= 0, side.data[np.maximum(node, 0)], node)
            for side in (forest.right, forest.left)
        ]
        levels.append(np.stack(children, axis=2).reshape(forest.n_trees, -1))
    return levels


class Walk(nn.Module):
    """One row down padded trees, ``2 * at + left`` at each level."""

    start: Tensor

    def __init__(
        self,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        answer: Answer,
    ) -> None:
        super().__init__()
        self.decisions = Decisions(column, threshold)
        *levels, last = _padded(forest)
        for level, nodes in enumerate(levels):
            self.register_buffer(f"tests_{level}", torch.tensor(self.decisions.find(nodes).ravel()))
        self.register_buffer("start", 2 * torch.arange(forest.n_trees, dtype=torch.int32))
        self.depth, self.answer = forest.depth, answer(~last.ravel())

    def forward(self, x: Tensor) -> Tensor:
        """Answer for a row (columns,)."""
        left = self.decisions(x).to(torch.int32)
        at = left.index_select(0, self.tests_0) + self.start
        for level in range(1, self.depth):
            tests = self.get_buffer(f"tests_{level}").index_select(0, at)
            at = torch.add(left.index_select(0, tests), at, alpha=2)
        answer: Tensor = self.answer(at)
        return answer


class Descent(nn.Module):
    """Many rows: the top of padded trees by selection among all its tests, the levels below by walking."""

    top: Tensor
    path: Tensor
    first: Tensor

    def __init__(
        self,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        answer: Answer,
    ) -> None:
        super().__init__()
        self.decisions = Decisions(column, threshold)
        *levels, last = _padded(forest)
        self.n_trees, self.depth, self.n_top = forest.n_trees, forest.depth, min(_TOP, forest.depth)
        order = [np.zeros(1, np.int64)]
        for _ in range(self.n_top - 1):
            order.append(np.concatenate([2 * order[-1] + 1, 2 * order[-1]]))
        top = np.concatenate(
            [
                self.decisions.find(nodes)[:, places].T.ravel()
                for nodes, places in zip(levels, order, strict=False)
            ]
        )
        self.sizes = [len(places) * forest.n_trees for places in order]
        self.register_buffer("top", torch.tensor(top, dtype=torch.int64))
        self.register_buffer(
            "path", torch.tensor(np.repeat(2 * order[-1], forest.n_trees)[:, None].astype(np.int8))
        )
        self.register_buffer(
            "first", torch.arange(forest.n_trees, dtype=torch.int32).unsqueeze(1) << self.n_top
        )
        for level in range(self.n_top, forest.depth):
            self.register_buffer(
                f"tests_{level}", torch.tensor(self.decisions.find(levels[level]).ravel())
            )
        self.answer = answer(~last.ravel())
        self.bytes_per_row = (
            5 * self.decisions.threshold.numel() + 2 * len(top) + 16 * forest.n_trees
        )

    def forward(self, x: Tensor, whole: bool = False) -> Tensor:
        """Answer for x (columns, rows); ``whole`` where the rows may be very many."""
        decisions = self.decisions(x).to(torch.int8)
        levels = decisions.index_select(0, self.top).split(self.sizes)
        path = levels[-1] + self.path
        for left in reversed(levels[:-1]):
            to_left, to_right = path.chunk(2)
            path = torch.addcmul(to_right, left, to_left - to_right)
        at = self.first + path
        rows = torch.arange(x.shape[1], dtype=torch.int32, device=x.device)
        for level in range(self.n_top, self.depth):
            tests = (
                self.get_buffer(f"tests_{level}")
                .index_select(0, at.flatten())
                .view(self.n_trees, -1)
            )
            at = at.mul_(2).add_(_read(decisions, tests, rows, whole))
        answer: Tensor = self.answer(at)
        return answer


def _read(decisions: Tensor, tests: Tensor, rows: Tensor, whole: bool) -> Tensor:
    """Read the tests that each row is at: from one vector, whose places int32 can number unless all rows come whole."""
    if whole:
        return decisions.gather(0, tests.to(torch.int64))
    return (
        decisions.flatten()
        .index_select(0, tests.mul_(rows.shape[0]).add_(rows).flatten())
        .view(tests.shape)
    )


class Select(nn.Module):
    """Many rows: leaf numbers chosen from the deepest tests up to the roots, in the narrowest integers that hold a tree's."""

    start: Tensor
    roots: Tensor
    codes: Tensor

    def __init__(
        self,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        answer: Answer,
    ) -> None:
        super().__init__()
        self.decisions, self.depth = Decisions(column, threshold), forest.depth
        most = int(np.diff(forest.first_leaf.data).max(initial=0))
        self.dtype, least = (torch.int8, -128) if most <= 256 else (torch.int32, 0)
        place, below, widest = np.zeros(forest.n_tests, np.int64), 0, 0
        for depth in reversed(range(forest.depth)):
            level = _Level(forest, depth, place, below)
            self.add_module(
                f"level_{depth}", Chosen(level, self.decisions.find(level.tests), least, self.dtype)
            )
            place[level.tests], below = np.arange(len(level.tests)), len(level.tests)
            widest = max(widest, below)
        self.register_buffer(
            "start", torch.tensor(forest.first_leaf.data[:-1, None] - least, dtype=torch.int32)
        )
        self.register_buffer("codes", torch.arange(least, least + most).to(self.dtype).unsqueeze(1))
        self.register_buffer(
            "roots",
            torch.tensor(
                _read_at(forest, forest.roots.data, np.arange(forest.n_trees), place, below)
            ),
        )
        self.answer = answer(np.arange(forest.n_leaves, dtype=np.int32))
        self.bytes_per_row = (
            5 * self.decisions.threshold.numel()
            + 5 * widest * self.codes.element_size()
            + 16 * forest.n_trees
        )

    def forward(self, x: Tensor, whole: bool = False) -> Tensor:  # noqa: ARG002
        """Answer for x (columns, rows)."""
        decisions = self.decisions(x).to(self.dtype)
        codes = self.codes.expand(-1, x.shape[1])
        pool = codes
        for depth in reversed(range(self.depth)):
            pool = torch.cat([*self.get_submodule(f"level_{depth}")(decisions, pool), codes])
        answer: Tensor = self.answer(self.start + pool.index_select(0, self.roots))
        return answer


class _Level:
    """The tests of a depth, those above other tests first, and where these ``above`` find the numbers chosen for their children."""

    def __init__(
        self, forest: Forest, depth: int, place: npt.NDArray[np.int64], below: int
    ) -> None:
        tests = np.flatnonzero(forest.depth_of_tests == depth)
        over = (forest.left.data[tests] >= 0) | (forest.right.data[tests] >= 0)
        self.above, self.tests = int(over.sum()), np.concatenate([tests[over], tests[~over]])
        tree = forest.tree_of_tests[self.tests]
        sides = [side.data[self.tests] for side in (forest.left, forest.right)]
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
    """Where a child's leaf number stands: among those chosen by the level below, or behind them among all numbers."""
    return np.where(
        child >= 0,
        place[np.maximum(child, 0)] if len(place) else 0,
        below + ~child - forest.first_leaf.data[tree],
    ).astype(np.int64)


class Chosen(nn.Module):
    """The leaf numbers that the tests of a level choose."""

    tests: Tensor
    left: Tensor
    right: Tensor
    leaf: Tensor
    to_left: Tensor

    def __init__(
        self, level: _Level, tests: npt.NDArray[np.int32], least: int, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.above = level.above
        self.register_buffer("tests", torch.tensor(tests, dtype=torch.int64))
        self.register_buffer("left", torch.tensor(level.left))
        self.register_buffer("right", torch.tensor(level.right))
        self.register_buffer("leaf", torch.tensor(level.right_leaf[:, None] + least).to(dtype))
        self.register_buffer(
            "to_left", torch.tensor((level.left_leaf - level.right_leaf)[:, None]).to(dtype)
        )

    def forward(self, decisions: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
        """Choose from the pool for the tests above others, and between leaves for the rest."""
        left = decisions.index_select(0, self.tests)
        to_left, to_right = pool.index_select(0, self.left), pool.index_select(0, self.right)
        return torch.addcmul(to_right, left[: self.above], to_left.sub_(to_right)), left[
            self.above :
        ].mul_(self.to_left).add_(self.leaf)
