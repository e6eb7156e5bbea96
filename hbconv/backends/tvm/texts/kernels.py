"""Kernels of texts: from the cache, or compiled where TVM is installed."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import lru_cache

from hbconv.backends.tvm.binary.cache_key import compiler_versions, text_key
from hbconv.backends.tvm.binary.guards import make_loop
from hbconv.backends.tvm.binary.library import LIBRARY, load_library
from hbconv.backends.tvm.binary.loop import CompiledLoop, LoopCode, Matrices
from hbconv.backends.tvm.import_tvm import import_tvm
from hbconv.backends.tvm.machine.calling_convention import KernelFunction
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.texts.memory import TextInterface
from hbconv.errors import log_text_kernel
from hbconv.system.cache import Cache

__all__ = ["find_counter", "is_at_hand"]


def find_counter(interface: TextInterface, tables: Matrices) -> CompiledLoop | None:
    """Return a kernel with tables of its interface; None where it can be neither found nor made."""
    made = _find(interface, Machine.host())
    if made is None:
        return None
    function, library = made
    return make_loop(LoopCode(function, tables, {}, library))


def is_at_hand(interface: TextInterface) -> bool:
    """Whether a kernel needs no import of TVM: it is in the cache, or TVM is imported already."""
    return "tvm" in sys.modules or _is_kept(interface, Machine.host())


@lru_cache(maxsize=16)
def _is_kept(interface: TextInterface, machine: Machine) -> bool:
    return bool(Cache.chosen().read(text_key(interface.name, machine)))


@lru_cache(maxsize=16)
def _find(interface: TextInterface, machine: Machine) -> tuple[KernelFunction, bytes | None] | None:
    cache = Cache.chosen()
    key = text_key(interface.name, machine)
    files = cache.read(key)
    # A library of any version of the compiler serves: nothing else than the code decides.
    if files:
        with suppress(Exception):  # whatever is wrong with the file, it is made again
            return load_library(files[LIBRARY]), files[LIBRARY]
    if not compiler_versions():
        return None
    try:
        function, library = _build(interface, machine)
    except Exception as error:  # numpy counts alike, if later
        log_text_kernel(error)
        return None
    cache.write(key, {LIBRARY: library} if library else {})
    return function, library


def _build(interface: TextInterface, machine: Machine) -> tuple[KernelFunction, bytes | None]:
    import_tvm()
    from hbconv.backends.tvm.binary.build import build
    from hbconv.backends.tvm.texts.emit import write_counter

    return build(write_counter(interface), machine)
