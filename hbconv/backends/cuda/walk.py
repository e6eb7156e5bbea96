"""Tables of kernel ``walk``: nodes of one word, over codes."""

from __future__ import annotations

import numpy as np

from hbconv.backends.cuda.binning import bin_values
from hbconv.backends.cuda.bits import out_buffer
from hbconv.backends.cuda.columns import CodeColumns, Cutoffs
from hbconv.backends.cuda.nodes import Nodes
from hbconv.backends.cuda.plan import CudaKernel, Grid, Launch, LaunchPlan, PlannedKernels
from hbconv.backends.cuda.tree_order import TreeOrder, tables_of_values
from hbconv.forest import Forest

__all__ = ["MAX_COLUMNS", "MAX_NODES", "THREADS", "make_walk", "walk_shared_bytes"]

MAX_COLUMNS = 256
MAX_NODES = 1 << 14
"""CodeColumns, and nodes of a tree, that a word can name."""
THREADS = (512, 256, 128, 64, 32)
"""Threads of a block, each of two rows: as many as the shared memory holds codes for."""


def walk_shared_bytes(n_columns: int, nodes: Nodes, words: int, threads: int) -> int:
    """Count the shared memory of a block: codes, and two trees."""
    largest = int(np.diff(nodes.first).max())
    return 8 * n_columns * threads + 8 * (1 + words) * largest


def make_walk(
    forest: Forest,
    trees: TreeOrder,
    columns: CodeColumns,
    cutoffs: Cutoffs,
    nodes: Nodes,
    threads: int,
) -> PlannedKernels:
    """Return the kernel for blocks of so many threads.

    A leaf leads to its own place: its cutoff is 0, and so it is right of the place before.
    """
    inner = nodes.is_test
    within = nodes.left - nodes.first[nodes.tree]
    words = 4 * np.where(inner, within, np.maximum(within - 1, 0))
    test = nodes.child[inner]
    words[inner] |= cutoffs.cutoff[test] << 24 | cutoffs.column[test] << 16
    values = np.zeros(len(inner), trees.values.dtype)
    values[~inner] = trees.values[~nodes.child[~inner]]
    largest = int(np.diff(nodes.first).max())
    launch = Launch(
        CudaKernel("walk", (*trees.constants, ("THREADS", threads))),
        (
            *("codes", "n", len(columns), trees.outputs, largest),
            *("of_output", "number", "nodes", "first", "depth", "low", "high", "start", "out"),
        ),
        Grid(2 * threads),
        threads,
        walk_shared_bytes(len(columns), nodes, trees.words, threads),
    )
    tables = {
        **trees.tables(),
        **tables_of_values(values),
        "nodes": words.astype(np.uint32),
        "first": nodes.first.astype(np.int32),
        "depth": nodes.depth,
    }
    plan, tables_of_bins = bin_values(columns, forest.n_features)
    mine = LaunchPlan((launch,), (("out", out_buffer(forest, trees)),), tuple(tables))
    return PlannedKernels(plan, tables_of_bins).then(mine, tables)
