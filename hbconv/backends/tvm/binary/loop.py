"""Compiled loops: a function over rows with its tables, called from any number of threads.

A loop is stored as files: a shared library, and its tables as data. ctypes loads the library, so
reading a loop back needs neither TVM nor a compiler. In place of a matrix it takes the addresses of
columns that lie apart.

Calls share one pool of threads for the process, which is created at its first use, and again after
a fork. The threads of ``concurrent.futures`` do not suit. They stop when the main thread ends,
while others continue. And waking them takes locks: a signal handler or a finalizer that shares work
while its thread holds these locks would wait forever.
"""

from __future__ import annotations

import _thread
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import ColumnArrays
from hbconv.backends.tvm.binary.library import LIBRARY, load_library
from hbconv.backends.tvm.machine.calling_convention import (
    COLUMN_DTYPES,
    KernelFunction,
    Record,
    column_dtypes,
    make_record,
)
from hbconv.system.addresses import address_of

__all__ = [
    "Arguments",
    "ColumnAddresses",
    "CompiledLoop",
    "LoopCode",
    "Matrices",
    "Workspace",
    "pack_loop",
    "scratch_bytes",
    "share",
    "unpack_loop",
]

CODES = {np.dtype(dtype): code for code, dtype in enumerate(COLUMN_DTYPES)}
"""The number of each dtype; that of another byte order equals none of them."""


@dataclass(frozen=True, eq=False)
class ColumnAddresses:
    """Where the columns of an input lie, each of them without gaps.

    Parameters
    ----------
    columns : iterable of arrays of shape (n_rows,)
        They keep the memory alive.
    words : ndarray of int64, shape (n_columns, 2)
        Addresses and numbers of dtypes, as ``hbconv_column`` has them.
    """

    columns: Iterable[npt.NDArray[Any]]
    words: npt.NDArray[np.int64]

    @classmethod
    def find(cls, x: npt.NDArray[Any] | ColumnArrays) -> ColumnAddresses | None:
        """Return the addresses of the columns of an input; None where no kernel reads them.

        Examples
        --------
        >>> rows = np.zeros((2, 3))
        >>> ColumnAddresses.find(rows) is None
        True
        >>> np.diff(ColumnAddresses.find(rows.T).words, axis=0).tolist()
        [[24, 0]]
        """
        if isinstance(x, ColumnArrays):
            return cls._of_arrays(x.columns, column_dtypes(x.dtype.name))
        if x.ndim != 2 or x.strides[0] != x.itemsize or not x.flags.aligned:
            return None
        words = np.full((x.shape[1], 2), CODES[x.dtype], np.int64)
        words[:, 0] = np.arange(x.shape[1]) * x.strides[1] + address_of(x)
        return cls(x.T, words)

    @classmethod
    def _of_arrays(
        cls, columns: Sequence[npt.NDArray[Any]], readable: tuple[str, ...]
    ) -> ColumnAddresses | None:
        codes = [CODES.get(column.dtype, -1) for column in columns]
        if any(code < 0 or COLUMN_DTYPES[code] not in readable for code in codes):
            return None
        # A column with gaps alone is copied: those of others stay where they are.
        columns = [
            c if c.flags.c_contiguous and c.flags.aligned else np.require(c, None, ["C", "A"])
            for c in columns
        ]
        addresses = [address_of(c) for c in columns]
        return cls(columns, np.column_stack([addresses, codes]).astype(np.int64))


