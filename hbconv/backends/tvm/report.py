"""Count what a program's function holds, reads and writes, without compiling it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hbconv.backends.base import KernelReport
from hbconv.backends.tvm.binary.loop import scratch_bytes
from hbconv.backends.tvm.emit.tile_function import write_function
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND
from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.choose import find_kernel
from hbconv.backends.tvm.trees.tree_kernel import TreeTask
from hbconv.tensor import Constant, Input, Op, TensorProgram

__all__ = ["report_kernel"]


def report_kernel(program: TensorProgram, schedule: Schedule, machine: Machine) -> KernelReport:
    """Report on a prepared program."""
    written = write_function(program, schedule, machine)
    outputs = (program.instructions[index].type for index in program.outputs.values())
    return KernelReport(
        machine=machine.level,
        kernels=1,
        tile=schedule.tile,
        block=schedule.block,
        lanes=schedule.lanes,
        bytes_read=sum(
            len(_columns_read(program, position)) * np.dtype(i.type.dtype).itemsize
            for position, i in _inputs(program)
        ),
        bytes_written=sum(
            int(np.prod(kind.shape)) * np.dtype(kind.dtype).itemsize for kind in outputs
        ),
        table_bytes=sum(table.nbytes for table in written.tables),
        scratch_bytes=scratch_bytes(written.scratch),
        trees=tuple(
            _trees(program, op, schedule, machine)
            for op in program.instructions
            if isinstance(op, Op) and "forest" in op.attributes
        ),
    )


def _inputs(program: TensorProgram) -> Iterator[tuple[int, Input]]:
    """Yield the matrices with their positions."""
    yield from (
        (position, i) for position, i in enumerate(program.instructions) if isinstance(i, Input)
    )


def _columns_read(program: TensorProgram, position: int) -> frozenset[int]:
    """Return the columns of an input that are read.

    Trees read the columns of their splits, ``take`` and flags those that they name, anything else
    all.
    """
    every = frozenset(range(int(np.prod(program.instructions[position].type.shape))))
    if position in program.outputs.values():
        return every
    readers = (op for op in program.instructions if isinstance(op, Op) and position in op.operands)
    return frozenset().union(*(_columns_of(program, op, every) for op in readers))


def _columns_of(program: TensorProgram, op: Op, every: frozenset[int]) -> frozenset[int]:
    if "forest" in op.attributes:
        return frozenset(op.attributes["forest"].feature.data.tolist())
    if op.primitive == FLAG_BEYOND:
        return frozenset(op.attributes["columns"].data.tolist())
    indices = program.instructions[op.operands[1]] if op.primitive == "take" else None
    return frozenset(indices.value.data.tolist()) if isinstance(indices, Constant) else every


def _trees(program: TensorProgram, op: Op, schedule: Schedule, machine: Machine) -> str:
    """Say which kernel runs a tree operator, and in what form its splits read the row."""
    dtype = program.instructions[op.operands[0]].type.dtype
    task = TreeTask(op.attributes["forest"], dtype, op.attributes["strategy"], schedule, machine)
    kernel = find_kernel(task)
    form = _bytes(task.bins, dtype) if kernel.binned else f"tests read {dtype}"
    return f"{op.primitive}: {task.strategy} runs as {kernel.name}; {form}"


def _bytes(bins: Bins, dtype: str) -> str:
    """Count the columns of bytes that a kernel computes from a row."""
    plain, sets = len(bins.first), bins.sets.count
    categories = f", and {sets:,} sets of categories are decided" if sets else ""
    features = f"{len(bins.feature):,} features of {dtype}"
    return f"{features} are binned to {plain:,} columns of bytes{categories}"
