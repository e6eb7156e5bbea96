"""A forest as a torch module: prepared columns, trees for one row or many, sums in order.

``count_tree_work`` counts what these modules do, as the cost model prices it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hbconv.backends.torch.nearest import add_in_turn, adds_on_cpu
from hbconv.backends.torch.tree_decisions import SEGMENT_SPLITS
from hbconv.backends.torch.tree_select import (
    SelectManyRows,
    SelectOneRow,
    SymmetricManyRows,
    SymmetricOneRow,
    find_answers,
    find_code_type,
)
from hbconv.backends.torch.tree_traversal import (
    BYTES_PER_WALK,
    TOP_LEVELS,
    TraverseManyRows,
    TraverseOneRow,
    WalkManyRows,
    WalkOneRow,
    expected_walks,
)
from hbconv.cost_model import Work
from hbconv.target import Target
from hbconv.trees.forest import Forest

__all__ = ["NATIVE", "ForestModule", "count_tree_work"]

NATIVE: dict[str, tuple[Any, Any]] = {
    "select": (SelectOneRow, SelectManyRows),
    "perfect_tree_traversal": (TraverseOneRow, TraverseManyRows),
    "tree_traversal": (WalkOneRow, WalkManyRows),
}
"""The modules of each strategy: for one row, and for many."""


class LeafNumbers(nn.Module):
    """The leaf that each tree reaches: (n_rows, trees)."""

    numbers: Tensor

    def __init__(self, leaves: npt.NDArray[np.int32]) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.tensor(leaves, dtype=torch.int64))

    def forward(self, at: Tensor) -> Tensor:
        """Look up places: (trees,) for one row, or (trees, n_rows)."""
        numbers = self.numbers.index_select(0, at.flatten())
        return numbers.unsqueeze(0) if at.dim() == 1 else numbers.view(at.shape).t().contiguous()


MAX_SEPARATE_VALUES = 8
"""Values of a leaf up to which each has a table of its own.

To read a number takes a tenth of the time of reading a short row.
"""


class ScoreSums(nn.Module):
    """The leaf values added to the outputs, tree after tree, from the start: (n_rows, outputs)."""

    values: Tensor
    start: Tensor
    target: Tensor

    def __init__(self, forest: Forest, leaves: npt.NDArray[np.int32]) -> None:
        super().__init__()
        self.width = forest.values.shape[1]
        self.trees = np.bincount(forest.target.data, minlength=forest.n_outputs).tolist()
        self.separate = 1 < self.width <= MAX_SEPARATE_VALUES
        values = forest.values.data[leaves]
        values = values.T.copy() if self.width <= MAX_SEPARATE_VALUES else values
        self.register_buffer("values", torch.tensor(values[0] if self.width == 1 else values))
        self.register_buffer("start", torch.tensor(forest.start.data))
        self.register_buffer("target", torch.tensor(forest.target.data, dtype=torch.int64))

    def forward(self, at: Tensor) -> Tensor:
        """Add up at places: (trees,) for one row, or (trees, n_rows).

        ``index_add`` on the CPU adds one term after another. Devices would add in any order.
        """
        places = at.flatten()
        if self.separate and adds_on_cpu(self.values):
            return self._add_each(
                at, [each.index_select(0, places) for each in self.values.unbind()]
            )
        terms = self._terms(places)
        if not adds_on_cpu(terms):
            rows = at.shape[1] if at.dim() == 2 else 1
            return self._add_on_device(terms.view(at.shape[0], rows * self.width))
        if self.width > 1:
            return self._add_vectors(at, terms)
        if at.dim() == 1:
            return self.start.index_add(0, self.target, terms).unsqueeze(0)
        start = self.start.unsqueeze(1).repeat(1, at.shape[1])
        return start.index_add_(0, self.target, terms.view(at.shape)).t()

    def _terms(self, places: Tensor) -> Tensor:
        """Read the leaves: (places,), or (places, values)."""
        if self.separate:
            return self.values.index_select(1, places).t().contiguous()
        return self.values.index_select(0, places)

    def _add_on_device(self, terms: Tensor) -> Tensor:
        """Add up terms (trees, n_rows * values), the trees of each output in turn."""
        if self.width > 1:
            start = self.start.repeat(terms.shape[1] // self.width)
            return add_in_turn(torch.cat([start.unsqueeze(0), terms])).view(-1, self.width)
        # Stable: the trees of an output keep their order, and so its sum keeps its last bits.
        terms_of_outputs = torch.split(
            terms.index_select(0, self.target.argsort(stable=True)), self.trees
        )
        first = torch.split(self.start.unsqueeze(1).expand(-1, terms.shape[1]), 1)
        sums = [
            add_in_turn(torch.cat(parts)) for parts in zip(first, terms_of_outputs, strict=True)
        ]
        return torch.stack(sums, 1)

    def _add_each(self, at: Tensor, terms: list[Tensor]) -> Tensor:
        """Add up the terms of each output."""
        rows = at.shape[1] if at.dim() == 2 else 1
        # index_add at index 0 adds one row of terms after another, on the CPU.
        first = torch.zeros_like(self.target)
        starts = torch.split(self.start.unsqueeze(1).expand(-1, rows), 1)
        sums = [
            start.index_add(0, first, each.view(at.shape[0], rows))
            for start, each in zip(starts, terms, strict=True)
        ]
        return torch.cat(sums).t()

    def _add_vectors(self, at: Tensor, terms: Tensor) -> Tensor:
        """Add up leaves of one value for each output."""
        rows = at.shape[1] if at.dim() == 2 else 1
        start = self.start.repeat(rows).unsqueeze(0)
        terms = terms.view(at.shape[0], start.shape[1])
        total = start.index_add_(0, torch.zeros_like(self.target), terms)
        return total.view(rows, self.width)


class PreparedTrees(nn.Module):
    """Trees behind the module that prepares the columns of their splits, if they need one."""

    def __init__(self, columns: nn.Module | None, trees: nn.Module) -> None:
        super().__init__()
        self.columns = columns
        self.trees = trees


class OneRow(PreparedTrees):
    """A single row, as a vector."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for x (1, columns)."""
        output: Tensor = self.trees((self.columns(x) if self.columns else x).flatten())
        return output


