"""TvmArtifact: a compiled tile function with its tables, called on plain numpy arrays from any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Arrays, Artifact
from hbconv.errors import BackendError

__all__ = ["Signature", "TvmArtifact"]

LIMIT = 2**31 - 1
"""Row times column must stay below this in one call: indexes are int32."""
SHARE = 1024
"""Rows for which one more thread is worth its start."""


@dataclass(frozen=True)
class Signature:
    """What a tile function takes and gives: dtype and static shape by name, scratch entries by dtype."""

    inputs: dict[str, tuple[str, tuple[int, ...]]]
    outputs: dict[str, tuple[str, tuple[int, ...]]]
    scratch: dict[str, int]

    @property
    def widest(self) -> int:
        """Columns of the widest matrix."""
        return max((int(np.prod(shape)) for _, shape in (*self.inputs.values(), *self.outputs.values())), default=1)


class TvmArtifact(Artifact):
    """A tile function.

    Parameters
    ----------
    function : callable
        ``main(rows, addresses)``, where ``addresses`` says where records of 16 bytes lie, each of which ends in the address
        of an input, an output, a table or scratch, in this order.
    tables : tuple of arrays
    signature : Signature
    threads : int
        Threads a call may use; each takes its own rows and its own scratch.
    library : callable
        Gives the function as a shared library, or None where it cannot be made.
    """

    def __init__(
        self,
        function: Callable[..., None],
        tables: tuple[npt.NDArray[Any], ...],
        signature: Signature,
        threads: int,
        library: Callable[[], bytes | None],
    ) -> None:
        self.function, self.signature, self.threads, self.library = function, signature, threads, library
        self.tables = tuple(aligned(t) for t in tables)
        self._local = threading.local()

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Compute the outputs."""
        arrays = [self._check(name, inputs[name]) for name in self.signature.inputs]
        rows = len(arrays[0])
        outputs = {name: np.empty((rows, *shape), dtype) for name, (dtype, shape) in self.signature.outputs.items()}
        self._run_slices([*arrays, *outputs.values()], rows)
        return outputs

    def files(self) -> dict[str, bytes]:
        """Return the compiled kernel, where a linker is installed to make a library of it."""
        from hbconv.backends.tvm.saved import pack

        library = self.library()
        return {} if library is None else pack(library, self)

    def _check(self, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Refuse what is not as compiled for, since the kernel reads by bare addresses."""
        dtype, shape = self.signature.inputs[name]
        if array.dtype != dtype or array.shape[1:] != shape:
            raise BackendError(f"Input {name!r} is {array.dtype.name}{list(array.shape)}, the compiled program reads {dtype} rows of {shape[0]} columns.")
        return np.require(array, requirements=["C", "A"])

    def _run_slices(self, matrices: list[npt.NDArray[Any]], rows: int) -> None:
        step = max(1, min(-(-rows // min(self.threads, 1 + rows // SHARE)), LIMIT // (self.signature.widest + 1)))
        slices = [(matrices, start, min(start + step, rows)) for start in range(0, rows, step)]
        if self.threads == 1 or len(slices) < 2:
            for cut in slices:
                self._call(*cut)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(lambda cut: self._call(*cut), slices))

    def _call(self, matrices: list[npt.NDArray[Any]], start: int, stop: int) -> None:
        addresses = self._addresses()
        addresses[: len(matrices), 1] = [m[start:stop].ctypes.data for m in matrices]
        self.function(stop - start, addresses.ctypes.data)

    def _addresses(self) -> npt.NDArray[np.int64]:
        """Return the addresses of the thread at hand, which has a scratch of its own: kept, since it is as large for any number of rows."""
        if not hasattr(self._local, "addresses"):
            self._local.scratch = tuple(aligned(np.zeros(size, dtype)) for dtype, size in self.signature.scratch.items())
            matrices = len(self.signature.inputs) + len(self.signature.outputs)
            known = [array.ctypes.data for array in (*self.tables, *self._local.scratch)]
            self._local.addresses = np.array([(0, address) for address in [0] * matrices + known], np.int64)
        addresses: npt.NDArray[np.int64] = self._local.addresses
        return addresses


def aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy an array to where vector loads want it: a multiple of 64 bytes."""
    space = np.zeros(array.nbytes + 64, np.uint8)
    start = -space.ctypes.data % 64
    copy = space[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
