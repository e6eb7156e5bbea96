"""Compiled loops: a function over rows with its tables, called from any number of threads.

A loop is stored as files: a shared library, and its tables as data. Reading them back needs neither
TVM nor a compiler.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.binary.library import load_library
from hbconv.backends.tvm.target.calling_convention import KernelFunction, Record, make_record

__all__ = [
    "CompiledLoop",
    "LoopCode",
    "Matrices",
    "Workspace",
    "pack_loop",
    "scratch_bytes",
    "unpack_loop",
]

Matrices = Sequence[npt.NDArray[Any]]
LIBRARY = "kernel.so"
TABLES = "tables.safetensors"
SCRATCH = "scratch.json"
ALIGNMENT = 64
"""Bytes that addresses of tables and scratch are multiples of, as aligned vector loads need."""


@dataclass(frozen=True, eq=False)
class LoopCode:
    """What a loop is made from.

    Parameters
    ----------
    function : callable
        The kernel.
    tables : sequence of arrays
    scratch : dict of str to int
        Entries of each dtype that a call needs for itself, whatever its number of rows.
    library : bytes or None
        The function as a shared library, None if no linker is installed.
    """

    function: KernelFunction
    tables: Matrices
    scratch: dict[str, int]
    library: bytes | None


def scratch_bytes(scratch: Mapping[str, int]) -> int:
    """Return how many bytes so many entries of each dtype take."""
    return sum(size * np.dtype(dtype).itemsize for dtype, size in scratch.items())


class CompiledLoop:
    """A compiled function over rows, with its tables in aligned memory."""

    def __init__(self, code: LoopCode) -> None:
        self.code = code
        self.function = code.function
        self.tables = tuple(self.room(table) for table in code.tables)
        self._local = threading.local()

    def room(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Copy an array to memory that the function may work on."""
        return aligned(array)

    def run(self, rows: int, matrices: Matrices) -> None:
        """Compute outputs from inputs: C-contiguous arrays of ``rows`` rows, in their order.

        Calls of one thread share its scratch, which only the function uses. Each call has its own
        record: a signal handler or a finalizer may call before the function begins.
        """
        if not hasattr(self._local, "workspace"):
            self._local.workspace = Workspace(self, len(matrices))
        workspace: Workspace = self._local.workspace
        self.function(workspace.record(rows, matrices))

    def bind(self, matrices: Matrices) -> tuple[list[npt.NDArray[Any]], KernelFunction, Workspace]:
        """Copy inputs and outputs to memory that stays.

        Returns the copies, a function that works on them, and the workspace that makes its records.
        """
        places = [self.room(matrix) for matrix in matrices]
        return places, self.function, Workspace(self, len(matrices))


class Workspace:
    """What a call has for itself: one thread at a time may use it.

    Attributes
    ----------
    scratch : tuple of arrays
    """

    def __init__(self, loop: CompiledLoop, n_matrices: int) -> None:
        self.scratch = tuple(
            loop.room(np.zeros(size, dtype)) for dtype, size in loop.code.scratch.items()
        )
        self._kept = (*loop.tables, *self.scratch)
        addresses = [array.ctypes.data for array in self._kept]
        self._record = make_record(0, [0] * n_matrices + addresses)

    def record(self, rows: int, matrices: Matrices) -> Record:
        """Return a record for a call on these inputs and outputs, which the caller keeps alive."""
        record = type(self._record).from_buffer_copy(self._record)
        record[0] = rows
        for position, matrix in enumerate(matrices, start=1):
            record[position] = matrix.ctypes.data
        return record


def aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy an array to an aligned address."""
    space = np.zeros(array.nbytes + ALIGNMENT, np.uint8)
    start = -space.ctypes.data % ALIGNMENT
    copy = space[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def pack_loop(loop: CompiledLoop) -> dict[str, bytes]:
    """Return the files of a loop, none if it has no library; equal loops give equal bytes."""
    from safetensors.numpy import save

    if loop.code.library is None:
        return {}
    return {
        LIBRARY: loop.code.library,
        TABLES: save({f"{i}": table for i, table in enumerate(loop.tables)}),
        SCRATCH: json.dumps(loop.code.scratch).encode(),
    }


def unpack_loop(files: Mapping[str, bytes]) -> LoopCode:
    """Read the code of a loop back."""
    from safetensors.numpy import load

    tables = load(files[TABLES])
    return LoopCode(
        load_library(files[LIBRARY]),
        [tables[f"{i}"] for i in range(len(tables))],
        json.loads(files[SCRATCH]),
        files[LIBRARY],
    )
