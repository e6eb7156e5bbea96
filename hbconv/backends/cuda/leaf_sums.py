"""Sums of what another kernel found before: of terms, and of leaves that are vectors."""

from __future__ import annotations

from hbconv.backends.cuda.plan import Buffer, CudaKernel, Grid, Launch, LaunchPlan, PlannedKernels
from hbconv.backends.cuda.tree_order import NAMES, TreeOrder
from hbconv.trees.forest import Forest

__all__ = ["add_terms", "add_vectors"]

THREADS = 256
ROWS_OF_TERMS = 32
THREADS_OF_TERMS = 32 * 9
"""Rows of a block, so that few rows are spread over many multiprocessors, and its warps."""
CHUNK_OF_TERMS = 128


def add_terms(terms: PlannedKernels, trees: TreeOrder) -> PlannedKernels:
    """Return the kernels that write each tree's term, then the one that adds them in order."""
    tables = {"term_output": trees.of_output, "term_start": trees.start}
    dtype = trees.values.dtype.name
    launch = Launch(
        CudaKernel("terms", (("SUM", NAMES[dtype]),)),
        ("terms", "n", trees.outputs, *tables, "out"),
        Grid(ROWS_OF_TERMS, trees.outputs),
        THREADS_OF_TERMS,
        2 * CHUNK_OF_TERMS * ROWS_OF_TERMS * trees.values.itemsize,
    )
    out = Buffer(dtype, 1, 1, trees.outputs)
    return terms.renamed({"out": "terms"}).then(
        LaunchPlan((launch,), (("out", out),), tuple(tables)), tables
    )


def add_vectors(leaves: PlannedKernels, forest: Forest) -> PlannedKernels:
    """Return the kernels that find leaves, then the one that adds up their vectors."""
    tables = {"vectors": forest.values.data, "vector_start": forest.start.data}
    launch = Launch(
        CudaKernel("vectors", (("SUM", NAMES[forest.accumulate]),)),
        ("leaves", "n", forest.n_trees, forest.n_outputs, *tables, "out"),
        Grid(THREADS, forest.n_outputs),
        THREADS,
        0,
    )
    out = Buffer(forest.accumulate, 1, 1, forest.n_outputs)
    return leaves.renamed({"out": "leaves"}).then(
        LaunchPlan((launch,), (("out", out),), tuple(tables)), tables
    )
