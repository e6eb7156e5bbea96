"""Build kernels: compile each function or find it in the cache, link them, and load the library."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm
import tvm_ffi

from hbconv.backends.tvm.binary.cache_key import function_key
from hbconv.backends.tvm.binary.code_generation import compile_functions
from hbconv.backends.tvm.binary.jit import load_in_process
from hbconv.backends.tvm.binary.library import load_library
from hbconv.backends.tvm.binary.link import link
from hbconv.backends.tvm.target.calling_convention import KernelFunction
from hbconv.backends.tvm.target.machine import Machine
from hbconv.cache import Cache

__all__ = ["build", "make_objects"]

OBJECT = "kernel.o"

Structures = tuple[tuple[str, Any], ...]
"""Functions by name, compared by their structure."""


def build(functions: Mapping[str, Any], machine: Machine) -> tuple[KernelFunction, bytes | None]:
    """Compile for this machine; return the kernel, and its shared library.

    The library is None if no linker is installed. Programs of one structure, whose tables differ
    in content only, share both. Programs with common subroutines share the code of these.
    """
    return _build(_structures(functions), machine)


def make_objects(functions: Mapping[str, Any], machine: Machine) -> dict[str, bytes]:
    """Return the object file of each function, by its name, for any machine."""
    return {name: _object(name, key, machine) for name, key in _structures(functions)}


def _structures(functions: Mapping[str, Any]) -> Structures:
    return tuple((name, tvm_ffi.StructuralKey(function)) for name, function in functions.items())


@lru_cache(maxsize=64)
def _build(structures: Structures, machine: Machine) -> tuple[KernelFunction, bytes | None]:
    functions = {name: structure.key for name, structure in structures}
    library = link(make_objects(functions, machine))
    if library is not None:
        with suppress(OSError):  # if files may not be executed
            return load_library(library), library
    return load_in_process(functions, machine), library


@lru_cache(maxsize=256)
def _object(name: str, structure: Any, machine: Machine) -> bytes:
    """Take the object file of one function from the cache, or compile it.

    A retrained model finds the code of the model before.
    """
    cache = Cache.chosen()
    key = function_key(name, tvm.ir.save_json(structure.key), machine)
    kept = (cache.read(key) or {}).get(OBJECT)
    if kept is not None:
        return kept
    made = _compiled(name, structure, machine)
    cache.write(key, {OBJECT: made})
    return made


def _compiled(name: str, structure: Any, machine: Machine) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, OBJECT)
        compile_functions({name: structure.key}, machine).mod.write_to_file(str(path))
        return path.read_bytes()
