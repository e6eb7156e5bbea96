"""Load shared libraries of kernels by ctypes: this needs neither TVM nor a compiler."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from hbconv.backends.tvm.target.calling_convention import SYMBOL, KernelFunction

if sys.platform == "win32":
    from _ctypes import FreeLibrary as close_library  # noqa: N813
else:
    from _ctypes import dlclose as close_library

__all__ = ["load_library"]

FILE = "kernel.so"
LOADED = count(1)


def load_library(library: bytes) -> KernelFunction:
    """Return the kernel of a shared library, which is unloaded when nothing refers to it.

    Raises
    ------
    OSError
        It is no library of this system, or files may not be executed.
    AttributeError
        It has no kernel, as libraries of former versions.
    """
    kernel = _load(library)[SYMBOL]
    kernel.restype = None  # it is always 0
    return kernel


def _load(library: bytes) -> ctypes.CDLL:
    """Load from memory where the system can, which needs no folder that may be written to."""
    if hasattr(os, "memfd_create"):
        with suppress(OSError), _in_memory(library) as path:
            return _opened(path)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder, FILE)
        file.write_bytes(library)
        return _opened(str(file))


@contextmanager
def _in_memory(library: bytes) -> Iterator[str]:
    """Yield a path of a file in memory that no library was loaded from before.

    The system would return that library. Numbers of files come again, so the path holds another
    number too: its bits, as steps that lead nowhere.
    """
    file = os.memfd_create(FILE, os.MFD_CLOEXEC)
    try:
        os.write(file, library)
        steps = f"{next(LOADED):b}".replace("0", "/").replace("1", "./")
        yield f"/proc/self/{steps}fd/{file}"
    finally:
        os.close(file)


def _opened(path: str) -> ctypes.CDLL:
    """Open a library until nothing refers to it.

    It stays open when the interpreter ends, since other threads may still run its code.
    """
    library = ctypes.CDLL(path)
    weakref.finalize(library, close_library, library._handle).atexit = False  # noqa: SLF001
    return library
