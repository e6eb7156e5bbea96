"""Build kernels: compile each function or find it in the cache, link them, and load the library.

The project's own linker makes the library, and the system's where it cannot. Where no library can
be made of them, the compiled functions run in this process instead.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.binary.cache_key import function_key
from hbconv.backends.tvm.binary.code_generation import compile_functions
from hbconv.backends.tvm.binary.elf import link_objects
from hbconv.backends.tvm.binary.library import LIBRARY, load_library, load_library_of
from hbconv.backends.tvm.machine.calling_convention import SYMBOL, KernelFunction, Record
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.errors import BackendError, OptionError
from hbconv.system.cache import Cache
from hbconv.system.temporary import memory_file, temporary_folder

__all__ = ["build", "compile_text", "link_by_tools", "make_libraries", "make_objects"]

COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")


def make_libraries(objects: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield shared libraries of some object files, each made when it is asked for.

    The first serves unless the system cannot load it. On Linux it is made in memory: without a
    folder, a process, or anything that must be installed.
    """
    if sys.platform == "linux":
        # Linking took 0.6 ms where ld took 10 to 25.
        with suppress(NotImplementedError):
            yield link_objects(objects.values())
    # A full or missing folder for temporary files leaves no other way.
    with suppress(OptionError), temporary_folder() as folder:
        yield from link_by_tools(objects, folder)


def link_by_tools(objects: Mapping[str, bytes], folder: Path) -> Iterator[bytes]:
    """Yield the library of the first linker or compiler that makes one, if any does."""
    paths = {folder / f"{name}.o": data for name, data in objects.items()}
    for path, data in paths.items():
        path.write_bytes(data)
    library = folder / LIBRARY
    for command in _commands([str(path) for path in paths]):
        if _succeeds([*command, "-o", str(library)]):
            yield library.read_bytes()
            return


def _commands(compiled: list[str]) -> Iterator[list[str]]:
    """Yield commands that may link: the linker, which is quickest, then compilers.

    A compiler knows more about where the system's libraries are.
    """
    if sys.platform == "linux" and shutil.which("ld"):
        yield [
            "ld",
            "-shared",
            "--strip-debug",
            "-z",
            "noexecstack",
            # Calls inside the library are bound when it is linked, so two loaded kernels cannot
            # mix.
            "-Bsymbolic",
            *compiled,
            # Named by file, since the link libm.so comes with a compiler and may be missing.
            "-l:libm.so.6",
        ]
    yield from ([name, "-shared", *compiled] for name in COMPILERS if shutil.which(name))


def _succeeds(command: list[str]) -> bool:
    try:
        result = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    except OSError:
        return False
    return result.returncode == 0


OBJECT = "kernel.o"
ROOM = 16 << 20
"""Bytes that must be free for an object; the largest of 1,821 in the tests had 0.2 MB."""

Structures = tuple[tuple[str, Any], ...]
"""Functions by name, compared by their structure."""
NAME = "call"
PACKED = 1
"""TVM's number for the calling convention of tvm_ffi."""
VALUE = 15
"""TVM's number of the field ``value`` of an argument's record."""


def build(functions: Mapping[str, Any], machine: Machine) -> tuple[KernelFunction, bytes | None]:
    """Compile for a machine; return the kernel, and its shared library.

    The library is None where none can be made: no linker knows the objects, or there is no place
    to write them. Programs of one structure, whose tables differ in content only, share both.
    Programs with common subroutines share the code of these.

    Raises
    ------
    BackendError
        No library can be made for a machine that this one does not run.
    """
    if Machine.host().runs(machine):
        return _build(_structures(functions), machine)
    library = next(make_libraries(make_objects(functions, machine)), None)
    if library is None:
        raise BackendError(f"This system cannot link a library for {machine.level}.")
    return load_library_of(machine, library), library


