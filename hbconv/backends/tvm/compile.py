"""Compile a prepared program: write its function, build it, and attach its tables."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from hbconv.backends.tvm.binary.artifact import Signature, SmallBatchLoop, TvmArtifact, pack
from hbconv.backends.tvm.binary.cache_key import compiler_versions, loop_key
from hbconv.backends.tvm.binary.guards import make_loop
from hbconv.backends.tvm.binary.library import load_library_of
from hbconv.backends.tvm.binary.loop import (
    CompiledLoop,
    LoopCode,
    pack_loop,
    scratch_bytes,
    unpack_loop,
)
from hbconv.backends.tvm.binary.machine_files import join_files
from hbconv.backends.tvm.import_tvm import import_tvm
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import FEW, ONE_ROW, Schedule
from hbconv.backends.tvm.passes.row_limit import along_row_limit
from hbconv.backends.tvm.trees.tree_work import single_row_limit
from hbconv.errors import BackendError
from hbconv.system.cache import Cache
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["compile_loop", "compile_program"]


COMPILER = "compiler"
"""File of a cached loop: the versions of what compiled it."""


def compile_program(
    program: TensorProgram, schedule: Schedule, machine: Machine, target: Target
) -> TvmArtifact:
    """Return the artifact of a program that holds only primitives of this backend."""
    if not program.inputs:
        raise BackendError(
            "Backend 'tvm' cannot run a program that reads no input: its number of rows is unknown."
        )
    inputs = {i.name: (i.type.dtype, i.type.shape) for i in program.inputs}
    types = {name: program.instructions[index].type for name, index in program.outputs.items()}
    outputs = {name: (kind.dtype, kind.shape) for name, kind in types.items()}
    return TvmArtifact(
        _compile_within(target.memory // 2, program, schedule, machine),
        Signature(inputs, outputs),
        target.threads,
        _compile_small_batch(program, machine),
        machine,
        partial(_compile_elsewhere, program, target) if target.machines else None,
    )


def _compile_elsewhere(program: TensorProgram, target: Target) -> dict[str, bytes]:
    """Return the files of a program for all machines that its target names."""
    machines = [Machine.named(name, "machine") for name in target.machines]
    alone = target.replace(machines=())
    by_machine = {
        machine.level: pack(
            compile_program(program, Schedule.construct(program, machine), machine, alone)
        )
        for machine in machines
    }
    return join_files(by_machine)


def _compile_within(
    room: int, program: TensorProgram, schedule: Schedule, machine: Machine
) -> CompiledLoop:
    """Return a loop whose scratch fits: of eight rows at a time where more need too much.

    What no eight rows of fit is refused before its tables are made, which may be as large.
    """
    # A file of a kilobyte that claims 16 million columns took 10 GB before this was checked first.
    _require_room(room, FEW.tile * max(i.type.row_bytes for i in program.instructions))
    loop = compile_loop(program, schedule, machine)
    if scratch_bytes(loop.code.scratch) > room:
        loop = compile_loop(program, FEW, machine)
        _require_room(room, scratch_bytes(loop.code.scratch))
    return loop


def _require_room(room: int, needed: int) -> None:
    if needed > room:
        raise BackendError(
            f"Eight rows at a time take {needed / 1e9:,.1f} GB on backend 'tvm', and half of the "
            f"target's memory is {room / 1e9:,.1f} GB. Give convert(..., memory=) more bytes, or "
            f"use another backend."
        )


def _compile_small_batch(program: TensorProgram, machine: Machine) -> SmallBatchLoop:
    """Return the loop for few rows; none where it is not in the cache, and TVM is missing."""
    rows, schedule = single_row_limit(program, machine), FEW
    if not rows:
        rows, schedule = along_row_limit(program, machine), ONE_ROW
    if not rows or compiler_versions():
        return SmallBatchLoop(rows, lambda: compile_loop(program, schedule, machine))
    try:
        loop = compile_loop(program, schedule, machine)
    except ModuleNotFoundError:
        # The batch loop computes few rows too, only slower.
        rows = 0
    return SmallBatchLoop(rows, lambda: loop)


def compile_loop(program: TensorProgram, schedule: Schedule, machine: Machine) -> CompiledLoop:
    """Take a loop from the cache, or write and build it.

    Where no TVM is installed, the cache may hold what any version compiled.
    """
    cache = Cache.chosen()
    key = loop_key(program, schedule, machine)
    files = cache.read(key)
    compiler = compiler_versions()
    # Without TVM a loop of any version serves, since none could be compiled.
    if files and compiler in (b"", files.get(COMPILER)):
        with suppress(Exception):  # whatever is wrong with the files, the loop is built again
            return make_loop(unpack_loop(files, partial(load_library_of, machine)))
    loop = _build_loop(program, schedule, machine)
    packed = pack_loop(loop)
    cache.write(key, packed and {**packed, COMPILER: compiler})
    return loop


def _build_loop(program: TensorProgram, schedule: Schedule, machine: Machine) -> CompiledLoop:
    import_tvm()
    from hbconv.backends.tvm.binary.build import build
    from hbconv.backends.tvm.emit.row_loop import write_row_loop
    from hbconv.backends.tvm.emit.tile_function import write_function

    if schedule == ONE_ROW:
        written = write_row_loop(program, machine)
    else:
        written = write_function(program, schedule, machine)
    function, library = build(written.functions, machine)
    return make_loop(
        LoopCode(
            function,
            written.tables,
            written.scratch,
            library,
            written.takes_columns,
            written.constants,
        )
    )
