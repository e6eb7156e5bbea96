"""Tables of kernel ``walk``: nodes of one word, over codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.binning import bin_values
from hbconv.backends.cuda.bits import out_buffer
from hbconv.backends.cuda.chunks import ColumnChunks, chunk_columns
from hbconv.backends.cuda.columns import CodeColumns, Cutoffs
from hbconv.backends.cuda.nodes import Nodes
from hbconv.backends.cuda.plan import CudaKernel, Grid, Launch, LaunchPlan, PlannedKernels, Tables
from hbconv.backends.cuda.tree_order import TreeOrder, tables_of_values
from hbconv.forest import Forest

__all__ = ["MAX_NODES", "THREADS", "WalkShape", "chunk_walk", "make_walk", "tabulate_walk"]

MAX_COLUMNS = 256
MAX_NODES = 1 << 14
"""Columns of a chunk, and nodes of a tree, that a word can name."""
THREADS = (512, 256, 128, 64, 32)
"""Threads of a block, each of two rows."""


@dataclass(frozen=True)
class WalkShape:
    """Sizes of the kernel.

    Parameters
    ----------
    threads : int
        Of a block, each of two rows.
    largest : int
        Nodes of the largest tree.
    words : int
        Of a value.
    """

    threads: int
    largest: int
    words: int

    def room(self, shared_bytes: int) -> int:
        """Count the columns whose codes fit the shared memory of a block."""
        free = shared_bytes - self.shared_bytes(0)
        return min(MAX_COLUMNS, max(0, free // (8 * self.threads)))

    def shared_bytes(self, n_columns: int) -> int:
        """Count the shared memory of a block: codes, and two trees."""
        return 8 * n_columns * self.threads + 8 * (1 + self.words) * self.largest


def chunk_walk(
    nodes: Nodes, columns: CodeColumns, cutoffs: Cutoffs, room: int
) -> ColumnChunks | None:
    """Return chunks of the trees that read few enough columns; None if a tree reads more."""
    inner = nodes.is_test
    column = cutoffs.column[nodes.child[inner]]
    return chunk_columns(nodes.tree[inner], column, len(nodes.depth), len(columns), room)


def tabulate_walk(trees: TreeOrder, cutoffs: Cutoffs, nodes: Nodes, chunks: ColumnChunks) -> Tables:
    """Return the tables, which do not depend on slices."""
    values = np.zeros(len(nodes.child), trees.values.dtype)
    values[~nodes.is_test] = trees.values[~nodes.child[~nodes.is_test]]
    return {
        **chunks.tables(),
        **tables_of_values(values),
        "nodes": _words(nodes, cutoffs, chunks),
        "first": nodes.first.astype(np.int32),
        "depth": nodes.depth,
    }


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
            *("codes", "n", len(columns), chunks.widest, trees.outputs, shape.largest),
            *("of_output", *chunks.tables()),
            *("nodes", "first", "depth", "low", "high", "start", "out"),
        ),
        Grid(2 * shape.threads, trees.slices),
        shape.threads,
        shape.shared_bytes(chunks.widest),
    )
    return bin_values(columns, forest.n_features).then(
        LaunchPlan((launch,), (("out", out_buffer(forest, trees)),), (*trees.tables(), *tables)),
        {**trees.tables(), **tables},
    )


def _words(nodes: Nodes, cutoffs: Cutoffs, chunks: ColumnChunks) -> npt.NDArray[np.uint32]:
    """Write the nodes.

    A leaf leads to its own place: its cutoff is 0, and so it is right of the place before.
    """
    inner = nodes.is_test
    within = nodes.left - nodes.first[nodes.tree]
    words = 4 * np.where(inner, within, np.maximum(within - 1, 0))
    words[inner] |= cutoffs.cutoff[nodes.child[inner]] << 24 | chunks.place << 16
    return words.astype(np.uint32)
