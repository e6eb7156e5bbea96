"""The order in which kernels read trees: those of an output, their nodes, and chunks of them.

A chunk is a run of trees that read no more columns than a block has room for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.trees.forest import Forest

__all__ = [
    "ColumnChunks",
    "Nodes",
    "TreeOrder",
    "chunk_columns",
    "order_nodes",
    "order_trees",
    "tables_of_values",
]

NAMES = {"float32": "float", "float64": "double", "int32": "int"}
"""Names of dtypes in the kernels."""


@dataclass(frozen=True, eq=False)
class TreeOrder:
    """The trees of one output after those of another, each output's in their own order.

    So a kernel keeps one sum. Leaves of vectors, and leaf numbers, have one output here.

    Parameters
    ----------
    number : int32 (n_trees,)
        The trees, as the forest counts them.
    of_output : int32 (n_outputs + 1,)
        First tree of each output.
    values : float or int32 (n_leaves,)
        What is added for a leaf; its number, where leaves are asked for.
    start : array (n_outputs,)
        Of the same dtype.
    apart : bool
        Each tree's value is asked for, not their sums. Then a slice of the trees takes the place
        of an output, and blocks side by side take one each.
    """

    number: npt.NDArray[np.int32]
    of_output: npt.NDArray[np.int32]
    values: npt.NDArray[Any]
    start: npt.NDArray[Any]
    apart: bool

    @property
    def outputs(self) -> int:
        """Number of sums, or of slices."""
        return len(self.of_output) - 1

    @property
    def slices(self) -> int:
        """Number of blocks that share the trees of a row."""
        return self.outputs if self.apart else 1

    @property
    def constants(self) -> tuple[tuple[str, str | int], ...]:
        """Macros of the kernels."""
        return ("SUM", NAMES[self.values.dtype.name]), ("TERMS", int(self.apart))

    @property
    def words(self) -> int:
        """Words of a value."""
        return self.values.dtype.itemsize // 4

    def tables(self) -> dict[str, npt.NDArray[Any]]:
        """Return the tables that every kernel reads."""
        return {"of_output": self.of_output, "start": self.start}

    def slice_trees(self, slices: int) -> TreeOrder:
        """Return the same trees in slices, each of whose values is asked for.

        Examples
        --------
        >>> numbers = np.arange(5, dtype=np.int32)
        >>> whole = TreeOrder(numbers, np.array([0, 5]), np.zeros(9), np.zeros(1), apart=False)
        >>> whole.slice_trees(2).of_output.tolist()
        [0, 2, 5]
        """
        ends = np.arange(slices + 1) * len(self.number) // slices
        return replace(self, of_output=ends.astype(np.int32), apart=True)


def order_trees(forest: Forest, scores: bool) -> TreeOrder:
    """Order the trees for sums of scalars, or for leaf numbers."""
    if not scores:
        number = np.arange(forest.n_trees, dtype=np.int32)
        leaves = np.arange(forest.n_leaves, dtype=np.int32)
        ends = np.array([0, forest.n_trees], np.int32)
        return TreeOrder(number, ends, leaves, np.zeros(1, np.int32), apart=True)
    # Stable: the trees of an output keep their order, and so its sum keeps its last bits.
    number = np.argsort(forest.target.data, kind="stable").astype(np.int32)
    counts = np.bincount(forest.target.data, minlength=forest.n_outputs)
    of_output = np.append(0, np.cumsum(counts)).astype(np.int32)
    return TreeOrder(number, of_output, forest.values.data[:, 0], forest.start.data, apart=False)


def tables_of_values(values: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Split values into words: the low ones, which are all there is of 32 bits, and the high ones.

    Examples
    --------
    >>> {name: table.tolist() for name, table in tables_of_values(np.array([1.0])).items()}
    {'low': [0], 'high': [1072693248]}
    """
    words = np.ascontiguousarray(values).view(np.uint32).reshape(*values.shape, -1)
    return {
        "low": np.ascontiguousarray(words[..., 0]),
        "high": np.ascontiguousarray(words[..., -1]),
    }


Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Nodes:
    """Tests and leaves of some trees, tree after tree.

    Parameters
    ----------
    child : int64 (n_nodes,)
        The test, or ``~leaf``, at each place.
    left : int64 (n_nodes,)
        Place of a test's left child; the right one follows. That of the leaf itself for a leaf.
    level : int64 (n_nodes,)
        Number of tests above each.
    first : int64 (n_trees + 1,)
        First place of each tree.
    depth : int32 (n_trees,)
        Largest number of tests on a path.
    """

    child: Ints
    left: Ints
    level: Ints
    first: Ints
    depth: npt.NDArray[np.int32]

    @property
    def is_test(self) -> npt.NDArray[np.bool_]:
        """Whether each is a test."""
        return self.child >= 0

    @property
    def tree(self) -> Ints:
        """Tree of each."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @property
    def levels(self) -> list[Ints]:
        """Places of the nodes of each level."""
        at = self.first[:-1]
        levels = []
        while len(at):
            levels.append(at)
            inner = at[self.is_test[at]]
            at = (self.left[inner, None] + np.arange(2)).ravel()
        return levels

    @property
    def widths(self) -> Ints:
        """Nodes of each level of each tree: (n_levels, n_trees)."""
        tree = self.tree
        return np.stack([np.bincount(tree[at], minlength=len(self.depth)) for at in self.levels])

    @property
    def leaf_counts(self) -> Ints:
        """Leaves below each."""
        inner = self.is_test
        counts = (~inner).astype(np.int64)
        for at in reversed(self.levels):
            tests = at[inner[at]]
            counts[tests] = counts[self.left[tests]] + counts[self.left[tests] + 1]
        return counts


def order_nodes(forest: Forest, trees: npt.NDArray[np.int32]) -> Nodes:
    """Lay out some trees, a level of all of them at a time.

    1. Number the nodes level by level; the children of a level's tests are the next level.
    2. Sort by tree, which keeps the levels and the siblings in their order.
    """
    child = forest.roots.data[trees].astype(np.int64)
    tree = np.arange(len(trees))
    levels = []
    left = []
    count = 0
    depth = np.zeros(len(trees), np.int32)
    while len(child):  # 1
        inner = np.flatnonzero(child >= 0)
        levels.append((child, tree))
        # A leaf leads to itself, so that walks of a fixed number of steps stay there.
        below = np.arange(len(child)) + count
        count += len(child)
        below[inner] = count + 2 * np.arange(len(inner))
        left.append(below)
        depth[tree[inner]] = len(levels)
        sides = [side.data[child[inner]] for side in (forest.left, forest.right)]
        child = np.stack(sides, axis=1).ravel().astype(np.int64)
        tree = np.repeat(tree[inner], 2)
    return _by_tree(levels, left, depth)


def _by_tree(
    levels: list[tuple[Ints, Ints]], left: list[Ints], depth: npt.NDArray[np.int32]
) -> Nodes:
    child, tree = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    # Stable, so that the levels of a tree and its siblings stay in their order.
    order = np.argsort(tree, kind="stable")  # 2
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    level = np.repeat(np.arange(len(levels)), [len(child) for child, _ in levels])
    first = np.append(0, np.cumsum(np.bincount(tree, minlength=len(depth))))
    return Nodes(child[order], place[np.concatenate(left)[order]], level[order], first, depth)


@dataclass(frozen=True, eq=False)
class ColumnChunks:
    """Chunks of trees, in the trees' order, so that sums are added in theirs.

    A block reads the columns of a chunk once, then goes through its trees.

    Parameters
    ----------
    end : int32 (n_chunks,)
        The tree behind each chunk.
    first : int32 (n_chunks + 1,)
        Place in ``column`` of the first of each.
    column : int32 (n_picked,)
        Columns of one chunk after another.
    place : int64 (n_reads,)
        Each read's column, counted within its chunk.
    """

    end: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    column: npt.NDArray[np.int32]
    place: Ints

    @property
    def widest(self) -> int:
        """The most columns of a chunk."""
        return int(np.diff(self.first).max())

    def tables(self) -> dict[str, npt.NDArray[Any]]:
        """Return the tables that kernels read."""
        return {"chunk_end": self.end, "first_picked": self.first, "picked": self.column}


def chunk_columns(
    tree: Ints, column: Ints, n_trees: int, n_columns: int, room: int
) -> ColumnChunks | None:
    """Make as few chunks as possible; None if a tree alone reads more columns than there is room.

    Parameters
    ----------
    tree, column : int64 (n_reads,)
        What is read, tree after tree.
    n_trees, n_columns, room : int

    Examples
    --------
    >>> found = chunk_columns(np.array([0, 1, 1, 2]), np.array([7, 7, 3, 5]), 3, 9, 2)
    >>> found.end.tolist(), found.first.tolist(), found.column.tolist(), found.place.tolist()
    ([2, 3], [0, 2, 3], [3, 7, 5], [1, 1, 0, 0])
    """
    if n_columns <= room:
        every = np.arange(n_columns, dtype=np.int32)
        return ColumnChunks(
            np.array([n_trees], np.int32), np.array([0, n_columns], np.int32), every, column
        )
    end = _ends(tree, column, n_trees, n_columns, room)
    if end is None:
        return None
    chunk = np.searchsorted(end, tree, side="right")
    # One number for chunk and column, so that one sort finds the columns of all chunks.
    picked, place = np.unique(chunk * n_columns + column, return_inverse=True)
    first = np.searchsorted(picked, np.arange(len(end) + 1) * n_columns)
    return ColumnChunks(
        end, first.astype(np.int32), (picked % n_columns).astype(np.int32), place - first[chunk]
    )


def _ends(
    tree: Ints, column: Ints, n_trees: int, n_columns: int, room: int
) -> npt.NDArray[np.int32] | None:
    """Let a chunk go on for as long as there is room for the columns of one more tree."""
    pairs = np.unique(tree * n_columns + column)
    starts = np.searchsorted(pairs, np.arange(1, n_trees) * n_columns)
    ends: list[int] = []
    held: set[int] = set()
    for number, columns in enumerate(np.split(pairs % n_columns, starts)):
        # Greedy: trees must stay in their order, so a chunk ends only where the next tree does not
        # fit.
        held = held.union(columns.tolist())
        if len(held) > room:
            if len(columns) > room:
                return None
            ends.append(number)
            held = set(columns.tolist())
    return np.array([*ends, n_trees], np.int32)
