"""Sums of leaves that are vectors, which another kernel found before."""

from __future__ import annotations

from hbconv.backends.cuda.plan import Buffer, CudaKernel, Grid, Launch, LaunchPlan, PlannedKernels
from hbconv.backends.cuda.tree_order import NAMES
from hbconv.forest import Forest

__all__ = ["add_vectors"]

THREADS = 256


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
