"""Plans: the kernels that compute a forest, one after another, and the tables they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "GROUP",
    "MAX_ROWS",
    "Buffer",
    "CudaKernel",
    "Grid",
    "Launch",
    "LaunchPlan",
    "PlannedKernels",
    "Tables",
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
