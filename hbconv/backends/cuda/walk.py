"""Tables of kernel ``walk``: nodes of one word, over codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.bits import out_buffer
from hbconv.backends.cuda.columns import CodeColumns, Cutoffs, bin_values
from hbconv.backends.cuda.plan import CudaKernel, Grid, Launch, LaunchPlan, PlannedKernels, Tables
from hbconv.backends.cuda.tree_order import (
    ColumnChunks,
    Nodes,
    TreeOrder,
    chunk_columns,
    tables_of_values,
)
from hbconv.trees.forest import Forest

__all__ = ["MAX_NODES", "THREADS", "WalkShape", "chunk_walk", "make_walk", "tabulate_walk"]

MAX_COLUMNS = 256
MAX_NODES = 1 << 16
"""Columns of a chunk, and nodes of a tree, that a word can name."""
ROWS = 8
"""Rows of a thread, whose codes of a column take as many bytes."""
THREADS = (256, 128, 64, 32)
"""Threads of a block."""
QUAD = 4
"""Words that are copied at once."""


@dataclass(frozen=True)
class WalkShape:
    """Sizes of the kernel.

    Parameters
    ----------
    threads : int
        Of a block.
    largest : int
        Nodes of the largest tree.
    words : int
        Of a value.
    """

    threads: int
    largest: int
    words: int

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return ROWS * self.threads

    @property
    def words_of_largest(self) -> int:
        """Words of the largest tree, its values included."""
        return -(-self.largest // QUAD) * QUAD * (1 + self.words)

    def room(self, shared_bytes: int) -> int:
        """Count the columns whose codes fit the shared memory of a block."""
        free = shared_bytes - self.shared_bytes(0)
        return min(MAX_COLUMNS, max(0, free // self.rows))

    def shared_bytes(self, n_columns: int) -> int:
        """Count the shared memory of a block: codes, and two trees."""
        return n_columns * self.rows + 2 * 4 * self.words_of_largest


def chunk_walk(
    nodes: Nodes, columns: CodeColumns, cutoffs: Cutoffs, room: int
) -> ColumnChunks | None:
    """Return chunks of the trees that read few enough columns; None if a tree reads more."""
    inner = nodes.is_test
    column = cutoffs.column[nodes.child[inner]]
    return chunk_columns(nodes.tree[inner], column, len(nodes.depth), len(columns), room)


def tabulate_walk(trees: TreeOrder, cutoffs: Cutoffs, nodes: Nodes, chunks: ColumnChunks) -> Tables:
    """Return the tables of the trees, which do not depend on slices."""
    first, words = _trees(nodes, trees, cutoffs, chunks)
    return {**chunks.tables(), "words": words, "first": first, "depth": nodes.depth}


def make_walk(
    forest: Forest,
    trees: TreeOrder,
    columns: CodeColumns,
    chunks: ColumnChunks,
    shape: WalkShape,
    tables: Tables,
) -> PlannedKernels:
    """Return the kernel for blocks of a shape."""
    launch = Launch(
        CudaKernel("walk", (*trees.constants, ("THREADS", shape.threads))),
        (
            *("codes", "n", len(columns), chunks.widest, trees.outputs, shape.words_of_largest),
            *("of_output", *chunks.tables(), "words", "first", "depth", "start", "out"),
        ),
        Grid(shape.rows, trees.slices),
        shape.threads,
        shape.shared_bytes(chunks.widest),
    )
    return bin_values(columns, forest.n_features).then(
        LaunchPlan((launch,), (("out", out_buffer(forest, trees)),), (*trees.tables(), *tables)),
        {**trees.tables(), **tables},
    )


def _trees(
    nodes: Nodes, trees: TreeOrder, cutoffs: Cutoffs, chunks: ColumnChunks
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """Write each tree: its nodes, then the words of their values, each padded to whole quads.

    Returns
    -------
    first : int32 (n_trees + 1,)
        First quad of each tree.
    words : uint32 (n_quads, 4)
    """
    values = np.zeros(len(nodes.child), trees.values.dtype)
    values[~nodes.is_test] = trees.values[~nodes.child[~nodes.is_test]]
    # Values of 32 bits have no high words.
    parts = (_words(nodes, cutoffs, chunks), *tables_of_values(values).values())[: 1 + trees.words]
    quads = -(-np.diff(nodes.first) // QUAD)
    first = np.append(0, np.cumsum(quads * len(parts)))
    tree = nodes.tree
    place = QUAD * first[tree] + np.arange(len(tree)) - nodes.first[tree]
    words = np.zeros((first[-1], QUAD), np.uint32)
    for turn, part in enumerate(parts):
        words.ravel()[place + turn * QUAD * quads[tree]] = part
    return first.astype(np.int32), words


def _words(nodes: Nodes, cutoffs: Cutoffs, chunks: ColumnChunks) -> npt.NDArray[np.int64]:
    """Write the nodes: a code carries into the place where it is not below the cutoff.

    A leaf leads to its own place, into which no code carries.
    """
    inner = nodes.is_test
    # Bits 0 to 7 take the sum of code and 256 - cutoff, 8 to 23 name the left child, 24 to 31 a
    # column.
    words = (nodes.left - nodes.first[nodes.tree]) << 8
    words[inner] += 256 - cutoffs.cutoff[nodes.child[inner]]
    words[inner] |= chunks.place << 24
    return words
