"""The launch that turns values into codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.columns import CodeColumns
from hbconv.backends.cuda.plan import GROUP, Buffer, CudaKernel, Grid, Launch, LaunchPlan
from hbconv.backends.cuda.tree_order import NAMES

__all__ = ["bin_values"]

THREADS = 256
GROUPS_PER_BLOCK = 4 * THREADS // GROUP


def bin_values(
    columns: CodeColumns, n_features: int
) -> tuple[LaunchPlan, dict[str, npt.NDArray[Any]]]:
    """Return the plan that writes ``"codes"``, and its tables."""
    dtype = columns.edges.dtype
    passes = len(columns.edges)
    categories = int((columns.last >= 0).any())
    launch = Launch(
        CudaKernel("bin", (("INPUT", NAMES[dtype.name]), ("CATEGORIES", categories))),
        (
            *("x", "n", n_features, len(columns)),
            *("feature", "missing", "last", "first_category", "edges", "lookup", "codes"),
        ),
        Grid(GROUPS_PER_BLOCK * GROUP, passes),
        THREADS,
        columns.edges[0].nbytes,
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
    return LaunchPlan((launch,), (("codes", codes),), tuple(tables)), tables