def make_objects(functions: Mapping[str, Any], machine: Machine) -> dict[str, bytes]:
    """Return the object file of each function, by its name, for any machine.

    Raises
    ------
    OptionError
        There is no memory and no folder to write it to.
    """
    return {name: _object(name, key, machine) for name, key in _structures(functions)}


def _structures(functions: Mapping[str, Any]) -> Structures:
    return tuple((name, tvm_ffi.StructuralKey(function)) for name, function in functions.items())


# Methods of a model and retrained models have equal structures, and need no second link.
@lru_cache(maxsize=64)
def _build(structures: Structures, machine: Machine) -> tuple[KernelFunction, bytes | None]:
    functions = {name: structure.key for name, structure in structures}
    made = []
    with suppress(OptionError):  # there is no place for an object
        for library in make_libraries(make_objects(functions, machine)):
            made.append(library)
            # Files may not be executed, or a function is missing.
            with suppress(OSError, OptionError):
                return load_library(library), library
    return load_in_process(functions, machine), next(iter(made), None)


@lru_cache(maxsize=256)
def _object(name: str, structure: Any, machine: Machine) -> bytes:
    """Take the object file of one function from the cache, or compile it.

    A retrained model finds the code of the model before.
    """
    cache = Cache.chosen()
    key = function_key(name, tvm.ir.save_json(structure.key), machine)
    # The text of a function is all that its code depends on, so a change elsewhere in hbconv keeps
    # it.
    cached = (cache.read(key) or {}).get(OBJECT)
    if cached is not None:
        return cached
    data = _compile(name, structure, machine)
    cache.write(key, {OBJECT: data})
    return data


def _compile(name: str, structure: Any, machine: Machine) -> bytes:
    """Compile one function."""
    return _emit(compile_functions({name: structure.key}, machine).mod)


def compile_text(text: str) -> bytes:
    """Return the object of a module that is written in the language of LLVM, as it stands.

    Raises
    ------
    OptionError
        There is no memory and no folder to write it to.
    """
    with temporary_folder() as folder:
        path = folder / "module.ll"
        path.write_text(text)
        return _emit(tvm_ffi.load_module(str(path)))


def _emit(module: Any) -> bytes:
    """Have LLVM write an object to memory, else to a folder."""
    with suppress(OSError), memory_file(OBJECT) as file:
        return _written(module, file.path, os.ftruncate)
    with temporary_folder() as folder:
        return _written(module, str(folder / OBJECT), _allocate)


def _written(module: Any, path: str, reserve: Callable[[int, int], None]) -> bytes:
    """Return the object of a compiled module, which LLVM writes to a file.

    Raises
    ------
    OSError
        There is too little room. LLVM itself would end the process.
    """
    with open(path, "wb") as file:
        reserve(file.fileno(), ROOM)
    # The name of a file in memory says nothing of its format.
    module.write_to_file(path, "o")
    return Path(path).read_bytes()


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def load_in_process(functions: Mapping[str, Any], machine: Machine) -> KernelFunction:
    """Compile a kernel to memory, and return it; TVM stays loaded for it."""
    call = compile_functions({f"__tvm_ffi_{NAME}": _caller(), **functions}, machine)[NAME]

    def kernel(record: Record) -> None:
        # tvm_ffi passes the address as an int; the caller keeps the record alive.
        call(ctypes.addressof(record))

    return kernel


def _caller() -> Any:
    """Write a function of tvm_ffi that calls the kernel."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(f"__tvm_ffi_{NAME}")
        # This is the signature that tvm_ffi calls: its own handle, arguments, their count, and a
        # result.
        T.func_attr({"calling_conv": PACKED})
        T.arg("self", T.handle())
        arguments = T.arg("arguments", T.handle())
        T.arg("count", T.int32())
        T.arg("result", T.handle())
        T.func_ret(ir.PrimType("int32"))
        record = tirx.tvm_struct_get(arguments, 0, VALUE, "handle")
        T.evaluate(tirx.call_extern("int32", SYMBOL, record))
        T.Return(tirx.IntImm("int32", 0))
    return builder.get()
