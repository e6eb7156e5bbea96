"""Compile TIR functions by a short pipeline of TVM and by LLVM, and link them to a library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import compilation_pipeline

from hbconv.backends.tvm.binary.cache_key import function_key
from hbconv.backends.tvm.binary.loop import load_library
from hbconv.backends.tvm.target.machine import Machine
from hbconv.cache import Cache
from hbconv.errors import BackendError

__all__ = ["build", "compile_functions"]

PIPELINE = "hbconv_tiles"
OBJECT = "kernel.o"
COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")
LLVM_OPTIONS = [
    "-unroll-threshold-aggressive:uint=20",
    "-unroll-threshold-default:uint=20",
    "-enable-epilogue-vectorization:bool=false",
    "-vectorize-slp:bool=false",
]
"""Options that keep the code as it was written.

Loops stay loops: unrolling gains nothing measurable here, and makes LLVM four times as slow.
Straight code stays scalar: a matrix product whose sums are joined to a vector wider than any
register is twenty times as slow.
"""


@cache
def _pipeline() -> str:
    """Register the pipeline, and return its name.

    It has none of TVM's simplifiers, which forget NaN: ``x == x`` is not always true.
    """
    passes = [
        tirx.transform.FlattenBuffer(),
        tirx.transform.VerifyMemory(),
        tirx.transform.AnnotateEntryFunc(),
        tirx.transform.SplitHostDevice(),
    ]

    def pipeline() -> tuple[Any, Callable[[], Any], Callable[[], Any]]:
        return (
            tvm.ir.transform.Sequential(passes),
            compilation_pipeline.finalize_host_passes,
            compilation_pipeline.finalize_device_passes,
        )

    compilation_pipeline.register_tir_pipeline(PIPELINE, pipeline)
    return PIPELINE


def build(
    functions: Mapping[str, Any], machine: Machine
) -> tuple[Callable[..., Any], bytes | None]:
    """Compile for this machine; return the function ``main``, and its shared library.

    The library is None if no linker is installed. Programs of one structure, whose tables differ
    in content only, share both. Programs with common subroutines share the code of these.
    """
    structures = ((name, tvm_ffi.StructuralKey(function)) for name, function in functions.items())
    return _build(tuple(structures), machine)


@lru_cache(maxsize=64)
def _build(
    structures: tuple[tuple[str, Any], ...], machine: Machine
) -> tuple[Callable[..., Any], bytes | None]:
    with TemporaryDirectory() as folder:
        library = Path(folder, "kernel.so")
        objects = [Path(folder, f"{name}.o") for name, _ in structures]
        for path, structure in zip(objects, structures, strict=True):
            path.write_bytes(_object(*structure, machine))
        data = library.read_bytes() if link(objects, library) else None
    if data is not None:
        with suppress(OSError, RuntimeError):  # if temporary files may not be executed
            return load_library(data), data
    functions = {name: structure.key for name, structure in structures}
    return compile_functions(functions, machine)["main"], data


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


def compile_functions(functions: Mapping[str, Any], machine: Machine) -> Any:
    """Compile for any machine."""
    module = tvm.IRModule(dict(functions))
    try:
        return tvm.compile(module, target=_target(machine), tir_pipeline=_pipeline())
    except Exception as error:
        raise BackendError(f"TVM could not compile the program: {error}") from error


def _target(machine: Machine) -> Any:
    """Return TVM's target; it names the system only for machines of another architecture."""
    facts: dict[str, Any] = {
        "kind": "llvm",
        "mcpu": machine.processor,
        "mattr": [f"+{name}" for name in sorted(machine.extras)],
        "cl-opt": LLVM_OPTIONS,
    }
    if machine.architecture != Machine.host().architecture:
        facts["mtriple"] = machine.triple
    return tvm.target.Target(facts)


def link(compiled: Sequence[Path], library: Path) -> bool:
    """Write a shared library; return False if no linker is installed, or none succeeds."""
    commands = _link_commands([str(path) for path in compiled])
    return any(_succeeds([*command, "-o", str(library)]) for command in commands)


def _link_commands(compiled: list[str]) -> Iterator[list[str]]:
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
            "-Bsymbolic",
            *compiled,
            "-l:libm.so.6",
        ]
    yield from ([name, "-shared", *compiled] for name in COMPILERS if shutil.which(name))


def _succeeds(command: list[str]) -> bool:
    try:
        ran = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    except OSError:
        return False
    return ran.returncode == 0