Matrices = Sequence[npt.NDArray[Any]]
Arguments = Sequence[npt.NDArray[Any] | ColumnAddresses]
TABLES = "tables.safetensors"
CONSTANT = "constant.safetensors"
FACTS = "loop.json"
LEAST_BYTES_APART = 1 << 12
"""Bytes from which a constant has a file of its own.

Loops and methods of one model share constants, and a saved model holds equal files once: 500 trees
of 31 leaves took 740 kB where constants below 64 KiB stood together, and 463 kB so.
"""
ALIGNMENT = 64
"""Bytes that addresses of tables and scratch are multiples of, as aligned vector loads need."""
Task = Callable[[], None]


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
        The function as a shared library, None if none could be linked.
    takes_columns : bool
        An input may be given column by column.
    constants : sequence of sequences of int
        Entries of each constant of each table, in their order; more entries may follow. A table
        without any is one constant.
    """

    function: KernelFunction
    tables: Matrices
    scratch: dict[str, int]
    library: bytes | None
    takes_columns: bool = False
    constants: Sequence[Sequence[int]] = ()


def scratch_bytes(scratch: Mapping[str, int]) -> int:
    """Return how many bytes so many entries of each dtype take."""
    return sum(size * np.dtype(dtype).itemsize for dtype, size in scratch.items())


class CompiledLoop:
    """A compiled function over rows, with its tables in aligned memory."""

    def __init__(self, code: LoopCode) -> None:
        self.code = code
        self.function = code.function
        self.tables = tuple(self.room(table) for table in code.tables)
        # Each thread has scratch of its own, or calls would overwrite each other.
        self._local = threading.local()

    def room(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Copy an array to memory that the function may work on."""
        return copy_aligned(array)

    def run(self, rows: int, matrices: Arguments) -> None:
        """Compute outputs from inputs of ``rows`` rows, in their order.

        They are C-contiguous arrays. An input may be given by the addresses of its columns.

        Calls of one thread share its scratch, which only the function uses. Each call has its own
        record: a signal handler or a finalizer may call before the function begins.
        """
        self.function(self._workspace(len(matrices)).record(rows, matrices))

    def run_in(self, lasting: Matrices, n_matrices: int) -> Callable[[int, Matrices], None]:
        """Return ``run`` for calls of one thread, whose last matrices are always these.

        ``n_matrices`` is the number of the others. Their addresses alone are written in a call: a
        document has 6, and 13 arrays of scratch.
        """
        workspace = Workspace(self, n_matrices + len(lasting), lasting)

        def run(rows: int, matrices: Matrices) -> None:
            self.function(workspace.record_at(rows, [address_of(matrix) for matrix in matrices]))

        return run

    def run_at(self, rows: int, addresses: Sequence[int]) -> None:
        """Compute outputs from inputs as ``run`` does, given where they lie."""
        self.function(self._workspace(len(addresses)).record_at(rows, addresses))

    def _workspace(self, n_matrices: int) -> Workspace:
        """Return the workspace of this thread."""
        if not hasattr(self._local, "workspace"):
            self._local.workspace = Workspace(self, n_matrices)
        workspace: Workspace = self._local.workspace
        return workspace

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

    def __init__(self, loop: CompiledLoop, n_matrices: int, lasting: Matrices = ()) -> None:
        self.scratch = tuple(
            loop.room(np.zeros(size, dtype)) for dtype, size in loop.code.scratch.items()
        )
        # Records hold bare addresses: without these references the memory would be freed.
        self._kept = (*loop.tables, *self.scratch)
        self._lasting = lasting
        given = [0] * (n_matrices - len(lasting)) + [address_of(array) for array in lasting]
        addresses = [address_of(array) for array in self._kept]
        # The last words say of each matrix whether it is given column by column.
        self._record = make_record(0, given + addresses + [0] * n_matrices)

    def record(self, rows: int, matrices: Arguments) -> Record:
        """Return a record for a call on these inputs and outputs, which the caller keeps alive."""
        # Each call copies the record: a signal handler may call before the kernel has read it.
        record = type(self._record).from_buffer_copy(self._record)
        record[0] = rows
        by_columns = 1 + len(matrices) + len(self._kept)
        for position, matrix in enumerate(matrices):
            if isinstance(matrix, ColumnAddresses):
                record[by_columns + position] = address_of(matrix.words)
            else:
                record[1 + position] = address_of(matrix)
        return record

    def record_at(self, rows: int, addresses: Sequence[int]) -> Record:
        """Return a record for a call on matrices at addresses, which the caller keeps alive."""
        record = type(self._record).from_buffer_copy(self._record)
        record[0] = rows
        record[1 : 1 + len(addresses)] = list(addresses)
        return record