class ManyRows(PreparedTrees):
    """Rows side by side."""

    def forward(self, x: Tensor, unbounded: bool = False) -> Tensor:
        """Return the output for x (n_rows, columns); ``unbounded`` allows any number of rows."""
        prepared = self.columns(x) if self.columns else x
        output: Tensor = self.trees(prepared.t().contiguous(), unbounded)
        return output


class ForestModule(nn.Module):
    """The sums of a forest, or its leaves. One row has a module of its own; many come in chunks.

    Parameters
    ----------
    forest : Forest
    strategy : str
        One of NATIVE.
    scores : bool
        Sums, rather than leaves.
    columns : nn.Module or None
        Prepares the columns that the splits read.
    column, threshold : array, shape (n_splits,)
        The splits over them: a row goes left where ``x[column] <= threshold``.
    """

    def __init__(
        self,
        forest: Forest,
        strategy: str,
        scores: bool,
        columns: nn.Module | None,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
    ) -> None:
        super().__init__()
        one, many = _find_modules(forest, strategy)
        make_output = partial(ScoreSums, forest) if scores else LeafNumbers
        trees = many(forest, column, threshold, make_output)
        self.one = OneRow(columns, one(forest, column, threshold, make_output))
        self.many = ManyRows(columns, trees)
        self.rows = Target().rows_at_once(trees.bytes_per_row)
        self.rows_on_device = Target(device="cuda").rows_at_once(trees.bytes_per_row)
        self.width = forest.n_features
        self.dtype = getattr(torch, threshold.dtype.name)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for x (n_rows, columns).

        A tracer or compiler sees one module that takes any number of rows.
        """
        # at_most writes into memory that it is given, which autograd does not allow.
        x = x.detach() if x.requires_grad else x
        output: Tensor
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            output = self.many(x, True)
        elif len(x) == 1:
            output = self.one(x)
        else:
            chunks = torch.split(x, self.rows if x.is_cpu else self.rows_on_device)
            outputs = [self.many(chunk) for chunk in chunks]
            output = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        return output

    def example(self) -> Tensor:
        """Return two rows, for a tracer."""
        return torch.zeros(2, self.width, dtype=self.dtype, device=next(self.buffers()).device)


def _find_modules(forest: Forest, strategy: str) -> tuple[Any, Any]:
    """Return what makes the module for one row, and for many."""
    # The others read the splits of a first level, which single leaves lack.
    strategy = strategy if forest.n_tests else "select"
    levels = find_answers(forest) if strategy == "select" else None
    if levels is None:
        return NATIVE[strategy]
    return partial(SymmetricOneRow, levels), partial(SymmetricManyRows, levels)


WORD_BYTES = 4
PLACE_BYTES = 8
"""Bytes of a position that torch reads at."""
NARROW_LEAVES = 256
"""Leaves of a tree that a byte can number."""


def count_tree_work(strategy: str, forest: Forest, dtype: str, rows: int) -> Work:
    """Count the work of a module of ``torch.forest``, for one row or for many.

    Elementwise words are decisions, takes are bytes of codes copied and selected, and visits are
    steps at computed positions.
    """
    if not forest.n_tests:
        return Work(operators=4, sums=forest.n_trees)
    if strategy == "select" and find_answers(forest) is not None:
        return _answer_one(forest, dtype) if rows == 1 else _answer_many(forest, dtype)
    if strategy == "select":
        return _select_one(forest, dtype) if rows == 1 else _select_many(forest, dtype)
    if strategy == "tree_traversal":
        return _walk_nodes(forest, dtype)
    return _walk_one(forest, dtype) if rows == 1 else _walk_many(forest, dtype)


def _words(dtype: str) -> float:
    return np.dtype(dtype).itemsize / WORD_BYTES


def _count_decided(forest: Forest, dtype: str) -> int:
    """Count the distinct splits, a column at a time filled up to whole segments."""
    segments = -(-forest.count_thresholds(dtype) // SEGMENT_SPLITS)
    return int(segments.sum()) * SEGMENT_SPLITS


def _sums(forest: Forest) -> int:
    return forest.n_trees * forest.values.shape[1]


def _select_one(forest: Forest, dtype: str) -> Work:
    """Decide all splits, then read the successor once a level."""
    return Work(
        operators=12 + forest.depth,
        elementwise=4 * forest.n_tests + forest.n_tests * _words(dtype),
        visits=forest.n_trees * forest.depth,
        tables=4 * (3 * forest.n_tests + 2 * forest.n_leaves),
        sums=_sums(forest),
    )


def _select_many(forest: Forest, dtype: str) -> Work:
    """Decide the distinct splits, and select leaf codes level by level."""
    widest = int(np.bincount(forest.depth_of_tests).max())
    largest = int(np.diff(forest.first_leaf.data).max())
    code = 1 if largest <= NARROW_LEAVES else WORD_BYTES
    decided = _count_decided(forest, dtype)
    return Work(
        operators=30 + 9 * forest.depth,
        elementwise=decided * _words(dtype),
        takes=code * (forest.n_tests + forest.depth * largest),
        tables=8 * forest.n_leaves,
        temporaries=5 * decided + 5 * widest * code + 16 * forest.n_trees,
        columns=forest.n_features * _words(dtype),
        sums=_sums(forest),
    )


def _answer_one(forest: Forest, dtype: str) -> Work:
    """Decide the distinct splits, and read the answers of all levels at once."""
    return Work(
        operators=16,
        elementwise=_count_decided(forest, dtype) * _words(dtype),
        visits=forest.n_trees * forest.depth,
        tables=PLACE_BYTES * (forest.n_trees << forest.depth),
        sums=_sums(forest),
    )


def _answer_many(forest: Forest, dtype: str) -> Work:
    """Decide the distinct splits, and add an answer a level to the places of the leaves."""
    code = find_code_type(forest.depth).itemsize
    decided = _count_decided(forest, dtype)
    return Work(
        operators=30 + 2 * forest.depth,
        elementwise=decided * _words(dtype),
        takes=2 * code * forest.n_trees * forest.depth,
        tables=PLACE_BYTES * (forest.n_trees << forest.depth),
        temporaries=5 * decided + (2 * code + 12) * forest.n_trees,
        columns=forest.n_features * _words(dtype),
        sums=_sums(forest),
    )


def _walk_one(forest: Forest, dtype: str) -> Work:
    """Decide the distinct splits, and read two tables a level."""
    return Work(
        operators=10 + 4 * forest.depth,
        elementwise=_count_decided(forest, dtype) * _words(dtype),
        visits=forest.n_trees * forest.depth,
        tables=PLACE_BYTES * (forest.n_trees << forest.depth),
        sums=_sums(forest),
    )


def _walk_many(forest: Forest, dtype: str) -> Work:
    """Decide the distinct splits, select down the top levels, and step down those below."""
    top = min(TOP_LEVELS, forest.depth)
    copied = forest.n_trees * ((1 << top) - 1)
    decided = _count_decided(forest, dtype)
    return Work(
        operators=30 + 3 * top + 6 * (forest.depth - top),
        elementwise=decided * _words(dtype),
        takes=copied,
        visits=forest.n_trees * (forest.depth - top),
        tables=PLACE_BYTES * (forest.n_trees << forest.depth),
        temporaries=5 * decided + 2 * copied + 16 * forest.n_trees,
        columns=forest.n_features * _words(dtype),
        sums=_sums(forest),
    )


def _walk_nodes(forest: Forest, dtype: str) -> Work:
    """Rank the columns, and step down until the leaf is reached."""
    thresholds = forest.count_thresholds(dtype)
    searched = np.ceil(np.log2(1 + thresholds)).sum()
    return Work(
        operators=40 + 9 * forest.depth,
        elementwise=float(searched) * _words(dtype),
        visits=float(expected_walks(forest).sum()),
        tables=2 * WORD_BYTES * 2 * forest.n_tests,
        temporaries=BYTES_PER_WALK * forest.n_trees,
        columns=forest.n_features * _words(dtype),
        sums=_sums(forest),
    )
