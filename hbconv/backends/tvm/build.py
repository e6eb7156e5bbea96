"""Compile a TIR function: a short pipeline of TVM passes, then LLVM."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import compilation_pipeline

from hbconv.backends.tvm.machine import Machine
from hbconv.errors import BackendError

__all__ = ["build", "export"]

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


def build(function: Any, machine: Machine) -> Any:
    """Compile for a machine and return the executable; ``build(f)["main"]`` is callable.

    Programs of one structure, whose tables differ in content only, share an executable.
    """
    return _build(tvm_ffi.StructuralKey(function), machine)


@lru_cache(maxsize=64)
def _build(structure: Any, machine: Machine) -> Any:
    try:
        return tvm.compile(tvm.IRModule({"__tvm_ffi_main": structure.key}), target=_target(machine), tir_pipeline=_pipeline())
    except Exception as error:
        raise BackendError(f"TVM could not compile the program: {error}") from error


def _target(machine: Machine) -> Any:
    return tvm.target.Target({"kind": "llvm", "mcpu": machine.processor, "mattr": [f"+{name}" for name in sorted(machine.extras)], "cl-opt": LLVM_OPTIONS})


def export(executable: Any) -> bytes | None:
    """Return the executable as a shared library, or None where no linker is installed."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "kernel.so")
        try:
            executable.export_library(str(path))
        except Exception:
            return None
        return path.read_bytes()
