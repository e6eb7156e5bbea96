"""Compiled loops: a function over rows with its tables, called from any number of threads.

A loop is stored as files: a shared library, and its tables as data. Reading them back needs
``tvm_ffi`` alone: neither TVM nor a C compiler.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "CompiledLoop",
    "LoopCode",
    "Matrices",
    "Workspace",
    "load_library",
    "pack_loop",
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
        ``main(rows, records)``, where ``records`` is the address of records of 16 bytes. Each ends
        in the address of an input, an output, a table or scratch, in this order.
    tables : sequence of arrays
    scratch : dict of str to int
        Entries of each dtype that a call needs for itself, whatever its number of rows.
    library : bytes or None
        The function as a shared library, None if no linker is installed.
    """

    function: Callable[..., Any]
    tables: Matrices
    scratch: dict[str, int]
    library: bytes | None


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
        records: a signal handler or a finalizer may call before the function begins.
        """
        if not hasattr(self._local, "workspace"):
            self._local.workspace = Workspace(self, len(matrices))
        workspace: Workspace = self._local.workspace
        records = workspace.records_of(matrices)
        self.function(rows, records.ctypes.data)

    def bind(
        self, matrices: Matrices
    ) -> tuple[list[npt.NDArray[Any]], Callable[[int, int], Any], Workspace]:
        """Copy inputs and outputs to memory that stays.

        Returns the copies, a ``run(rows, address)`` that works on them, and the workspace whose
        address it takes.
        """
        places = [self.room(matrix) for matrix in matrices]
        workspace = Workspace(self, len(matrices))
        workspace.place(places)
        return places, self.function, workspace


class Workspace:
    """What a call has for itself: one thread at a time may use it.

    Attributes
    ----------
    scratch : tuple of arrays
    address : int
        Address of the records that the function reads.
    """

    def __init__(self, loop: CompiledLoop, n_matrices: int) -> None:
        self.scratch = tuple(
            loop.room(np.zeros(size, dtype)) for dtype, size in loop.code.scratch.items()
        )
        self._kept = (*loop.tables, *self.scratch)
        addresses = [0] * n_matrices + [array.ctypes.data for array in self._kept]
        self._records = np.array([(0, address) for address in addresses], np.int64)

    @property
    def address(self) -> int:
        """Address of the records that the function reads."""
        return int(self._records.ctypes.data)

    def place(self, matrices: Matrices) -> None:
        """Let the records name inputs and outputs that stay."""
        self._records = self.records_of(matrices)

    def records_of(self, matrices: Matrices) -> npt.NDArray[np.int64]:
        """Return records of their own for a call on other inputs and outputs."""
        records = self._records.copy()
        records[: len(matrices), 1] = [matrix.ctypes.data for matrix in matrices]
        return records


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


def load_library(library: bytes) -> Any:
    """Return the function ``main`` of a shared library.

    The file that loading needs is private, and is deleted at once.
    """
    import tvm_ffi

    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder, LIBRARY)
        path.write_bytes(library)
        return tvm_ffi.load_module(str(path))["main"]
