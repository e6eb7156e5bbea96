"""Divide programs: into sections of a long one, into tiles of entries where no row matters.

LLVM's time grows faster than the length of a function, so sections become functions. Views only
rename memory, and need no code.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.backends.tvm.machine.schedule import MAX_TILE_ENTRIES, TILE_ENTRIES, Schedule
from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND, join_flags
from hbconv.tensor import ELEMENTWISE, Constant, Op, OpKind, TensorProgram, TensorType
from hbconv.tensor.program import Instruction

__all__ = [
    "LARGEST_WHOLE",
    "FlatProgram",
    "Section",
    "first_of_run",
    "flatten",
    "is_view",
    "outline",
    "positions_taken",
]

# In sections, 100 imputed columns compiled in seconds, and in one function in minutes.
LARGEST_WHOLE = 100
"""Operators up to which a program stays one function."""
# No timings of the lengths below are kept.
MAX_SECTION_LENGTH = 48
"""Operators of an outlined function at most."""
MIN_REPETITIONS = 3
"""Times that a run of operators must occur in a row for a section to begin with it."""
TARGET_LENGTH = 16
"""Operators that a section of repeated runs has about."""


class Section(NamedTuple):
    """Positions of instructions, one tuple for each repetition of the same operators.

    ``outlined`` is true if they become a function of their own.
    """

    repetitions: tuple[tuple[int, ...], ...]
    outlined: bool


class _Step(NamedTuple):
    """An instruction after the views that it may read.

    Steps of equal ``signature`` make equal code; None marks what must stay in the loop over tiles.
    """

    positions: tuple[int, ...]
    signature: Hashable


def outline(program: TensorProgram, in_rows: frozenset[int]) -> Iterator[Section]:
    """Split a program's inputs and operators into sections.

    Values of ``in_rows``, and what multiplies them, stay in the loop over tiles. Where a run of
    operators is repeated, as by rounds of predictions, sections begin with it, to share code.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> list(outline(b.program({"y": x + x}), frozenset()))
    [Section(repetitions=((0, 1),), outlined=False)]
    """
    steps = list(_steps(program, in_rows))
    if len(steps) <= LARGEST_WHOLE:
        yield Section((_join_positions(steps),), outlined=False)
        return
    signatures = [step.signature for step in steps]
    begin = 0
    while begin < len(steps):
        length, count = _section_at(signatures, begin)
        starts = range(begin, begin + length * count, length)
        repetitions = tuple(_join_positions(steps[start : start + length]) for start in starts)
        yield Section(repetitions, outlined=length * count > 1)
        begin = starts.stop


def _join_positions(steps: Sequence[_Step]) -> tuple[int, ...]:
    return tuple(position for step in steps for position in step.positions)


def _section_at(signatures: Sequence[Hashable], begin: int) -> tuple[int, int]:
    """Return the number of steps that a section repeats, and how often."""
    run = _repeated_run(signatures, begin)
    if run:
        return run, max(1, TARGET_LENGTH // run)
    return _length(signatures, begin), 1


def _length(signatures: Sequence[Hashable], begin: int) -> int:
    """Return the number of steps before a repeated run, or a step that stays in the loop."""
    end = begin + 1
    while (
        end < min(begin + MAX_SECTION_LENGTH, len(signatures))
        and None not in signatures[begin : end + 1]
        and not _repeated_run(signatures, end)
    ):
        end += 1
    return end - begin


def _repeated_run(signatures: Sequence[Hashable], begin: int) -> int:
    """Return the length of a run that is repeated often enough for a section; 0 if none is."""
    for run in range(1, TARGET_LENGTH + 1):
        span = run * max(MIN_REPETITIONS, TARGET_LENGTH // run)
        if (
            None not in signatures[begin : begin + span]
            and len(signatures) >= begin + span
            # A run repeats where the steps equal themselves shifted by its length.
            and signatures[begin : begin + span - run] == signatures[begin + run : begin + span]
        ):
            return run
    return 0


def _steps(program: TensorProgram, in_rows: frozenset[int]) -> Iterator[_Step]:
    """Attach views, which need no code, to the next instruction that does."""
    views: list[int] = []
    for position, instruction in enumerate(program.instructions):
        if isinstance(instruction, Constant):
            continue
        views.append(position)
        if not is_view(program, instruction):
            fixed = position in in_rows
            yield _Step(tuple(views), None if fixed else _signature(program, instruction, in_rows))
            views.clear()
    yield _Step(tuple(views), None)


def _signature(program: TensorProgram, op: Any, in_rows: frozenset[int]) -> Hashable:
    """Return what determines an operator's code.

    None for inputs, for operators that call or hold other code, and for those that read rows.
    """
    # Forests are subroutines already, and these call no others.
    if not isinstance(op, Op) or {"forest", "body"} & set(op.attributes):
        return None
    if in_rows & set(op.operands) or op.primitive == FLAG_BEYOND:
        return None
    read = [program.instructions[i] for i in op.operands]
    operands = tuple((i.type, isinstance(i, Constant)) for i in read)
    attributes = tuple((name, _form(value)) for name, value in op.attributes.items())
    return op.primitive, op.type, operands, attributes


def _form(value: Any) -> Hashable:
    """Return an attribute without the numbers of its arrays, which are data and not code."""
    if isinstance(value, Array):
        return value.data.dtype.name, value.data.shape
    return tuple(map(_form, value)) if isinstance(value, tuple | list) else value


def is_view(program: TensorProgram, instruction: Any) -> bool:
    """Whether an instruction is a reshape, an expansion, or a run of neighbouring entries."""
    if not isinstance(instruction, Op):
        return False
    if instruction.primitive != "take":
        return instruction.kind is OpKind.VIEW
    x, indices = (program.instructions[i] for i in instruction.operands)
    if not isinstance(indices, Constant):
        return False
    axis = instruction.attributes["axis"]
    return first_of_run(x.type.shape, indices.value.data, axis) is not None


def positions_taken(extent: int, indices: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the positions that ``take`` reads on an axis; negative ones count from its end."""
    return np.where(indices < 0, indices + extent, indices).astype(np.int32)


def first_of_run(shape: tuple[int, ...], indices: npt.NDArray[Any], axis: int) -> int | None:
    """Return the first of neighbouring positions; None if they are scattered or the axis is inner.

    Examples
    --------
    >>> first_of_run((5,), np.array([2, 3]), 0), first_of_run((5,), np.array([3, 2]), 0)
    (2, None)
    """
    wanted = positions_taken(shape[axis], indices)
    if not len(wanted) or any(d != 1 for d in shape[:axis]) or np.any(np.diff(wanted) != 1):
        return None
    return int(wanted[0])


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
    # Both rows and vectors must end where a tile ends.
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
        # Such a constant repeats along the entries of whole rows.
        return instruction.value.data.size == 1 or instruction.value.data.shape == (width,)
    if isinstance(instruction, Op) and instruction.primitive == FLAG_BEYOND:
        # A tile of entries has no columns, so a look at some of them needs rows.
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
