"""Chunks of rows: a call of many rows stays within its memory, and within the cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hbconv.target import Target
from hbconv.tensor import Op, TensorProgram
from hbconv.tensor.program import Instruction

__all__ = ["bytes_alive", "bytes_given", "bytes_per_row", "chunks", "rows_per_chunk"]


def bytes_per_row(program: TensorProgram) -> int:
    """Return the bytes of one row in all values of a program: an upper bound, if none is freed.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> bytes_per_row(b.program({"y": x + x}))
    48
    """
    return sum(map(_row_bytes, program.instructions))


def bytes_given(program: TensorProgram) -> int:
    """Bytes that one row takes in the inputs and outputs of a program, at least one.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> bytes_given(b.program({"y": -(-(x + x))}))
    48
    """
    return max(
        1,
        sum(map(_row_bytes, program.inputs))
        + sum(_row_bytes(program.instructions[i]) for i in program.outputs.values()),
    )


def bytes_alive(program: TensorProgram) -> int:
    """Return the most bytes of one row that are alive at once, without the caller's inputs.

    Each value is freed after its last use.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> bytes_alive(b.program({"y": -(-(x + x))}))
    48
    """
    last = {
        operand: position
        for position, op in enumerate(program.instructions)
        if isinstance(op, Op)
        for operand in op.operands
    }
    last |= dict.fromkeys(program.outputs.values(), len(program.instructions))
    alive = most = 0
    ending: dict[int, int] = {}
    for position, op in enumerate(program.instructions):
        if isinstance(op, Op):
            alive += _row_bytes(op)
            most = max(most, alive)
            end = last.get(position, position)
            ending[end] = ending.get(end, 0) + _row_bytes(op)
        alive -= ending.pop(position, 0)
    return most


def rows_per_chunk(program: TensorProgram, target: Target) -> int:
    """Rows of which the values fit in memory, and the living ones in the cache."""
    return min(
        max(1, target.memory // max(1, bytes_per_row(program))),
        target.rows_at_once(bytes_alive(program)),
    )


def chunks(rows: int, size: int) -> Iterator[slice]:
    """Slices that cover the rows; one empty slice where there are none."""
    yield slice(0, min(rows, size))
    for start in range(size, rows, size):
        yield slice(start, min(start + size, rows))


def _row_bytes(instruction: Instruction) -> int:
    """Return the bytes of one row of a value.

    A native tree kernel adds a leaf number and a value for each tree; a repeated program adds all
    its values.
    """
    kind = instruction.type
    forest = instruction.attributes.get("forest") if isinstance(instruction, Op) else None
    own = (
        16 * int(forest.n_trees)
        if forest
        else bytes_per_row(instruction.body)
        if isinstance(instruction, Op) and instruction.body
        else 0
    )
    return own + (np.dtype(kind.dtype).itemsize * int(np.prod(kind.shape)) if kind.rows else 0)
