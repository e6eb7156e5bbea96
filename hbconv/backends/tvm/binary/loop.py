"""Loop: a compiled function over rows with the tables it reads, callable from any number of threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Loop", "Matrices", "Workspace"]

Matrices = Sequence[npt.NDArray[Any]]


class Loop:
    """A function over rows, with its tables.

    Parameters
    ----------
    function : callable
        ``main(rows, records)``, where ``records`` says where records of 16 bytes lie, each of which ends in the address of an
        input, an output, a table or scratch, in this order.
    tables : sequence of arrays
    scratch : dict of str to int
        Entries of each dtype that a call needs for itself, however many its rows.
    library : callable
        Gives the function as a shared library, or None where it cannot be made.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        tables: Matrices,
        scratch: dict[str, int],
        library: Callable[[], bytes | None],
    ) -> None:
        self.function, self.scratch, self.library = function, scratch, library
        self.tables = tuple(self.room(t) for t in tables)
        self._local = threading.local()

    def room(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Copy an array to memory that the function may work on."""
        return aligned(array)

    def run(self, rows: int, matrices: Matrices) -> None:
        """Read inputs and write outputs: C-contiguous arrays of so many rows, in their order.

        Calls of one thread share its scratch, which the function alone uses. The addresses are those of one call, since
        a signal handler or a finalizer may make another before the function begins.
        """
        if not hasattr(self._local, "workspace"):
            self._local.workspace = Workspace(self, len(matrices))
        workspace: Workspace = self._local.workspace
        records = workspace.placed(matrices)
        self.function(rows, records.ctypes.data)

    def bind(
        self, matrices: Matrices
    ) -> tuple[list[npt.NDArray[Any]], Callable[[int, int], Any], Workspace]:
        """Copy inputs and outputs to places that stay, and return these, a ``run(rows, address)`` that works on them, and what has the address."""
        places, workspace = (
            [self.room(matrix) for matrix in matrices],
            Workspace(self, len(matrices)),
        )
        workspace.place(places)
        return places, self.function, workspace


class Workspace:
    """What a call has for itself, so that one thread at a time may make it.

    Attributes
    ----------
    scratch : tuple of arrays
    address : int
        Of the records that the function reads.
    """

    def __init__(self, loop: Loop, matrices: int) -> None:
        self.scratch = tuple(
            loop.room(np.zeros(size, dtype)) for dtype, size in loop.scratch.items()
        )
        self._kept = (*loop.tables, *self.scratch)
        self._records = np.array(
            [
                (0, address)
                for address in [0] * matrices + [array.ctypes.data for array in self._kept]
            ],
            np.int64,
        )
        self.address: int = self._records.ctypes.data

    def place(self, matrices: Matrices) -> None:
        """Say where inputs and outputs lie."""
        self._records[: len(matrices), 1] = [matrix.ctypes.data for matrix in matrices]

    def placed(self, matrices: Matrices) -> npt.NDArray[np.int64]:
        """Return the records of a call whose inputs and outputs lie elsewhere."""
        records = self._records.copy()
        records[: len(matrices), 1] = [matrix.ctypes.data for matrix in matrices]
        return records


def aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy an array to where vector loads want it: a multiple of 64 bytes."""
    space = np.zeros(array.nbytes + 64, np.uint8)
    start = -space.ctypes.data % 64
    copy = space[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
