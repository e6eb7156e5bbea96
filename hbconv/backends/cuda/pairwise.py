"""The launch of kernel ``pairwise``: terms of rows and points, folded feature by feature."""

from __future__ import annotations

import numpy as np

from hbconv.backends.cuda.plan import Buffer, CudaKernel, Grid, Launch, LaunchPlan
from hbconv.backends.cuda.tree_order import NAMES

__all__ = ["plan_pairwise"]

SIDE, EACH, STEP = 16, 4, 16
TILE = SIDE * EACH
"""Rows and points of a block, of which a thread has four each; features that are read at once."""


def plan_pairwise(dtype: str, kind: str, p: float, n_features: int, n_points: int) -> LaunchPlan:
    """Return the launch that writes ``"out"`` (rows, points) from ``"x"`` and ``"points"``.

    A thread adds up the terms of a row and a point in the features' order, as the reference does.
    So only powers may differ from its results.

    Parameters
    ----------
    dtype : str
        ``"float32"`` or ``"float64"``.
    kind : str
        A term of primitive ``pairwise``.
    p : float
        The power of kind ``"power"``.
    n_features, n_points : int
    """
    fold, term = ("largest", "absolute") if kind == "largest" else ("sum", kind)
    constants = (("VALUE", NAMES[dtype]), ("TERM", term), ("FOLD", fold), ("P", repr(float(p))))
    launch = Launch(
        CudaKernel("pairwise", constants),
        ("x", "n", n_features, n_points, "points", "out"),
        Grid(TILE, passes=-(-n_points // TILE)),
        SIDE * SIDE,
        2 * STEP * (TILE + 1) * np.dtype(dtype).itemsize,
    )
    return LaunchPlan((launch,), (("out", Buffer(dtype, 1, 1, n_points)),), ("points",))
