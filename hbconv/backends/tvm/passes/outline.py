"""Pieces: runs of a long program's operators that become functions of their own, since LLVM's time grows faster than a function does."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from hbconv.array import Array
from hbconv.backends.tvm.ops.movement import view
from hbconv.backends.tvm.tir.memory import Place
from hbconv.tensor import Constant, Op, TensorProgram

__all__ = ["WHOLE", "Piece", "cut", "is_view"]

WHOLE = 100
"""Operators up to which a program stays one function."""
LONGEST = 48
"""Operators of a piece at most."""
REPEATED = 3
"""Times that operators must follow each other alike to be cut where they begin again."""
TOGETHER = 16
"""Operators that a piece of repeated ones has about."""


class Piece(NamedTuple):
    """Positions of instructions in order, by turns that are alike, and whether they are to be a function of their own."""

    turns: tuple[tuple[int, ...], ...]
    apart: bool


class _Step(NamedTuple):
    """An instruction after views that it may read, and what equal code comes from; None for what must stay in the loop over tiles."""

    positions: tuple[int, ...]
    sign: Hashable


def cut(program: TensorProgram, rows: frozenset[int]) -> Iterator[Piece]:
    """Cut a program's inputs and operators into pieces; ``rows``, and what multiplies them, stay in the loop over tiles.

    Where the same operators follow each other again and again, as in rounds of predictions, pieces begin where they do, to share their code.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> list(cut(b.program({"y": x + x}), frozenset()))
    [Piece(turns=((0, 1),), apart=False)]
    """
    steps = list(_steps(program, rows))
    if len(steps) <= WHOLE:
        yield Piece((_joined(steps),), apart=False)
        return
    signs, at = [step.sign for step in steps], 0
    while at < len(steps):
        turn = _turn(signs, at)
        length, count = (turn, max(1, TOGETHER // turn)) if turn else (_length(signs, at), 1)
        starts = range(at, at + length * count, length)
        yield Piece(
            tuple(_joined(steps[start : start + length]) for start in starts),
            apart=length * count > 1,
        )
        at = starts.stop


def _joined(steps: Sequence[_Step]) -> tuple[int, ...]:
    return tuple(position for step in steps for position in step.positions)


def _length(signs: Sequence[Hashable], at: int) -> int:
    """Return how many steps there are before what is repeated, or stays in the loop."""
    end = at + 1
    while (
        end < min(at + LONGEST, len(signs))
        and None not in signs[at : end + 1]
        and not _turn(signs, end)
    ):
        end += 1
    return end - at


def _turn(signs: Sequence[Hashable], at: int) -> int:
    """Return the number of steps that follow themselves alike for a piece at least, and three times; 0 where there are none."""
    for turn in range(1, TOGETHER + 1):
        span = turn * max(REPEATED, TOGETHER // turn)
        if (
            None not in signs[at : at + span]
            and len(signs) >= at + span
            and signs[at : at + span - turn] == signs[at + turn : at + span]
        ):
            return turn
    return 0


def _steps(program: TensorProgram, rows: frozenset[int]) -> Iterator[_Step]:
    """Attach views, which are no code, to the next instruction that is."""
    views: list[int] = []
    for position, instruction in enumerate(program.instructions):
        if isinstance(instruction, Constant):
            continue
        views.append(position)
        if not is_view(program, instruction):
            yield _Step(
                tuple(views), None if position in rows else _sign(program, instruction, rows)
            )
            views.clear()
    yield _Step(tuple(views), None)


def is_view(program: TensorProgram, instruction: Any) -> bool:
    """Whether an instruction names another's memory."""
    if not isinstance(instruction, Op):
        return False
    read = (program.instructions[i] for i in instruction.operands)
    places = (
        Place(i.type.dtype, i.type.shape, data=i.value.data if isinstance(i, Constant) else None)
        for i in read
    )
    return view(instruction.primitive, tuple(places), instruction.attributes) is not None


def _sign(program: TensorProgram, op: Any, rows: frozenset[int]) -> Hashable:
    """Return what tells operators of other code apart; None for inputs, and for those that call or hold other code, or read rows."""
    if not isinstance(op, Op) or {"forest", "body"} & set(op.attributes) or rows & set(op.operands):
        return None
    operands = tuple(
        (program.instructions[i].type, isinstance(program.instructions[i], Constant))
        for i in op.operands
    )
    return (
        op.primitive,
        op.type,
        operands,
        tuple((name, _form(value)) for name, value in op.attributes.items()),
    )


def _form(value: Any) -> Hashable:
    """Return an attribute without the numbers of its arrays, which are data."""
    if isinstance(value, Array):
        return value.data.dtype.name, value.data.shape
    return tuple(map(_form, value)) if isinstance(value, tuple | list) else value
