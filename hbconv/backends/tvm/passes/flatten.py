"""Programs that treat each entry of a matrix by itself: their tiles are runs of entries as they lie in memory, not rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops import elementwise, mathematics
from hbconv.backends.tvm.passes.mark_infinite import MARK, join_marks
from hbconv.backends.tvm.passes.outline import WHOLE
from hbconv.backends.tvm.target.schedule import Schedule
from hbconv.backends.tvm.tir.kernel import ANY, Kernel
from hbconv.backends.tvm.tir.memory import Along, Place, storage
from hbconv.tensor import Constant, Op, TensorProgram, TensorType

__all__ = ["Flat", "copy_in", "copy_out", "flatten", "lying"]

ENTRIES, MOST = 1024, 4096
"""Entries of a tile: about so many, and at most."""
PRIMITIVES = frozenset({"expand", *elementwise.EMITTERS, *mathematics.EMITTERS})


@dataclass(frozen=True)
class Flat:
    """A program whose rows are the entries of matrices of so many columns, and a tile of whole rows."""

    program: TensorProgram
    width: int
    schedule: Schedule

    def constant(self, place: Place) -> Place:
        """Repeat a number for each column along the tile."""
        if place.size == 1:
            return place
        return Along(place.dtype, (1,), data=np.resize(place.known(), self.schedule.tile))


def flatten(program: TensorProgram, schedule: Schedule) -> Flat | None:
    """Return the program over entries, where all values have one width and each entry of them depends on that column alone."""
    program, width = join_marks(program), program.inputs[0].type.shape[0]
    tile = math.lcm(width, schedule.lanes)
    constant = any(
        isinstance(program.instructions[index], Constant) for index in program.outputs.values()
    )
    if (
        constant
        or len(program.instructions) > WHOLE
        or not 1 <= tile <= MOST
        or not all(_is_flat(i, width) for i in program.instructions)
    ):
        return None
    instructions = tuple(
        i if isinstance(i, Constant) else replace(i, type=TensorType(i.type.dtype, (1,)))
        for i in program.instructions
    )
    tile *= max(1, ENTRIES // tile)
    return Flat(
        replace(program, instructions=instructions), width, Schedule(tile, tile, schedule.lanes)
    )


def _is_flat(instruction: Any, width: int) -> bool:
    if isinstance(instruction, Constant):
        return instruction.value.data.size == 1 or instruction.value.data.shape == (width,)
    if isinstance(instruction, Op) and instruction.primitive == MARK:
        return True
    return instruction.type.shape == (width,) and (
        not isinstance(instruction, Op) or instruction.primitive in PRIMITIVES
    )


def lying(matrix: Any, first: Any, dtype: str) -> Place:
    """Return the entries of a matrix from the first of a tile on, where they lie."""
    pointer = T.Bind(tirx.reinterpret(T.ptr(storage(dtype)).ty, tirx.address_of(matrix[0, first])))
    return Place(
        dtype,
        (1,),
        buffer=T.decl_buffer(
            (ANY,), storage(dtype), data=pointer, align=np.dtype(storage(dtype)).itemsize
        ),
    )


def copy_in(k: Kernel, place: Place, matrix: Any, first: Any) -> None:
    """Read a tile of entries."""
    for row, entries in _runs(k, first):
        k.store(place, (0,), row, matrix[0, entries])


def copy_out(k: Kernel, matrix: Any, first: Any, place: Place) -> None:
    """Write a tile of entries."""
    for row, entries in _runs(k, first):
        T.buffer_store(matrix, k.load(place, (0,), row), [0, entries])


def _runs(k: Kernel, first: Any) -> Any:
    """Loop over whole vectors of live entries, then over the rest: gives where they lie in the tile and in the matrix."""
    whole = k.bind(k.rows_live // k.lanes)
    with T.serial(whole) as group:
        yield tirx.Ramp(group * k.lanes, 1, k.lanes), tirx.Ramp(first + group * k.lanes, 1, k.lanes)
    with T.serial(k.rows_live - whole * k.lanes) as rest:
        yield whole * k.lanes + rest, first + whole * k.lanes + rest
