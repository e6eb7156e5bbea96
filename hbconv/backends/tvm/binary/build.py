"""Compile a TIR function: a short pipeline of TVM passes, then LLVM."""

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

from hbconv.backends.tvm.binary.cache import Cache
from hbconv.backends.tvm.binary.cache_key import function_key
from hbconv.backends.tvm.binary.loop import load_library
from hbconv.backends.tvm.target.machine import Machine
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
"""Loops stay loops: unrolling them gains nothing measurable here, and makes LLVM four times as slow.

Straight code stays as written: joining the sums of a matrix product into one vector wider than any register makes it twenty times as slow.
"""


@cache
def _pipeline() -> str:
    """Register the pipeline. It has none of TVM's simplifiers, which forget NaN (``x == x`` is not always true)."""
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
    """Compile for this machine, and return the function ``main``, and its shared library; None where no linker is installed.

    Programs of one structure, whose tables differ in content only, share both; programs that have parts in common, these.
    """
    return _build(
        tuple((name, tvm_ffi.StructuralKey(function)) for name, function in functions.items()),
        machine,
    )


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
        with suppress(OSError, RuntimeError):  # where temporary files may not be run
            return load_library(data), data
    return compile_functions({name: structure.key for name, structure in structures}, machine)[
        "main"
    ], data


@lru_cache(maxsize=256)
def _object(name: str, structure: Any, machine: Machine) -> bytes:
    """Take the object file of one function from the cache, or compile it: a model retrained finds the code of the one before."""
    cache, key = Cache.chosen(), function_key(name, tvm.ir.save_json(structure.key), machine)
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
    try:
        return tvm.compile(
            tvm.IRModule(dict(functions)), target=_target(machine), tir_pipeline=_pipeline()
        )
    except Exception as error:
        raise BackendError(f"TVM could not compile the program: {error}") from error


def _target(machine: Machine) -> Any:
    extras = [f"+{name}" for name in sorted(machine.extras)]
    triple = (
        {"mtriple": machine.triple} if machine.architecture != Machine.host().architecture else {}
    )
    return tvm.target.Target(
        {
            "kind": "llvm",
            "mcpu": machine.processor,
            "mattr": extras,
            "cl-opt": LLVM_OPTIONS,
            **triple,
        }
    )


def link(compiled: Sequence[Path], library: Path) -> bool:
    """Write the library; False where no linker is installed, or none can."""
    return any(
        _runs([*command, "-o", str(library)])
        for command in _commands([str(path) for path in compiled])
    )


def _commands(compiled: list[str]) -> Iterator[list[str]]:
    """Yield what may link: the linker itself, which is quickest, or else a compiler, which knows more of where things lie."""
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


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603
    except OSError:
        return False
