"""Compile TIR functions by a short pipeline of TVM and by LLVM.

The cache finds a compiled function while this file stays as it is (``cache_key``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx import compilation_pipeline

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.errors import BackendError

__all__ = ["compile_functions"]

PIPELINE = "hbconv_tiles"
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

LLVM_LEVEL = 3
"""How much LLVM optimizes, of 0 to 3. Levels 1 to 3 took the same time for programs of trees."""


@cache
def _pipeline() -> str:
    """Register the pipeline, and return its name.

    It has none of TVM's simplifiers, which forget NaN: ``x == x`` is not always true.
    """
    passes = [
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


def compile_functions(functions: Mapping[str, Any], machine: Machine) -> Any:
    """Compile for any machine."""
    module = tvm.IRModule(dict(functions))
    try:
        return tvm.compile(module, target=_target(machine), tir_pipeline=_pipeline())
    except Exception as error:
        raise BackendError(f"TVM could not compile the program: {error}") from error


def _tuning(machine: Machine) -> list[str]:
    """Have loops load entry by entry: gathers take longer on many processors (Zen 4, Downfall)."""
    return ["+prefer-no-gather"] if machine.architecture == "x86-64" else []


def _target(machine: Machine) -> Any:
    """Return TVM's target; it names the system only for machines of another architecture."""
    facts: dict[str, Any] = {
        "kind": "llvm",
        "mcpu": machine.processor,
        "mattr": [*(f"+{name}" for name in sorted(machine.extras)), *_tuning(machine)],
        "cl-opt": LLVM_OPTIONS,
        "opt-level": LLVM_LEVEL,
    }
    if machine.architecture != Machine.host().architecture:
        facts["mtriple"] = machine.triple
    return tvm.target.Target(facts)