def copy_aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy an array to an aligned address."""
    space = np.zeros(array.nbytes + ALIGNMENT, np.uint8)
    # numpy promises no such alignment, so the copy begins within a larger array.
    start = -address_of(space) % ALIGNMENT
    copy = space[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def pack_loop(loop: CompiledLoop) -> dict[str, bytes]:
    """Return the files of a loop, none if it has no library; equal loops give equal bytes."""
    from safetensors.numpy import save

    code = loop.code
    if code.library is None:
        return {}
    sizes = code.constants or [()] * len(loop.tables)
    # Names are numbers: safetensors orders tensors by itself, and the kernel needs their order.
    parts = {
        f"{i}.{j}": part
        for i, (table, widths) in enumerate(zip(loop.tables, sizes, strict=True))
        for j, part in enumerate(np.split(table, np.cumsum(widths, dtype=np.int64)))
    }
    apart = {name for name, part in parts.items() if part.nbytes >= LEAST_BYTES_APART}
    facts = {
        "scratch": code.scratch,
        "takes_columns": code.takes_columns,
        "constants": [list(widths) for widths in sizes],
    }
    return {
        LIBRARY: code.library,
        TABLES: save({name: part for name, part in parts.items() if name not in apart}),
        **{f"{name}.{CONSTANT}": save({CONSTANT: parts[name]}) for name in sorted(apart)},
        FACTS: json.dumps(facts).encode(),
    }


def unpack_loop(
    files: Mapping[str, bytes], load_kernel: Callable[[bytes], KernelFunction] = load_library
) -> LoopCode:
    """Read the code of a loop back."""
    from safetensors.numpy import load

    parts = load(files[TABLES])
    facts = json.loads(files[FACTS])
    parts |= {
        name.removesuffix(f".{CONSTANT}"): load(data)[CONSTANT]
        for name, data in files.items()
        if name.endswith(f".{CONSTANT}")
    }
    tables = [
        np.concatenate([parts[f"{i}.{j}"] for j in range(len(widths) + 1)])
        for i, widths in enumerate(facts["constants"])
    ]
    return LoopCode(
        load_kernel(files[LIBRARY]),
        tables,
        facts["scratch"],
        files[LIBRARY],
        facts["takes_columns"],
        facts["constants"],
    )


def share(tasks: Sequence[Task], threads: int) -> None:
    """Run independent tasks on ``threads`` threads, one of which is the caller's.

    Each thread takes the next task when it is done with one. The caller runs all tasks if no other
    thread has time, or none can be started. It raises what a task raised.

    Examples
    --------
    >>> done = []
    >>> share([partial(done.append, letter) for letter in "abc"], threads=2)
    >>> sorted(done)
    ['a', 'b', 'c']
    """
    # Threads draw from one iterator, whose next step the lock of the interpreter keeps
    # whole.
    waiting = iter(tasks)
    others = min(threads, len(tasks)) - 1
    if others < 1:
        return _run(waiting)
    ended = SimpleQueue[BaseException | None]()
    seats = iter(range(others))
    for _ in range(others):
        _pool().put(partial(_help, seats, waiting, ended))
    try:
        _run(waiting)
    finally:
        # Taking the seats that are left keeps threads that wake late from running anything.
        free = len(list(seats))
        # Wait for all that began, also after an error: they write to memory of the caller.
        errors = [ended.get() for _ in range(others - free)]
    for error in filter(None, errors):
        raise error
    return None


def _run(tasks: Iterator[Task]) -> None:
    for task in tasks:
        task()


def _help(
    seats: Iterator[int], tasks: Iterator[Task], ended: SimpleQueue[BaseException | None]
) -> None:
    """Run tasks too, if there is a seat: the caller takes the free seats when no task is left."""
    if next(seats, None) is None:
        return
    try:
        _run(tasks)
    except BaseException as error:  # the caller raises it
        ended.put(error)
    else:
        ended.put(None)


class _Pool:
    """Threads that wait for work, at most one for each core; each is started when work comes."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Task] = SimpleQueue()
        self._unstarted = [self._serve] * (os.cpu_count() or 1)

    def put(self, task: Task) -> None:
        """Queue a task for one thread."""
        self._work.put(task)
        # All threads run already, or the interpreter ends and starts none.
        with suppress(IndexError, RuntimeError):
            _thread.start_new_thread(self._unstarted.pop(), ())

    def _serve(self) -> None:
        while True:
            self._work.get()()


@cache
def _pool() -> _Pool:
    return _Pool()


# A child has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
