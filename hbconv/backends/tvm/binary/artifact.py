"""Artifacts: compiled programs that run on numpy arrays, from any number of threads.

An artifact is stored as the files of its loops and a description of their arguments.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import ColumnArrays
from hbconv.backends.base import Artifact, Bound
from hbconv.backends.tvm.binary.guards import make_loop
from hbconv.backends.tvm.binary.loop import (
    ColumnAddresses,
    CompiledLoop,
    pack_loop,
    share,
    unpack_loop,
)
from hbconv.backends.tvm.binary.machine_files import DESCRIPTION, FORMAT, choose_files
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.errors import BackendError, StoreError

__all__ = ["Signature", "SmallBatchLoop", "TvmArtifact", "pack", "unpack"]

Rows = npt.NDArray[Any] | ColumnArrays
"""An input or output of a call."""
MAX_INDEX = 2**31 - 1
"""Row times column stays below this in one call, since positions are int32."""
MAX_BOUND_ROWS = 1024
"""Rows from which reading and checking them costs little compared with computing them."""
MAX_BOUND_BYTES = 1 << 20
"""Bytes that the rows of a bound call may take; they are kept for the calls to come."""
# No timings of this choice are kept.
ROWS_PER_THREAD = 1024
"""Rows that one more thread is worth its start for."""
# Slices of 256 rows cost 100,000 rows 1.8 % of processor time with 8 leaves and 4.6 % with 31;
# slices of 512 cost 1.0 and 1.4 %.
FULL_TILES = 512
"""Rows that parts of a call are a multiple of, so that tiles of rows are full."""
# A frame of 200,000 rows by 28 columns took 46 ms when all was copied first, and 9 ms in such
# parts.
COPIED_BYTES = 1 << 19
"""Bytes of rows that are copied at a time where they are not contiguous."""
# 100 rows of 28 columns took 31 us where they lay and 23 copied.
LEAST_ROWS = 256
"""Rows from which columns are read where they lie: fewer take less time to copy than to list."""
NO_LIBRARY = (
    "This machine cannot make a library of the compiled kernel. "
    "The model is stored without it, and loading the model compiles it again, which needs TVM. "
    "To store the kernel, set TMPDIR to a folder that has room; outside Linux also install a C "
    "compiler (gcc, clang). Then convert the model again in a new process."
)


@dataclass(frozen=True)
class Signature:
    """What a program takes and returns: dtype and static shape by name."""

    inputs: dict[str, tuple[str, tuple[int, ...]]]
    outputs: dict[str, tuple[str, tuple[int, ...]]]

    @cached_property
    def widest(self) -> int:
        """Columns of the widest matrix."""
        matrices = (*self.inputs.values(), *self.outputs.values())
        return max((int(np.prod(shape)) for _, shape in matrices), default=1)

    def empty(self, rows: int) -> dict[str, npt.NDArray[Any]]:
        """Return arrays for the outputs."""
        return {
            name: np.empty((rows, *shape), dtype) for name, (dtype, shape) in self.outputs.items()
        }


class SmallBatchLoop:
    """A loop for few rows at a time, compiled at its first use.

    Parameters
    ----------
    rows : int
        Rows up to which it is faster than the loop for any number of rows; 0 if it never is.
    compile : callable
    """

    def __init__(self, rows: int, compile: Callable[[], CompiledLoop]) -> None:  # noqa: A002
        self.rows = rows
        self._compile = compile
        # Reentrant, since a signal handler may call the model while this thread compiles the loop.
        self._lock = RLock()
        self._loop: CompiledLoop | None = None

    @property
    def loop(self) -> CompiledLoop:
        """The loop."""
        with self._lock:
            if self._loop is None:
                self._loop = self._compile()
            return self._loop


class TvmArtifact(Artifact):
    """A compiled program.

    Parameters
    ----------
    batch : CompiledLoop
        The loop for any number of rows.
    signature : Signature
    threads : int
        Threads that a call may use; each takes its own rows.
    small_batch : SmallBatchLoop
    machine : Machine
        What the loops are compiled for.
    files_elsewhere : callable, optional
        Gives the files to store, where they are not those of the loops.
    """

    most_at = ROWS_PER_THREAD
    """Rows up to which ``run_at`` computes: they need no slices."""

    def __init__(
        self,
        batch: CompiledLoop,
        signature: Signature,
        threads: int,
        small_batch: SmallBatchLoop,
        machine: Machine,
        files_elsewhere: Callable[[], Mapping[str, bytes]] | None = None,
    ) -> None:
        self.batch = batch
        self.signature = signature
        self.threads = threads
        self.small_batch = small_batch
        self.machine = machine
        self._files_elsewhere = files_elsewhere
        self.takes_columns = batch.code.takes_columns
        self.sizes = self._bound_sizes()

    def run(self, inputs: Mapping[str, Rows]) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs."""
        arrays = [self._check(name, inputs[name]) for name in self.signature.inputs]
        rows = len(arrays[0])
        outputs = self.signature.empty(rows)
        self._run_slices(self._loop(rows), [*arrays, *outputs.values()], rows)
        return outputs

    def run_at(self, rows: int, addresses: Sequence[int]) -> None:
        """Compute the outputs of at least one row, and at most ``most_at``.

        Parameters
        ----------
        rows : int
        addresses : sequence of int
            Of the inputs and the outputs: contiguous matrices of the dtypes and widths of the
            signature, which nobody checks.
        """
        self._loop(rows).run_at(rows, addresses)

    def compile_for(self, rows: int) -> None:
        """Compile the loop for few rows, unless there are more."""
        self._loop(rows)

    def bind(self, rows: int) -> Bound | None:
        """Return a call on memory that stays where it is."""
        arguments = {**self.signature.inputs, **self.signature.outputs}
        matrices = [np.zeros((rows, *shape), dtype) for dtype, shape in arguments.values()]
        places, run, workspace = self._loop(rows).bind(matrices)
        first = len(self.signature.inputs)
        inputs = dict(zip(self.signature.inputs, places[:first], strict=True))
        outputs = dict(zip(self.signature.outputs, places[first:], strict=True))
        return Bound(inputs, outputs, run, partial(workspace.record, matrices=places))

    def files(self) -> dict[str, bytes]:
        """Return the files of the compiled loops; none if no library could be made of them."""
        return pack(self) if self._files_elsewhere is None else dict(self._files_elsewhere())

    def _bound_sizes(self) -> tuple[int, ...]:
        """Return the numbers of rows that a call may be bound for."""
        many = min(MAX_BOUND_ROWS, MAX_BOUND_BYTES // (8 * self.signature.widest))
        # Zero rows mean that there is no loop for few rows.
        return tuple(sorted({self.small_batch.rows, many} - {0}))

    def _loop(self, rows: int) -> CompiledLoop:
        # No rows take the batch loop, since a loaded file may hold no loop for few rows.
        return self.small_batch.loop if 0 < rows <= self.small_batch.rows else self.batch

    def _check(self, name: str, array: Rows) -> Rows:
        """Refuse what the program was not compiled for: the kernel reads bare addresses."""
        dtype, shape = self.signature.inputs[name]
        if array.dtype != dtype or array.shape[1:] != shape:
            raise BackendError(
                f"Input {name!r} is {array.dtype.name}{list(array.shape)}, "
                f"the compiled program reads {dtype} rows of {shape[0]} columns."
            )
        return array

    def _run_slices(self, loop: CompiledLoop, matrices: Sequence[Rows], rows: int) -> None:
        """Share the rows among the threads."""
        threads = min(self.threads, 1 + rows // ROWS_PER_THREAD)
        # Kernels compute positions in int32, so a call may have less than 2**31 entries.
        most = max(1, MAX_INDEX // (self.signature.widest + 1))
        slices = _slices(rows, threads, most)
        share([partial(_run_slice, loop, matrices, start, stop) for start, stop in slices], threads)


def _slices(rows: int, threads: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut rows into slices of at most ``most`` rows, which threads take one after another.

    Each slice is half of what is left for a thread (Polychronopoulos and Kuck, 1987). So a thread
    whose core does other work too takes fewer rows.

    Examples
    --------
    >>> list(_slices(5000, 1, 3000))
    [(0, 3000), (3000, 5000)]
    >>> list(_slices(5000, 2, 3000))
    [(0, 1536), (1536, 2560), (2560, 3584), (3584, 4608), (4608, 5000)]
    """
    start = 0
    while start < rows:
        left = rows - start
        even = left
        if threads > 1:
            # Rounded up to full tiles: a slice that ends within a tile leaves lanes of its vectors
            # idle.
            even = max(ROWS_PER_THREAD, -(-left // (2 * threads * FULL_TILES)) * FULL_TILES)
        yield start, min(start + even, start + most, rows)
        start += min(even, most)


def _run_slice(loop: CompiledLoop, matrices: Sequence[Rows], start: int, stop: int) -> None:
    arguments = [_as_read(loop, matrix[start:stop]) for matrix in matrices]
    given = [argument for argument in arguments if argument is not None]
    if len(given) == len(arguments):
        loop.run(stop - start, given)
        return
    # Rows of another layout are copied in parts, which are still in the cache as the kernel reads
    # them.
    step = _rows_copied(matrices)
    for first in range(start, stop, step):
        part = slice(first, min(first + step, stop))
        loop.run(part.stop - first, [_row_by_row(matrix[part]) for matrix in matrices])


def _as_read(loop: CompiledLoop, x: Rows) -> npt.NDArray[Any] | ColumnAddresses | None:
    """Return rows as the kernel reads them without a copy: by rows or by columns; else None."""
    if isinstance(x, np.ndarray) and x.flags.c_contiguous and x.flags.aligned:
        return x
    return ColumnAddresses.find(x) if loop.code.takes_columns and len(x) >= LEAST_ROWS else None


def _row_by_row(x: Rows) -> npt.NDArray[Any]:
    return np.require(x, requirements=["C", "A"])


def _rows_copied(matrices: Sequence[Rows]) -> int:
    """Return how many rows are copied at a time: they stay in the cache for the kernel."""
    row = max(math.prod(matrix.shape[1:]) * matrix.dtype.itemsize for matrix in matrices)
    return max(1, COPIED_BYTES // max(1, row) // FULL_TILES) * FULL_TILES


def pack(artifact: TvmArtifact) -> dict[str, bytes]:
    """Write the files of an artifact; equal artifacts give equal bytes.

    Without libraries it writes none, and warns.
    """
    loops = {"batch": artifact.batch}
    if artifact.small_batch.rows:
        loops["few"] = artifact.small_batch.loop
    packed = {name: pack_loop(loop) for name, loop in loops.items()}
    # Without libraries the model is stored all the same, and loading it compiles again.
    if not all(packed.values()):
        warnings.warn(NO_LIBRARY, UserWarning, stacklevel=2)
        return {}
    facts = _describe(artifact) | {"loops": list(loops)}
    files = {
        f"{name}.{part}": data for name, parts in packed.items() for part, data in parts.items()
    }
    return files | {DESCRIPTION: json.dumps(facts).encode()}


def _describe(artifact: TvmArtifact) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "system": sys.platform,
        "level": artifact.machine.level,
        "extras": sorted(artifact.machine.extras),
        "vector": artifact.machine.vector,
        **asdict(artifact.signature),
        "few_rows": artifact.small_batch.rows,
    }


def unpack(files: Mapping[str, bytes], threads: int) -> TvmArtifact | None:
    """Read an artifact back; None if this machine or this version of hbconv cannot run it.

    Raises
    ------
    StoreError
        The files are damaged.
    """
    try:
        own = choose_files(files)
        if own is None:
            return None
        facts = json.loads(own[DESCRIPTION])
        loops = {name: make_loop(unpack_loop(_files_of(name, own))) for name in facts["loops"]}
        return TvmArtifact(
            loops["batch"],
            Signature(_matrices(facts["inputs"]), _matrices(facts["outputs"])),
            threads,
            SmallBatchLoop(facts["few_rows"], lambda: loops["few"]),
            Machine(facts["level"], frozenset(facts["extras"]), vector=facts["vector"]),
            # What was read is stored again, with the files of other machines.
            lambda: files,
        )
    except Exception as error:
        # Any failure to read these files means damage, and callers handle one named error.
        raise StoreError(f"The model's compiled kernel cannot be read: {error}") from error


def _files_of(loop: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    prefix = f"{loop}."
    return {
        name.removeprefix(prefix): data for name, data in files.items() if name.startswith(prefix)
    }


def _matrices(facts: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (dtype, tuple(shape)) for name, (dtype, shape) in facts.items()}
