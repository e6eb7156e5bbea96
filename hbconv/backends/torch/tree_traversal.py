"""Strategies that walk down trees as torch modules, for one row and for many.

``perfect_tree_traversal`` walks padded trees, whose places are numbers.

``tree_traversal`` leaves out rows that have reached a leaf, as few are at the deepest ones. So the
rows of all trees are one flat vector, which stops now and then to leave out those at a leaf. Values
become ranks among the thresholds of their columns. So a node is two integers: the least rank that
goes left, with the column below it, and the place of the right child. The left child comes next. A
leaf is its own child.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hbconv.backends.torch.jit import script
from hbconv.backends.torch.nearest import adds_on_cpu
from hbconv.backends.torch.tree_decisions import (
    Decisions,
    DistinctSplits,
    MakeOutput,
    RankedDecisions,
    Ranks,
    at_most,
    number_thresholds,
    pad_trees,
)
from hbconv.trees.forest import Forest

__all__ = ["TraverseManyRows", "TraverseOneRow", "WalkManyRows", "WalkOneRow", "expected_walks"]

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


COLUMN_BITS = 16
"""Low bits of a node that number the column. The 15 bits above them are a rank."""
WIDE_COLUMN_BITS = 32
"""The same where there are more columns: nodes are int64 then."""
MAX_WIDE_RANK = (1 << 15) - 2
"""Thresholds that one column of ranks distinguishes. No value has the next rank."""

STOP_SHARE = 0.6
"""A stop is made where this share of those who walked on from the last one is still to walk."""


class NodeSplits(DistinctSplits):
    """The splits as integers, and the values of rows as others: a split holds for no less."""

    def lay_out(
        self, column: npt.NDArray[np.int32], threshold: npt.NDArray[Any]
    ) -> npt.NDArray[np.int64]:
        """Keep the ranks of distinct splits; return the integer of each."""
        ranked, number = number_thresholds(column, threshold, MAX_WIDE_RANK)
        self.ranks = Ranks(ranked, number, column, threshold, MAX_WIDE_RANK, 0, torch.int32)
        self.width = int(ranked.max()) + 1
        is_wide = self.width > 1 << COLUMN_BITS
        self.column_bits = WIDE_COLUMN_BITS if is_wide else COLUMN_BITS
        self.last_column = (1 << self.column_bits) - 1
        self.dtype = torch.int64 if is_wide else torch.int32
        self.bytes_per_row = self.ranks.bytes_per_row + 12 * self.width
        return (number << self.column_bits) | ranked

    def forward(self, x: Tensor) -> Tensor:
        """Return the integers of values: (n_rows, ranked columns) for x (columns, n_rows)."""
        ranks = self.ranks(x).to(self.dtype).bitwise_left_shift_(self.column_bits)
        # All ones in the low bits, so that an equal rank holds whatever column the node names.
        values: Tensor = ranks.bitwise_or_(self.last_column).t().contiguous()
        return values


class WalkManyRows(nn.Module):
    """Many rows, in all trees at once."""

    nodes: Tensor
    child: Tensor

    def __init__(
        self,
        forest: Forest,
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
        make_output: MakeOutput,
    ) -> None:
        super().__init__()
        self.splits = NodeSplits(column, threshold)
        self.n_trees = forest.n_trees
        self.depth = forest.depth
        self.stops = _stops(expected_walks(forest))
        below = np.stack([forest.right.data, forest.left.data], axis=1)
        places = np.concatenate([forest.roots.data, below.ravel()])
        child = np.where(places >= 0, forest.n_trees + 2 * places, np.arange(len(places)))
        self.register_buffer("nodes", torch.tensor(self.splits.find(places)))
        self.register_buffer("child", torch.tensor(child, dtype=torch.int32))
        self.output = make_output(np.where(places >= 0, 0, ~places).astype(np.int32))
        self.bytes_per_row = self.splits.bytes_per_row + BYTES_PER_WALK * forest.n_trees

    def forward(self, x: Tensor, unbounded: bool = False) -> Tensor:
        """Return the output for x (columns, n_rows); ``unbounded`` allows any number of rows."""
        values = self.splits(x).flatten()
        # Rows come in chunks whose places int32 numbers, unless a trace leaves their number open.
        kind = torch.int64 if unbounded else torch.int32
        first = torch.arange(x.shape[1], dtype=kind, device=x.device) * self.splits.width
        roots = self.nodes[: self.n_trees].unsqueeze(1)
        last_column = self.splits.last_column
        read = (roots & last_column) + first
        # A node's integer is at most a value's exactly where its rank is.
        left = at_most(roots, values.index_select(0, read.flatten()).view(read.shape))
        at = left.add_(self.child[: self.n_trees].unsqueeze(1)).flatten()
        first = first.expand(self.n_trees, -1).flatten()
        walk = _walk_all if unbounded or not adds_on_cpu(values) else _chosen_walk()
        at = walk(self.nodes, self.child, values, first, at, last_column, self.depth, self.stops)
        output: Tensor = self.output(at.view(self.n_trees, x.shape[1]))
        return output


class WalkOneRow(WalkManyRows):
    """One row, in all trees at once."""

    def forward(self, x: Tensor, unbounded: bool = False) -> Tensor:
        """Return the output for a row (columns,)."""
        return super().forward(x.unsqueeze(1), unbounded)


BYTES_PER_WALK = 32
"""Bytes of temporaries for a row in a tree."""


def expected_walks(forest: Forest) -> npt.NDArray[np.float64]:
    """Return how many trees a row still walks in at each depth.

    Of a row that turns to each side alike, and of one that ends at each leaf alike, it is the mean:
    trees that grow leaf by leaf send most rows far down, and others do not.
    """
    depth = forest.depth_of_tests
    alike = np.bincount(depth, np.exp2(-depth.astype(np.float64)))
    leaves = sum((side.data < 0).astype(np.int64) for side in (forest.left, forest.right))
    ends = np.bincount(depth, leaves)
    farther = forest.n_trees * np.cumsum(ends[::-1])[::-1] / ends.sum()
    walks: npt.NDArray[np.float64] = (alike + farther) / 2
    return walks


def _stops(walks: npt.NDArray[np.float64]) -> list[int]:
    """Return the depths at which those who have arrived leave."""
    stops = []
    last = walks[0]
    for depth, walking in enumerate(walks):
        if walking <= STOP_SHARE * last:
            stops.append(depth)
            last = walking
    return stops


def _chosen_walk() -> Any:
    """Return the walk with stops, which only the CPU takes: to look at the rows stops a device."""
    traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return _script_walk() if traced else _walk


def _step(
    nodes: Tensor, child: Tensor, values: Tensor, first: Tensor, at: Tensor, last_column: int
) -> Tensor:
    """Go down one level."""
    node = nodes.index_select(0, at)
    value = values.index_select(0, (node & last_column) + first)
    return child.index_select(0, at).add_(at_most(node, value))


def _walk_all(
    nodes: Tensor,
    child: Tensor,
    values: Tensor,
    first: Tensor,
    at: Tensor,
    last_column: int,
    depth: int,
    stops: list[int],  # noqa: ARG001
) -> Tensor:
    """Walk from the children of the roots to the leaves, all as far as the farthest."""
    for _ in range(1, depth):
        at = _step(nodes, child, values, first, at, last_column)
    return at


def _walk(
    nodes: Tensor,
    child: Tensor,
    values: Tensor,
    first: Tensor,
    at: Tensor,
    last_column: int,
    depth: int,
    stops: list[int],
) -> Tensor:
    """Walk from the children of the roots to the leaves.

    At a stop, those whose last step led nowhere stay behind, and the others walk on. At the end
    each group tells the one before where it has arrived.
    """
    groups: list[Tensor] = []
    walking: list[Tensor] = []
    for level in range(1, depth):
        before = at
        at = _step(nodes, child, values, first, before, last_column)
        if level in stops:
            walks = at != before
            count = int(torch.count_nonzero(walks))
            if count == 0:
                break
            # Fewer than a quarter who leave are not worth the copies of those who walk on; not
            # measured.
            if 4 * count < 3 * at.shape[0]:
                on = torch.nonzero(walks).view(-1)
                groups.append(at)
                walking.append(on)
                first = first.index_select(0, on)
                at = at.index_select(0, on)
    # TorchScript's zip has no strict=.
    for group, on in zip(groups[::-1], walking[::-1]):  # noqa: B905
        at = group.scatter_(0, on, at)
    return at


@cache
def _script_walk() -> Any:
    """Return the walk with its stops, which a trace keeps."""
    return script(_walk)
