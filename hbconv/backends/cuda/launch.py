"""Launch the kernels of a plan, on memory of which only the addresses are known here.

The launch of kernel ``pairwise``: terms of rows and points, folded feature by feature.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from hbconv.backends.cuda.plan import Buffer, CudaKernel, Grid, Launch, LaunchPlan
from hbconv.backends.cuda.tree_order import NAMES

__all__ = ["MAX_PASSES", "Launcher", "PreparedLaunches", "launch_all", "plan_pairwise"]

MAX_PASSES = 65535
"""Blocks that a grid may have along its second side; a block takes several passes beyond it."""
SLOT = 8
"""Bytes of memory for each argument."""

Run = Callable[[Any, int, int, Any], None]


class Launcher(Protocol):
    """What runs kernels: a device, or an emulation of one in tests."""

    processors: int

    def load(self, launch: Launch) -> Run:
        """Return what runs a kernel: ``run(stream, blocks, passes, arguments)``.

        The arguments are an array of the addresses of their values.
        """

    def stream(self) -> Any:
        """Return the stream that kernels are put on now."""


class PreparedLaunches(threading.local):
    """The launches of a plan, whose arguments are memory that a call writes in place.

    Kernels, sizes, numbers and tables are the same in all calls, so a launch takes 1 us of Python.
    The driver has read the arguments when a launch returns. Each thread has memory of its own.

    Parameters
    ----------
    plan : LaunchPlan
    names : sequence of str
        Memory whose addresses each call gives.
    fixed : mapping of str to int
        Addresses of the other memory.
    launcher : Launcher
    """

    def __init__(
        self, plan: LaunchPlan, names: Sequence[str], fixed: Mapping[str, int], launcher: Launcher
    ) -> None:
        values = dict.fromkeys(("n", *names), 0) | dict(fixed)
        arguments = [str(a) for launch in plan.launches for a in launch.arguments]
        values |= {a: int(a) for a in arguments if a not in values}
        # A kernel's int reads the lower half of its slot: hosts of CUDA are little-endian.
        self._values = (ctypes.c_int64 * len(values))(*values.values())
        self._given = slice(0, 1 + len(names))
        first = ctypes.addressof(self._values)
        places = {name: first + SLOT * i for i, name in enumerate(values)}
        self._launcher = launcher
        self._kernels = [self._prepare(launch, places) for launch in plan.launches]

    def _prepare(self, launch: Launch, places: Mapping[str, int]) -> tuple[Run, Grid, int, Any]:
        """Return a kernel, its grid, its passes, and the addresses of its arguments."""
        addresses = [places[str(a)] for a in launch.arguments]
        arguments = (ctypes.c_void_p * len(addresses))(*addresses)
        passes = min(launch.grid.passes, MAX_PASSES)
        return self._launcher.load(launch), launch.grid, passes, arguments

    def run(self, n_rows: int, addresses: Iterable[int]) -> None:
        """Run all kernels, one after another, for at least one row."""
        self._values[self._given] = [n_rows, *addresses]
        stream = self._launcher.stream()
        processors = self._launcher.processors
        for run, grid, passes, arguments in self._kernels:
            run(stream, grid.blocks(n_rows, processors), passes, arguments)


def launch_all(
    plan: LaunchPlan, addresses: Mapping[str, int], n_rows: int, launcher: Launcher
) -> None:
    """Run all kernels once, for at least one row."""
    PreparedLaunches(plan, tuple(addresses), {}, launcher).run(n_rows, addresses.values())


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
