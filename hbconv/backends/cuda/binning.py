"""The launch that turns values into codes."""

from __future__ import annotations

import numpy as np

from hbconv.backends.cuda.columns import CodeColumns
from hbconv.backends.cuda.plan import (
    GROUP,
    Buffer,
    CudaKernel,
    Grid,
    Launch,
    LaunchPlan,
    PlannedKernels,
)
from hbconv.backends.cuda.tree_order import NAMES

__all__ = ["bin_values"]

THREADS = 256
ROWS = 8 * THREADS // 32
"""Rows of a block's first turn: 8 a warp, so that few rows are spread over many blocks."""
SHARED_BYTES = 228 << 10
"""Shared memory of a multiprocessor of an H100: so many blocks stay there, and take more turns."""


def bin_values(columns: CodeColumns, n_features: int) -> PlannedKernels:
    """Return the kernel that writes ``"codes"``."""
    dtype = columns.edges.dtype
    passes = len(columns.edges)
    categories = int((columns.last >= 0).any())
    edge_bytes = columns.edges[0].nbytes
    launch = Launch(
        CudaKernel("bin", (("INPUT", NAMES[dtype.name]), ("CATEGORIES", categories))),
        (
            *("x", "n", n_features, len(columns)),
            *("feature", "missing", "last", "first_category", "edges", "lookup", "codes"),
        ),
        Grid(ROWS, passes, per_processor=SHARED_BYTES // (edge_bytes + 1024)),
        THREADS,
        edge_bytes,
    )
    tables = {
        "feature": columns.feature,
        "missing": columns.missing,
        "last": columns.last,
        "first_category": columns.first,
        "edges": columns.edges,
        "lookup": columns.lookup,
    }
    codes = Buffer(np.dtype(np.uint8).name, 1, GROUP, GROUP * len(columns))
    plan = LaunchPlan((launch,), (("codes", codes),), tuple(tables))
    return PlannedKernels(plan, tables)
