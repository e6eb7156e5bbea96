"""TvmArtifact: a compiled program, called on plain numpy arrays from any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Arrays, Artifact, Bound
from hbconv.backends.tvm.binary.loop import Loop
from hbconv.backends.tvm.binary.thread_pool import share
from hbconv.errors import BackendError

__all__ = ["Few", "Signature", "TvmArtifact"]

LIMIT = 2**31 - 1
"""Row times column must stay below this in one call: indexes are int32."""
BOUND = 1024
"""Rows from which reading and checking them costs little beside computing them."""
MEMORY = 1 << 20
"""Bytes that rows may take which are kept for calls to come."""
SHARE = 1024
"""Rows for which one more thread is worth its start."""
WHOLE = 256
"""What the rows of slices are a multiple of, as tiles mostly are."""


@dataclass(frozen=True)
class Signature:
    """What a program takes and gives: dtype and static shape by name."""

    inputs: dict[str, tuple[str, tuple[int, ...]]]
    outputs: dict[str, tuple[str, tuple[int, ...]]]

    @cached_property
    def widest(self) -> int:
        """Columns of the widest matrix."""
        return max(
            (int(np.prod(shape)) for _, shape in (*self.inputs.values(), *self.outputs.values())),
            default=1,
        )

    def empty(self, rows: int) -> dict[str, npt.NDArray[Any]]:
        """Return arrays for the outputs."""
        return {
            name: np.empty((rows, *shape), dtype) for name, (dtype, shape) in self.outputs.items()
        }


class Few:
    """A loop of its own for few rows at a time, compiled when it is first needed.

    Parameters
    ----------
    rows : int
        Up to how many rows it is the quicker one; 0 where it never is.
    compile : callable
    """

    def __init__(self, rows: int, compile: Callable[[], Loop]) -> None:  # noqa: A002
        self.rows, self._compile, self._lock = rows, compile, RLock()
        self._loop: Loop | None = None

    @property
    def loop(self) -> Loop:
        """The loop."""
        with self._lock:
            if self._loop is None:
                self._loop = self._compile()
            return self._loop


class TvmArtifact(Artifact):
    """A compiled program.

    Parameters
    ----------
    batch : Loop
        For any number of rows.
    signature : Signature
    threads : int
        Threads a call may use; each takes its own rows.
    for_few : Few
    """

    def __init__(self, batch: Loop, signature: Signature, threads: int, for_few: Few) -> None:
        self.batch, self.signature, self.threads, self.for_few = batch, signature, threads, for_few
        many = min(BOUND, MEMORY // (8 * signature.widest))
        self.sizes = tuple(sorted({for_few.rows, many} - {0})) if len(signature.inputs) == 1 else ()

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs."""
        arrays = [self._check(name, inputs[name]) for name in self.signature.inputs]
        rows = len(arrays[0])
        outputs = self.signature.empty(rows)
        self._run_slices(self._loop(rows), [*arrays, *outputs.values()], rows)
        return outputs

    def bind(self, rows: int) -> Bound | None:
        """Address places that stay where they are."""
        if len(self.signature.inputs) != 1:
            return None
        ((dtype, shape),) = self.signature.inputs.values()
        outputs = {
            name: np.zeros_like(output) for name, output in self.signature.empty(rows).items()
        }
        (given, *places), run, workspace = self._loop(rows).bind(
            [np.zeros((rows, *shape), dtype), *outputs.values()]
        )
        return Bound(
            given, dict(zip(outputs, places, strict=True)), run, workspace.address, workspace
        )

    def files(self) -> dict[str, bytes]:
        """Return the compiled loops, where a linker is installed to make libraries of them."""
        from hbconv.backends.tvm.binary.saved import pack

        return pack(self)

    def _loop(self, rows: int) -> Loop:
        return self.for_few.loop if rows <= self.for_few.rows else self.batch

    def _check(self, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Refuse what is not as compiled for, since the kernel reads by bare addresses."""
        dtype, shape = self.signature.inputs[name]
        if array.dtype != dtype or array.shape[1:] != shape:
            raise BackendError(
                f"Input {name!r} is {array.dtype.name}{list(array.shape)}, the compiled program reads {dtype} rows of {shape[0]} columns."
            )
        flags = array.flags
        return (
            array
            if flags.c_contiguous and flags.aligned
            else np.require(array, requirements=["C", "A"])
        )

    def _run_slices(self, loop: Loop, matrices: list[npt.NDArray[Any]], rows: int) -> None:
        """Share the rows among the threads."""
        threads, most = (
            min(self.threads, 1 + rows // SHARE),
            max(1, LIMIT // (self.signature.widest + 1)),
        )
        share(
            [
                partial(_run_slice, loop, matrices, start, stop)
                for start, stop in _slices(rows, threads, most)
            ],
            threads,
        )


def _slices(rows: int, threads: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut rows into slices, each half of what is left for a thread, so that one whose core others use too takes fewer (Polychronopoulos and Kuck, 1987).

    Examples
    --------
    >>> list(_slices(5000, 1, 3000)), list(_slices(5000, 2, 3000))
    ([(0, 3000), (3000, 5000)], [(0, 1280), (1280, 2304), (2304, 3328), (3328, 4352), (4352, 5000)])
    """
    start = 0
    while start < rows:
        left = rows - start
        even = left if threads == 1 else max(SHARE, -(-left // (2 * threads * WHOLE)) * WHOLE)
        yield start, min(start + even, start + most, rows)
        start += min(even, most)


def _run_slice(loop: Loop, matrices: list[npt.NDArray[Any]], start: int, stop: int) -> None:
    loop.run(stop - start, [matrix[start:stop] for matrix in matrices])
