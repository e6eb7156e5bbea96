"""Compile a prepared program: write its function, build it, bind it to its tables."""

from __future__ import annotations

from hbconv.backends.tvm.artifact import Signature, TvmArtifact
from hbconv.backends.tvm.build import build, export
from hbconv.backends.tvm.machine import Machine
from hbconv.backends.tvm.program import write_function
from hbconv.backends.tvm.schedule import Schedule
from hbconv.errors import BackendError
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["compile_program"]


def compile_program(program: TensorProgram, schedule: Schedule, machine: Machine, target: Target) -> TvmArtifact:
    """Return the artifact of a program that holds only primitives of this backend."""
    if not program.inputs:
        raise BackendError("Backend 'tvm' cannot run a program that reads no input: its number of rows is unknown.")
    written = write_function(program, schedule, machine)
    inputs = {i.name: (i.type.dtype, i.type.shape) for i in program.inputs}
    types = {name: program.instructions[index].type for name, index in program.outputs.items()}
    outputs = {name: (kind.dtype, kind.shape) for name, kind in types.items()}
    executable = build(written.function, machine)
    signature = Signature(inputs, outputs, written.scratch)
    return TvmArtifact(executable["main"], written.tables, signature, target.threads, lambda: export(executable))
