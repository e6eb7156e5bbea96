"""Load shared libraries of kernels, from memory where the system can.

This is the one place that chooses how. Systems whose libraries hbconv cannot link (Windows, macOS)
load what their compilers made from a file.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from contextlib import suppress

from hbconv.backends.tvm.machine.calling_convention import SYMBOL, KernelFunction, Record
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.errors import BackendError
from hbconv.system.temporary import memory_file, temporary_folder

__all__ = ["LIBRARY", "load_library", "load_library_of"]

LIBRARY = "kernel.so"

if sys.platform == "win32":
    from _ctypes import FreeLibrary as close_library  # noqa: N813
else:
    from _ctypes import dlclose as close_library


def load_library_of(machine: Machine, library: bytes) -> KernelFunction:
    """Return the kernel of a library; for a machine that this one does not run, a refusal."""
    return load_library(library) if Machine.host().runs(machine) else _refuse_to_run


def _refuse_to_run(record: Record) -> None:  # noqa: ARG001
    raise BackendError("This kernel was compiled for another machine, and can only be stored.")


def load_library(library: bytes) -> KernelFunction:
    """Return the kernel of a shared library, which is unloaded when nothing refers to it.

    Raises
    ------
    OSError
        It is no library of this system, or files may not be executed.
    OptionError
        There is no place for files.
    AttributeError
        It has no kernel, as libraries of former versions.
    """
    kernel = _load(library)[SYMBOL]
    kernel.restype = None  # it is always 0
    return kernel


def _load(library: bytes) -> ctypes.CDLL:
    """Load from memory where the system can, which needs no folder that may be written to."""
    # A system may forbid files in memory or running them; then a folder is tried.
    with suppress(OSError), memory_file(LIBRARY) as file:
        with os.fdopen(file.descriptor, "wb", closefd=False) as stream:
            stream.write(library)
        return _open(file.path)
    with temporary_folder() as folder:
        path = folder / LIBRARY
        path.write_bytes(library)
        return _open(str(path))


def _open(path: str) -> ctypes.CDLL:
    """Open a library until nothing refers to it.

    It stays open when the interpreter ends, since other threads may still run its code.
    """
    library = ctypes.CDLL(path)
    # ctypes never unloads a library itself, and a server may load thousands of models.
    weakref.finalize(library, close_library, library._handle).atexit = False  # noqa: SLF001
    return library
