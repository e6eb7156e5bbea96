"""Compile a TIR function: a short pipeline of TVM passes, then LLVM."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import compilation_pipeline

from hbconv.backends.tvm.link import link
from hbconv.backends.tvm.loop_files import load_library
from hbconv.backends.tvm.machine import Machine
from hbconv.errors import BackendError

__all__ = ["build", "compile_function"]

PIPELINE = "hbconv_tiles"
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
        return tvm.ir.transform.Sequential(passes), compilation_pipeline.finalize_host_passes, compilation_pipeline.finalize_device_passes

    compilation_pipeline.register_tir_pipeline(PIPELINE, pipeline)
    return PIPELINE


def build(function: Any, machine: Machine) -> tuple[Callable[..., Any], bytes | None]:
    """Compile for this machine, and return the function, and its shared library; None where no linker is installed.

    Programs of one structure, whose tables differ in content only, share both.
    """
    return _build(tvm_ffi.StructuralKey(function), machine)


@lru_cache(maxsize=64)
def _build(structure: Any, machine: Machine) -> tuple[Callable[..., Any], bytes | None]:
    executable = compile_function(structure.key, machine)
    with TemporaryDirectory() as folder:
        compiled, library = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        executable.mod.write_to_file(str(compiled))
        if not link(compiled, library):
            return executable["main"], None
        data = library.read_bytes()
    with suppress(OSError, RuntimeError):  # where temporary files may not be run
        return load_library(data), data
    return executable["main"], data


def compile_function(function: Any, machine: Machine) -> Any:
    """Compile for any machine."""
    try:
        return tvm.compile(tvm.IRModule({"__tvm_ffi_main": function}), target=_target(machine), tir_pipeline=_pipeline())
    except Exception as error:
        raise BackendError(f"TVM could not compile the program: {error}") from error


def _target(machine: Machine) -> Any:
    extras = [f"+{name}" for name in sorted(machine.extras)]
    triple = {"mtriple": machine.triple} if machine.architecture != Machine.host().architecture else {}
    return tvm.target.Target({"kind": "llvm", "mcpu": machine.processor, "mattr": extras, "cl-opt": LLVM_OPTIONS, **triple})
