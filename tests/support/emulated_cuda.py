"""CUDA kernels compiled as C++ for the CPU: the same source, threads as fibres, real barriers."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.compile import macros, source_of
from hbconv.backends.cuda.plan import CudaKernel, Launch, PlannedKernels, launch_all

__all__ = ["Emulated", "EmulatedMemory", "GuardedArray", "run_kernel"]

SHIM = Path(__file__).parent / "cuda_shim.h"
OPTIONS = ("-std=c++17", "-shared", "-fPIC", "-ffp-contract=off", "-w", "-x", "c++")
TRAPS = ("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")
"""A device takes no value from an address that is no multiple of its size: it ends the process."""
LIBC = ctypes.CDLL(None)
PROT_NONE = 0
RUBBISH = 0xAB
ALIGNMENT = 16
"""Bytes that a kernel may read at once."""
SHARED_BYTES = 227 << 10
"""Shared memory of a block of an H100."""
EMULATING = Lock()
"""Fibres are those of the process: one kernel runs at a time."""


class Emulated:
    """A device of two multiprocessors.

    Parameters
    ----------
    reversed_order : bool
        Start the last thread first.
    """

    processors = 2

    def __init__(self, reversed_order: bool = False) -> None:
        self.reversed_order = reversed_order
        self.launched: list[str] = []

    def load(self, launch: Launch) -> Any:
        """Return what runs the kernel, block after block."""
        assert launch.shared_bytes <= SHARED_BYTES
        kernel = compile_for_cpu(launch.kernel)

        def run(stream: Any, blocks: int, passes: int, arguments: Any) -> None:
            self.launched.append(str(launch.kernel))
            sizes = map(ctypes.c_uint, (blocks, passes, launch.threads, launch.shared_bytes))
            with EMULATING:
                kept = kernel.run(arguments, *sizes, self.reversed_order)
            assert kept, f"{launch.kernel}: shared memory"

        return run

    def stream(self) -> None:
        """Return none: kernels run at once."""

    def opened(self) -> AbstractContextManager[Any]:
        return nullcontext()


@cache
def compile_for_cpu(kernel: CudaKernel) -> ctypes.CDLL:
    """Compile a kernel; all processes of a test run share what one has compiled."""
    source = source_of(kernel) + (
        'extern "C" int run(void** arguments, unsigned x, unsigned y, unsigned threads,'
        " unsigned shared, bool last)"
        f" {{ return run_grid<&{kernel.name}>(arguments, x, y, threads, shared, last); }}\n"
    )
    level = "-O0" if kernel.text else "-O1"  # compiling takes longer than a kernel of one model
    options = [level, *OPTIONS, *TRAPS, *macros(kernel), "-include", str(SHIM)]
    key = hashlib.sha256(repr([options, source, SHIM.read_text()]).encode()).hexdigest()
    library = folder() / f"{key[:32]}.so"
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run(["g++", *options, "-", "-o", str(made)], input=source, text=True, check=True)
        made.rename(library)
    return ctypes.CDLL(str(library))


@cache
def folder() -> Path:
    """Return the folder of the compiled kernels, in the test run's cache."""
    named = os.environ.get("HBCONV_CACHE") or mkdtemp()
    path = Path(named, "emulated-cuda")
    path.mkdir(parents=True, exist_ok=True)
    return path


class EmulatedMemory:
    """Memory of an emulated device: arrays, full of rubbish at first.

    Attributes
    ----------
    launcher : Emulated
    """

    def __init__(self, reversed_order: bool = False) -> None:
        self.launcher = Emulated(reversed_order)
        self.taken: dict[int, npt.NDArray[np.uint8]] = {}

    @contextmanager
    def opened(self) -> Iterator[Emulated]:
        yield self.launcher

    def take(self, n_bytes: int) -> int:
        memory = np.full(n_bytes + 1, RUBBISH, np.uint8)
        self.taken[memory.ctypes.data] = memory
        return memory.ctypes.data

    def give(self, address: int) -> None:
        del self.taken[address]

    def write(self, address: int, array: npt.NDArray[Any]) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def read(self, array: npt.NDArray[Any], address: int) -> None:
        assert array.flags.c_contiguous
        ctypes.memmove(array.ctypes.data, address, array.nbytes)


class GuardedArray:
    """An array between two pages that nothing may touch: a read or write of them ends the process.

    The array ends at the second page, but for the bytes that keep it aligned. These, and what is
    left before the array, are rubbish, which nothing may write.

    Parameters
    ----------
    shape, dtype
        Of the array, which is rubbish at first.

    Attributes
    ----------
    array : ndarray
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        behind = -n_bytes % ALIGNMENT
        inside = -(-(n_bytes + behind) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = np.frombuffer(mmap.mmap(-1, inside + 2 * mmap.PAGESIZE), np.uint8)
        for page in (0, mmap.PAGESIZE + inside):
            address = ctypes.c_void_p(memory.ctypes.data + page)
            assert LIBC.mprotect(address, ctypes.c_size_t(mmap.PAGESIZE), PROT_NONE) == 0
        parts = np.split(
            memory[mmap.PAGESIZE :], [inside - behind - n_bytes, inside - behind, inside]
        )
        self._before, own, self._behind, _ = parts
        memory[mmap.PAGESIZE :][:inside] = RUBBISH
        self.array = own.view(dtype).reshape(shape)

    @property
    def kept(self) -> bool:
        """Whether nothing was written beside the array."""
        return bool((self._before == RUBBISH).all() and (self._behind == RUBBISH).all())


def run_kernel(kernel: PlannedKernels, x: npt.NDArray[Any], device: Emulated) -> npt.NDArray[Any]:
    """Run a plan over rows; return what it computes, in guarded memory full of rubbish."""
    guarded = {}
    for name, given in (*kernel.tables.items(), ("x", x)):
        guarded[name] = GuardedArray(given.shape, given.dtype)
        guarded[name].array[...] = given
    for name, buffer in kernel.plan.buffers:
        guarded[name] = GuardedArray(buffer.shape(len(x)), buffer.dtype)
    addresses = {name: memory.array.ctypes.data for name, memory in guarded.items()}
    launch_all(kernel.plan, addresses, len(x), device)
    for name, memory in guarded.items():
        assert memory.kept, (str(kernel.plan.launches), name)
    return guarded["out"].array
