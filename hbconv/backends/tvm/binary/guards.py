"""Guards: detect reads and writes of kernels outside their buffers, for tests.

The environment variable HBCONV_GUARD chooses how, when the first kernel is made. ``canaries``
reports writes outside a buffer. ``pages-behind`` and ``pages-before`` end the process (SIGSEGV) at
any access beyond the end of a buffer, or before its beginning.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.binary.loop import (
    Arguments,
    ColumnAddresses,
    CompiledLoop,
    LoopCode,
    Matrices,
    Workspace,
)
from hbconv.backends.tvm.machine.calling_convention import KernelFunction, Record
from hbconv.backends.tvm.tir.memory import LINE
from hbconv.errors import OptionError, VerificationError
from hbconv.names import unknown

__all__ = ["GuardedLoop", "make_loop"]

VARIABLE = "HBCONV_GUARD"
CANARIES = "canaries"
BEHIND = "pages-behind"
BEFORE = "pages-before"
CANARY = 0xA5
"""The byte next to a buffer."""
LEFTOVER = 0xFF
"""The byte in scratch before a call: floats are then NaN, and ints are -1."""
ROOM = 1024
"""Bytes of canaries on either side of a buffer: twice the longest vector of rows."""
PAGE = mmap.PAGESIZE


def make_loop(code: LoopCode) -> CompiledLoop:
    """Return a loop, guarded if the environment variable requests it.

    Raises
    ------
    OptionError
        The variable has an unknown value, or this system has no such pages.
    """
    how = _read_variable()
    return GuardedLoop(how, code) if how else CompiledLoop(code)


@cache
def _read_variable() -> str:
    how = os.environ.get(VARIABLE, "")
    choices = (CANARIES, BEHIND, BEFORE)
    if how not in ("", *choices):
        raise unknown(VARIABLE, how, choices)
    if how in (BEHIND, BEFORE) and not hasattr(mmap, "MAP_ANONYMOUS"):
        raise OptionError(
            f"{VARIABLE}={how!r} needs protected pages, which this system does not have; "
            f"{CANARIES!r} needs none."
        )
    return how


class _Side(NamedTuple):
    """The bytes on one side of a buffer."""

    name: str
    address: int
    canaries: bytes

    def is_touched(self) -> bool:
        """Whether something was written there."""
        return ctypes.string_at(self.address, len(self.canaries)) != self.canaries


class GuardedLoop(CompiledLoop):
    """A loop on guarded copies of its arguments, whose scratch has leftovers before each call.

    Parameters
    ----------
    how : str
        Value of the environment variable.
    code : LoopCode
    """

    def __init__(self, how: str, code: LoopCode) -> None:
        self.how = how
        super().__init__(code)

    def room(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Copy an array between guards."""
        start, end = self._edges(array.nbytes)
        size = start + array.nbytes + end
        body = np.empty(size + LINE, np.uint8) if self.how == CANARIES else _between_pages(size)
        # Bytes before and behind the copy keep this value unless a kernel writes there.
        body.fill(CANARY)
        # Canaries keep the alignment of a cache line; pages have the buffer end exactly at a
        # protected one.
        start += -(body.ctypes.data + start) % LINE if self.how == CANARIES else 0
        copy: npt.NDArray[Any] = np.ndarray(array.shape, array.dtype, body.data, start)
        copy[...] = array
        return copy

    def run(self, rows: int, matrices: Arguments) -> None:
        """Run on copies of inputs and outputs, and copy the outputs back."""
        places = [self._place(matrix) for matrix in matrices]
        run, workspace = self._checked(places)
        run(workspace.record(rows, places))
        for matrix, place in zip(matrices, places, strict=True):
            # Bytes are compared, since NaN differs from itself.
            if isinstance(matrix, ColumnAddresses) or isinstance(place, ColumnAddresses):
                continue
            if matrix.tobytes() != place.tobytes():
                matrix[...] = place

    def run_in(self, lasting: Matrices, n_matrices: int) -> Callable[[int, Matrices], None]:  # noqa: ARG002
        """Return ``run`` with the matrices that last behind the others."""
        return lambda rows, matrices: self.run(rows, [*matrices, *lasting])

    def bind(self, matrices: Matrices) -> tuple[list[npt.NDArray[Any]], KernelFunction, Workspace]:
        """Return places of inputs and outputs, and a function that runs and checks the guards."""
        places = [self.room(matrix) for matrix in matrices]
        return places, *self._checked(places)

    def _place(self, matrix: npt.NDArray[Any] | ColumnAddresses) -> Any:
        """Copy an argument between guards: of columns each one by itself."""
        if not isinstance(matrix, ColumnAddresses):
            return self.room(matrix)
        columns = [self.room(column) for column in matrix.columns]
        words = np.column_stack([[c.ctypes.data for c in columns], matrix.words[:, 1]])
        return ColumnAddresses(columns, self.room(words))

    def _checked(self, arguments: Arguments) -> tuple[KernelFunction, Workspace]:
        """Return a function that runs and checks the guards, and what makes its records."""
        run, workspace = self.function, Workspace(self, len(arguments))
        places = [
            place
            for x in arguments
            for place in ((*x.columns, x.words) if isinstance(x, ColumnAddresses) else (x,))
        ]
        leftovers = [scratch.view(np.uint8) for scratch in workspace.scratch]
        sides = [
            *self._sides("matrix", places),
            *self._sides("table", self.tables),
            *self._sides("scratch", workspace.scratch),
        ]

        called = ", ".join(f"{place.dtype}{list(place.shape)}" for place in places)

        def run_and_check(record: Record) -> None:
            for scratch in leftovers:
                # A kernel that reads scratch before it writes it gets NaN or -1, so its
                # outputs are wrong.
                scratch.fill(LEFTOVER)
            run(record)
            touched = [side.name for side in sides if side.is_touched()]
            if touched:
                beyond = " and ".join(touched)
                raise VerificationError(
                    f"The kernel called for {record[0]} rows on {called} wrote {beyond}."
                )

        return run_and_check, workspace

    def _edges(self, size: int) -> tuple[int, int]:
        """Return the numbers of canaries before and behind a buffer; they pad pages."""
        rest = -size % PAGE
        return {CANARIES: (ROOM, ROOM), BEHIND: (rest, 0), BEFORE: (0, rest)}[self.how]

    def _sides(self, kind: str, arrays: Matrices) -> Iterator[_Side]:
        """Yield both sides of each buffer."""
        for number, array in enumerate(arrays):
            what = f"{kind} {number}, {array.dtype}{list(array.shape)}"
            address = array.ctypes.data
            start, end = self._edges(array.nbytes)
            yield _Side(f"before the beginning of {what}", address - start, bytes([CANARY]) * start)
            yield _Side(f"past the end of {what}", address + array.nbytes, bytes([CANARY]) * end)


def _between_pages(size: int) -> npt.NDArray[np.uint8]:
    """Return whole pages between two protected pages."""
    space = mmap.mmap(-1, size + 2 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages = np.frombuffer(space, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    # Without these types ctypes would pass the address as an int of 32 bits.
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start in (0, size + PAGE):
        # Protection 0 forbids reads and writes alike.
        if protect(pages.ctypes.data + start, PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    return pages[PAGE : PAGE + size]
