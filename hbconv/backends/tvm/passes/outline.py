"""Outline sections of a long program: LLVM's time grows faster than the length of a function."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from hbconv.array import Array
from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND
from hbconv.backends.tvm.passes.views import is_view
from hbconv.tensor import Constant, Op, TensorProgram

__all__ = ["LARGEST_WHOLE", "Section", "outline"]

LARGEST_WHOLE = 100
"""Operators up to which a program stays one function."""
LONGEST = 48
"""Operators of an outlined function at most."""
MIN_REPETITIONS = 3
"""Times that a run of operators must occur in a row for a section to begin with it."""
TARGET_LENGTH = 16
"""Operators that a section of repeated runs has about."""


class Section(NamedTuple):
    """Positions of instructions, one tuple for each repetition of the same operators.

    ``outlined`` says whether they become a function of their own.
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
        yield Section((_joined(steps),), outlined=False)
        return
    signatures = [step.signature for step in steps]
    begin = 0
    while begin < len(steps):
        length, count = _section_at(signatures, begin)
        starts = range(begin, begin + length * count, length)
        repetitions = tuple(_joined(steps[start : start + length]) for start in starts)
        yield Section(repetitions, outlined=length * count > 1)
        begin = starts.stop


def _joined(steps: Sequence[_Step]) -> tuple[int, ...]:
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
        end < min(begin + LONGEST, len(signatures))
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
