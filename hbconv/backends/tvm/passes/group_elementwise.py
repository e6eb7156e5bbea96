"""Group elementwise primitives of one shape, so that each group is written as one fused loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hbconv.backends.tvm.passes.views import is_view
from hbconv.tensor import Op, OpKind, TensorProgram
from hbconv.tensor.program import Instruction

__all__ = ["group_elementwise"]

LONGEST = 16
"""Primitives of a group at most: longer loops gain nothing."""


def group_elementwise(
    program: TensorProgram, positions: Iterable[int], in_rows: frozenset[int]
) -> Iterator[tuple[int, ...]]:
    """Yield groups of positions in the order in which they are to be written.

    A group of several primitives becomes one loop. Values of ``in_rows`` stay in the caller's
    matrix and join no group. Any other code ends all groups, whatever it reads: so equal operators
    make equal code.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> program = b.program({"y": b.op("reduce_sum", (x + x) * x, axis=0)})
    >>> list(group_elementwise(program, range(4), frozenset()))
    [(0,), (1, 2), (3,)]
    """
    open_groups: dict[tuple[int, ...], list[int]] = {}
    for position in positions:
        instruction = program.instructions[position]
        fused = position not in in_rows and _is_fused(program, instruction)
        ended = [
            shape
            for shape, group in open_groups.items()
            if _ends(program, group, instruction, fused)
        ]
        for shape in ended:
            yield tuple(open_groups.pop(shape))
        if not fused:
            yield (position,)
            continue
        group = open_groups.setdefault(instruction.type.shape, [])
        group.append(position)
        if len(group) == LONGEST:
            yield tuple(open_groups.pop(instruction.type.shape))
    yield from map(tuple, open_groups.values())


def _is_fused(program: TensorProgram, instruction: Instruction) -> bool:
    """Whether a fused loop computes an instruction, in its vectors."""
    if not isinstance(instruction, Op) or is_view(program, instruction):
        return False
    if instruction.primitive == "take":
        return True
    return instruction.kind is OpKind.ARITHMETIC


def _ends(program: TensorProgram, group: list[int], instruction: Instruction, fused: bool) -> bool:
    """Whether a group must be written before an instruction."""
    reads = isinstance(instruction, Op) and not set(group).isdisjoint(instruction.operands)
    if not fused:
        return reads or not is_view(program, instruction)
    joins = instruction.type.shape == program.instructions[group[0]].type.shape
    # A take reads other entries than the one at hand, which the loop has in registers only.
    return reads and not (joins and getattr(instruction, "primitive", "") != "take")
