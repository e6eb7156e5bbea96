"""Sums of leaves that are vectors, which another kernel found before."""

from __future__ import annotations

from dataclasses import replace

from hbconv.backends.cuda.plan import Buffer, CudaKernel, Grid, Launch, LaunchPlan, PlannedTrees
from hbconv.backends.cuda.tree_order import NAMES
from hbconv.forest import Forest

__all__ = ["add_vectors"]

THREADS = 256


def add_vectors(leaves: PlannedTrees, forest: Forest) -> PlannedTrees:
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
    return _into_leaves(leaves).then(LaunchPlan((launch,), (("out", out),), tuple(tables)), tables)


def _into_leaves(kernel: PlannedTrees) -> PlannedTrees:
    """Let a kernel write ``"leaves"`` instead of the result."""
    renamed = {"out": "leaves"}
    plan = kernel.plan
    launches = tuple(
        replace(launch, arguments=tuple(renamed.get(str(a), a) for a in launch.arguments))
        for launch in plan.launches
    )
    buffers = tuple((renamed.get(name, name), buffer) for name, buffer in plan.buffers)
    return PlannedTrees(LaunchPlan(launches, buffers, plan.tables), kernel.tables)
