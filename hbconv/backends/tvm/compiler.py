"""Compile a prepared program: write its function, build it, bind it to its tables."""

from __future__ import annotations

from hbconv.backends.tvm.artifact import Few, Signature, TvmArtifact
from hbconv.backends.tvm.build import build, export
from hbconv.backends.tvm.few import few_rows
from hbconv.backends.tvm.loop import Loop
from hbconv.backends.tvm.machine import Machine
from hbconv.backends.tvm.program import write_function
from hbconv.backends.tvm.schedule import Schedule
from hbconv.errors import BackendError
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["FEW", "compile_loop", "compile_program"]


FEW = Schedule(tile=8, block=8, lanes=8)
"""For one row to a few: the smallest tile of which each vector fills a register."""


def compile_program(program: TensorProgram, schedule: Schedule, machine: Machine, target: Target) -> TvmArtifact:
    """Return the artifact of a program that holds only primitives of this backend."""
    if not program.inputs:
        raise BackendError("Backend 'tvm' cannot run a program that reads no input: its number of rows is unknown.")
    inputs = {i.name: (i.type.dtype, i.type.shape) for i in program.inputs}
    types = {name: program.instructions[index].type for name, index in program.outputs.items()}
    outputs = {name: (kind.dtype, kind.shape) for name, kind in types.items()}
    few = Few(few_rows(program), lambda: compile_loop(program, FEW, machine))
    return TvmArtifact(compile_loop(program, schedule, machine), Signature(inputs, outputs), target.threads, few)


def compile_loop(program: TensorProgram, schedule: Schedule, machine: Machine) -> Loop:
    """Write and build one function."""
    written = write_function(program, schedule, machine)
    executable = build(written.function, machine)
    return Loop(executable["main"], written.tables, written.scratch, lambda: export(executable))
