"""Plans: the kernels that compute a forest, one after another, the tables they read, and launches.

Of the memory in which they are launched only the addresses are known here. The launch of kernel
``pairwise`` folds terms of rows and points feature by feature.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.tree_order import NAMES

__all__ = [
    "GROUP",
    "MAX_PASSES",
    "MAX_ROWS",
    "Buffer",
    "CudaKernel",
    "Grid",
    "Launch",
    "LaunchPlan",
    "Launcher",
    "PlannedKernels",
    "PreparedLaunches",
    "Tables",
    "launch_all",
    "plan_pairwise",
]

Tables = Mapping[str, npt.NDArray[Any]]
BUFFER_BYTES = 1 << 30
"""Bytes of buffers; more rows come in chunks."""
GROUP = 32
"""Rows whose codes of a column are stored together: a chunk has a multiple."""
MAX_ROWS = 1 << 30
"""Rows that kernels number."""


@dataclass(frozen=True)
class CudaKernel:
    """A kernel with its constants, as it is compiled.

    Parameters
    ----------
    name : str
        Its function, and its file in ``kernels/``.
    constants : tuple of (str, str or int)
        Macros of the file.
    text : str
        Its source, where a model has a kernel of its own; then there is no file.
    """

    name: str
    constants: tuple[tuple[str, str | int], ...] = ()
    text: str = ""

    def __str__(self) -> str:
        if not self.constants:
            return self.name
        return f"{self.name}<{', '.join(f'{name}={value}' for name, value in self.constants)}>"


@dataclass(frozen=True)
class Grid:
    """How many blocks a launch has.

    Parameters
    ----------
    rows : int
        Rows of a block.
    passes : int
        Blocks for the same rows.
    per_processor : int
        Blocks that a multiprocessor keeps, which take rows in turn; 0 for a block for all rows.
    """

    rows: int
    passes: int = 1
    per_processor: int = 0

    def blocks(self, n_rows: int, processors: int) -> int:
        """Count blocks along the rows."""
        needed = -(-n_rows // self.rows)
        return min(needed, self.per_processor * processors) if self.per_processor else needed


@dataclass(frozen=True)
class Launch:
    """A kernel over all rows.

    Parameters
    ----------
    kernel : CudaKernel
    arguments : tuple of str or int
        Numbers, ``"n"`` for that of the rows, names of buffers (``"x"``, ``"out"``) or of tables.
    grid : Grid
    threads, shared_bytes : int
        Of a block.
    """

    kernel: CudaKernel
    arguments: tuple[str | int, ...]
    grid: Grid
    threads: int
    shared_bytes: int


@dataclass(frozen=True)
class Buffer:
    """Memory between two launches, or for the result.

    Parameters
    ----------
    dtype : str
    leading, rows_per_unit, trailing : int
        Its shape is (leading, ceil(n / rows_per_unit) * trailing).
    """

    dtype: str
    leading: int
    rows_per_unit: int
    trailing: int

    def shape(self, n_rows: int) -> tuple[int, int]:
        """Return the shape for a number of rows."""
        return self.leading, -(-n_rows // self.rows_per_unit) * self.trailing

    def n_bytes(self, n_rows: int) -> int:
        """Return the bytes for a number of rows."""
        leading, width = self.shape(n_rows)
        return leading * width * np.dtype(self.dtype).itemsize

    @property
    def bytes_per_row(self) -> float:
        """Return the bytes that a row takes."""
        return self.leading * self.trailing * np.dtype(self.dtype).itemsize / self.rows_per_unit


@dataclass(frozen=True)
class LaunchPlan:
    """The launches of a computation, without the tables that they read.

    Parameters
    ----------
    launches : tuple of Launch
    buffers : tuple of (str, Buffer)
        Memory by name; the last is ``"out"``.
    tables : tuple of str
        Names of the tables, in the order in which they are handed over.
    """

    launches: tuple[Launch, ...]
    buffers: tuple[tuple[str, Buffer], ...]
    tables: tuple[str, ...]

    def then(self, other: LaunchPlan) -> LaunchPlan:
        """Return both, one after the other; the other's buffers come last."""
        tables = tuple(dict.fromkeys((*self.tables, *other.tables)))
        return LaunchPlan(
            (*self.launches, *other.launches), (*self.buffers, *other.buffers), tables
        )

    @cached_property
    def bytes_per_row(self) -> float:
        """Return the bytes of all buffers that a row takes."""
        return sum(buffer.bytes_per_row for _, buffer in self.buffers)

    @property
    def rows_at_once(self) -> int:
        """Return the rows of a chunk, the memory of whose buffers is bounded."""
        rows = int(BUFFER_BYTES / max(self.bytes_per_row, 1.0))
        return min(MAX_ROWS, max(1, rows // GROUP) * GROUP)

    def renamed(self, names: Mapping[str, str]) -> LaunchPlan:
        """Return the same launches with other names of buffers and tables."""
        launches = tuple(
            replace(launch, arguments=tuple(names.get(str(a), a) for a in launch.arguments))
            for launch in self.launches
        )
        buffers = tuple((names.get(name, name), buffer) for name, buffer in self.buffers)
        return LaunchPlan(launches, buffers, tuple(names.get(name, name) for name in self.tables))


@dataclass(frozen=True, eq=False)
class PlannedKernels:
    """A plan with its tables."""

    plan: LaunchPlan
    tables: Tables

    def then(self, plan: LaunchPlan, tables: Tables) -> PlannedKernels:
        """Return both computations, one after the other."""
        return PlannedKernels(self.plan.then(plan), {**self.tables, **tables})

    def renamed(self, names: Mapping[str, str]) -> PlannedKernels:
        """Return the same computation with other names of buffers and tables."""
        tables = {names.get(name, name): table for name, table in self.tables.items()}
        return PlannedKernels(self.plan.renamed(names), tables)


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
