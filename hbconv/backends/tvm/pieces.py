"""Pieces: runs of a long program's operators that become functions of their own, since LLVM's time grows faster than a function does."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from hbconv.array import Array
from hbconv.backends.tvm.memory import Place
from hbconv.backends.tvm.movement import view
from hbconv.backends.tvm.row_products import SCALING
from hbconv.tensor import Constant, Input, Op, TensorProgram

__all__ = ["WHOLE", "Piece", "cut"]

WHOLE = 100
"""Operators up to which a program stays one function."""
LONGEST = 48
"""Operators of a piece at most."""
REPEATED = 3
"""Times that operators must follow each other alike to be cut where they begin again."""
TOGETHER = 16
"""Operators that a piece of repeated ones has about."""


ROW_PRIMITIVES = frozenset({"matmul", *SCALING})
"""What may read an input where the caller has it, by rows."""


class Piece(NamedTuple):
    """Positions of instructions in order, and whether they are to be a function of their own."""

    positions: tuple[int, ...]
    apart: bool


class _Step(NamedTuple):
    """An instruction after views that it may read, and what equal code comes from; None for what must stay in the loop over tiles."""

    positions: tuple[int, ...]
    sign: Hashable


def cut(program: TensorProgram) -> Iterator[Piece]:
    """Cut a program's inputs and operators into pieces.

    Where the same operators follow each other again and again, as in rounds of predictions, pieces begin where they do, to share their code.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> list(cut(b.program({"y": x + x})))
    [Piece(positions=(0, 1), apart=False)]
    """
    steps = list(_steps(program))
    if len(steps) <= WHOLE:
        yield _joined(steps, apart=False)
        return
    signs, at = [step.sign for step in steps], 0
    while at < len(steps):
        count = _length(signs, at)
        yield _joined(steps[at : at + count], apart=count > 1)
        at += count


def _joined(steps: Sequence[_Step], apart: bool) -> Piece:
    return Piece(tuple(position for step in steps for position in step.positions), apart)


def _length(signs: Sequence[Hashable], at: int) -> int:
    """Return how many steps make the next piece: some turns of what is repeated, else all before a repetition, or before what stays in the loop."""
    if turn := _turn(signs, at):
        return turn * max(1, TOGETHER // turn)
    end = at + 1
    while end < min(at + LONGEST, len(signs)) and None not in signs[at : end + 1] and not _turn(signs, end):
        end += 1
    return end - at


def _turn(signs: Sequence[Hashable], at: int) -> int:
    """Return the number of steps that follow themselves alike for a piece at least, and three times; 0 where there are none."""
    for turn in range(1, TOGETHER + 1):
        span = turn * max(REPEATED, TOGETHER // turn)
        if None not in signs[at : at + span] and len(signs) >= at + span and signs[at : at + span - turn] == signs[at + turn : at + span]:
            return turn
    return 0


def _steps(program: TensorProgram) -> Iterator[_Step]:
    """Attach views, which are no code, to the next instruction that is; what is done to inputs before they are multiplied is none."""
    views: list[int] = []
    rows: set[int] = set()
    for position, instruction in enumerate(program.instructions):
        if isinstance(instruction, Constant):
            continue
        views.append(position)
        if _is_view(program, instruction):
            continue
        sign = None
        if isinstance(instruction, Input) or (instruction.operands[0] in rows and instruction.primitive in ROW_PRIMITIVES):
            rows.add(position)
        else:
            sign = _sign(program, instruction)
        yield _Step(tuple(views), sign)
        views.clear()
    yield _Step(tuple(views), None)


def _is_view(program: TensorProgram, instruction: Any) -> bool:
    """Whether an instruction names another's memory."""
    if not isinstance(instruction, Op):
        return False
    read = (program.instructions[i] for i in instruction.operands)
    places = (Place(i.type.dtype, i.type.shape, data=i.value.data if isinstance(i, Constant) else None) for i in read)
    return view(instruction.primitive, tuple(places), instruction.attributes) is not None


def _sign(program: TensorProgram, op: Op) -> Hashable:
    """Return what tells operators of other code apart; None for those that call or hold other code."""
    if {"forest", "body"} & set(op.attributes):
        return None
    operands = tuple((program.instructions[i].type, isinstance(program.instructions[i], Constant)) for i in op.operands)
    return op.primitive, op.type, operands, tuple((name, _form(value)) for name, value in op.attributes.items())


def _form(value: Any) -> Hashable:
    """Return an attribute without the numbers of its arrays, which are data."""
    if isinstance(value, Array):
        return value.data.dtype.name, value.data.shape
    return tuple(map(_form, value)) if isinstance(value, tuple | list) else value
