"""Flatten programs that treat every entry of a matrix alike: their tiles are runs of entries."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND, join_flags
from hbconv.backends.tvm.passes.outline import LARGEST_WHOLE
from hbconv.backends.tvm.target.schedule import Schedule
from hbconv.tensor import ELEMENTWISE, Constant, Op, TensorProgram, TensorType
from hbconv.tensor.program import Instruction

__all__ = ["FlatProgram", "flatten"]

TILE_ENTRIES = 1024
"""Entries of a tile, if the width divides them."""
MAX_TILE_ENTRIES = 4096


@dataclass(frozen=True)
class FlatProgram:
    """A program over the entries of matrices of ``width`` columns; a tile holds whole rows."""

    program: TensorProgram
    width: int
    schedule: Schedule


def flatten(program: TensorProgram, schedule: Schedule) -> FlatProgram | None:
    """Return the program over entries, or None if it needs rows.

    It needs no rows if all values have one width, and each entry depends on its column alone.
    """
    program = join_flags(program)
    width = program.inputs[0].type.shape[0]
    tile = math.lcm(width, schedule.lanes)
    if not 1 <= tile <= MAX_TILE_ENTRIES or not _fits(program, width):
        return None
    tile *= max(1, TILE_ENTRIES // tile)
    instructions = tuple(_as_entries(i) for i in program.instructions)
    return FlatProgram(
        replace(program, instructions=instructions), width, Schedule(tile, tile, schedule.lanes)
    )


def _fits(program: TensorProgram, width: int) -> bool:
    outputs = (program.instructions[index] for index in program.outputs.values())
    return (
        len(program.instructions) <= LARGEST_WHOLE
        and not any(isinstance(output, Constant) for output in outputs)
        and all(_is_flat(i, width) for i in program.instructions)
    )


def _is_flat(instruction: Instruction, width: int) -> bool:
    if isinstance(instruction, Constant):
        return instruction.value.data.size == 1 or instruction.value.data.shape == (width,)
    if isinstance(instruction, Op) and instruction.primitive == FLAG_BEYOND:
        return len(instruction.attributes["columns"]) == width
    if instruction.type.shape != (width,):
        return False
    return not isinstance(instruction, Op) or _reads_one_entry(instruction)


def _reads_one_entry(op: Op) -> bool:
    return op.primitive == "expand" or op.kind in ELEMENTWISE


def _as_entries(instruction: Instruction) -> Instruction:
    """Give a value one column; constants are repeated when they are placed."""
    if isinstance(instruction, Constant):
        return instruction
    return replace(instruction, type=TensorType(instruction.type.dtype, (1,)))
