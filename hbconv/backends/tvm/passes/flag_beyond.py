"""Make row flags for large entries one primitive, which can flag a whole tile at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hbconv.array import Array
from hbconv.tensor import Constant, Input, Op, TensorProgram, TensorType
from hbconv.tensor.program import Instruction, renumber

__all__ = ["FLAG_BEYOND", "drop_unread", "join_flags", "join_looks"]

FLAG_BEYOND = "flag_beyond"
"""The primitive that flags each row with an entry beyond a bound, and maybe rows nearby.

Its operand is a matrix. Its attributes are the ``columns`` that it looks at, the ``bound``, and
``allow_nan``: whether NaN is within.
"""
FLAGS = TensorType("bool", ())
"""The type of flags: one for each row."""
JOINS = ("reshape", "concat", "reduce_any")
"""The primitives that join flags."""


class _Look(NamedTuple):
    """A value, and the condition on its entries."""

    operand: int
    bound: float
    allow_nan: bool


def join_looks(program: TensorProgram) -> TensorProgram:
    """Replace ``reduce_any(abs(x) > bound)`` by one primitive where x is columns of an input.

    The primitive comes right after the input: it may read it in place.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> size = b.op("abs", b.input("x", "float64", 2))
    >>> beyond = b.op("gt", size, b.constant([8.0], "float64"))
    >>> print(join_looks(b.program({"flagged": b.reduce("reduce_any", beyond)})))
    %0 = input x : float64[n, 2]
    %1 = flag_beyond %0 columns=[0, 1] bound=8.0 allow_nan=True : bool[n]
    return flagged=%1
    """
    flags: dict[int, Op] = {}
    for position in _behind_flags(program):
        look = _find_look(program, position)
        read = None if look is None else _columns_of_input(program, look.operand)
        if look is not None and read is not None:
            flags[position] = _flag(program.instructions[position], read[0], read[1], look)
    # What the flags were computed from is often read by nothing else.
    return drop_unread(_move_flags(program, flags)) if flags else program


def join_flags(program: TensorProgram) -> TensorProgram:
    """Make an output that flags rows the primitive itself: without views, and for ``isinf`` too.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 2)
    >>> print(join_flags(b.program({"flagged": b.reduce("reduce_any", b.op("isinf", x))})))
    %0 = input x : float64[n, 2]
    %1 = flag_beyond %0 columns=[0, 1] bound=1.7976931348623157e+308 allow_nan=True : bool[n]
    return flagged=%1
    """
    flags: dict[int, Op] = {}
    inside = _behind_flags(program)
    for index in inside & set(program.outputs.values()):
        flag = _find_flag(program, _behind_views(program, index))
        if flag is not None:
            flags[index] = replace(flag, type=program.instructions[index].type)
    kept = [flags.get(i, instruction) for i, instruction in enumerate(program.instructions)]
    return drop_unread(replace(program, instructions=tuple(kept))) if flags else program


def _behind_flags(program: TensorProgram) -> set[int]:
    """Find the values that only determine which rows are flagged: these may be flagged by the tile.

    Outputs of methods have columns. An output without is the flags.
    """
    readers: dict[int, set[int]] = {i: set() for i in range(len(program.instructions))}
    for position, op in enumerate(program.instructions):
        for operand in op.operands if isinstance(op, Op) else ():
            readers[operand].add(position)
    outputs = Counter(program.outputs.values())
    behind: set[int] = set()
    for position, instruction in reversed(list(enumerate(program.instructions))):
        is_flag = outputs[position] == 1 and instruction.type == FLAGS and not readers[position]
        if is_flag or (not outputs[position] and _only_flag(program, readers[position], behind)):
            behind.add(position)
    return behind


def _only_flag(program: TensorProgram, readers: set[int], behind: set[int]) -> bool:
    ops = (_op(program, reader) for reader in readers)
    return bool(readers) and all(
        reader in behind and op is not None and op.primitive in JOINS
        for reader, op in zip(readers, ops, strict=True)
    )


def _find_flag(program: TensorProgram, position: int) -> Op | None:
    """Return the primitive for an instruction that flags rows; None for another instruction."""
    instruction = program.instructions[position]
    if isinstance(instruction, Op) and instruction.primitive == FLAG_BEYOND:
        return instruction
    look = _find_look(program, position)
    if look is None:
        return None
    (width,) = program.instructions[look.operand].type.shape
    return _flag(instruction, look.operand, np.arange(width), look)


def _find_look(program: TensorProgram, position: int) -> _Look | None:
    """Read ``reduce_any`` of a condition on the sizes of entries; None for anything else."""
    op = _op(program, position)
    if op is None or op.primitive != "reduce_any":
        return None
    if len(program.instructions[op.operands[0]].type.shape) != 1:
        return None
    condition = _op(program, _behind_views(program, op.operands[0]))
    if condition is None:
        return None
    if condition.primitive == "isinf":
        dtype = program.instructions[condition.operands[0]].type.dtype
        # Only infinity exceeds the largest number.
        return _Look(condition.operands[0], float(np.finfo(dtype).max), allow_nan=True)
    if condition.primitive == "gt":
        return _sizes(program, condition, allow_nan=True)
    within = _op(program, condition.operands[0]) if condition.primitive == "not" else None
    if within is None or within.primitive != "le":
        return None
    return _sizes(program, within, allow_nan=False)


def _sizes(program: TensorProgram, compare: Op, *, allow_nan: bool) -> _Look | None:
    """Read a comparison of the sizes of entries with one number."""
    size, bound = (program.instructions[i] for i in compare.operands)
    if not isinstance(size, Op) or size.primitive != "abs" or not isinstance(bound, Constant):
        return None
    if bound.value.data.size != 1 or not size.type.dtype.startswith("float"):
        return None
    return _Look(size.operands[0], float(bound.value.data.reshape(())), allow_nan)


def _columns_of_input(program: TensorProgram, position: int) -> tuple[int, Any] | None:
    """Return the input that a value is columns of, and which; None for other values."""
    instruction = program.instructions[position]
    if isinstance(instruction, Input):
        return position, np.arange(*instruction.type.shape)
    if not isinstance(instruction, Op) or instruction.primitive != "take":
        return None
    matrix, columns = (program.instructions[i] for i in instruction.operands)
    if not isinstance(matrix, Input) or not isinstance(columns, Constant):
        return None
    (width,) = matrix.type.shape
    # Negative positions count from the end; a column taken twice is looked at once.
    return instruction.operands[0], np.unique(columns.value.data % width)


def _flag(reduction: Instruction, operand: int, columns: Any, look: _Look) -> Op:
    attributes = {
        "columns": Array.of(np.asarray(columns, np.int32)),
        "bound": look.bound,
        "allow_nan": look.allow_nan,
    }
    return Op(FLAG_BEYOND, (operand,), reduction.type, attributes)


def _behind_views(program: TensorProgram, index: int) -> int:
    op = _op(program, index)
    while op is not None and op.primitive == "reshape":
        index = op.operands[0]
        op = _op(program, index)
    return index


def _op(program: TensorProgram, index: int) -> Op | None:
    instruction = program.instructions[index]
    return instruction if isinstance(instruction, Op) else None


def _move_flags(program: TensorProgram, flags: dict[int, Op]) -> TensorProgram:
    """Put each flag right after its operand."""
    order = sorted(
        range(len(program.instructions)),
        # Between an input (i, 0) and what follows it (i + 1, 0).
        key=lambda i: (flags[i].operands[0], 1, i) if i in flags else (i, 0, i),
    )
    position = {old: new for new, old in enumerate(order)}
    instructions = (flags.get(old, program.instructions[old]) for old in order)
    return TensorProgram(
        tuple(renumber(instruction, position) for instruction in instructions),
        {name: position[index] for name, index in program.outputs.items()},
    )


def drop_unread(program: TensorProgram) -> TensorProgram:
    """Drop operators and constants that nothing reads any more."""
    read = Counter(program.outputs.values())
    for position, instruction in reversed(list(enumerate(program.instructions))):
        if isinstance(instruction, Op) and read[position]:
            read.update(instruction.operands)
    places: dict[int, int] = {}
    kept: list[Instruction] = []
    for old, instruction in _find_living(program, read):
        places[old] = len(kept)
        kept.append(renumber(instruction, places))
    outputs = {name: places[index] for name, index in program.outputs.items()}
    return TensorProgram(tuple(kept), outputs)


def _find_living(program: TensorProgram, read: Counter[int]) -> Iterator[tuple[int, Instruction]]:
    for position, instruction in enumerate(program.instructions):
        # Inputs stay, since callers pass all of them.
        if read[position] or isinstance(instruction, Input):
            yield position, instruction
