"""Transpose row-major matrices to tiles of columns and back: square blocks, in registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND
from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place, storage
from hbconv.backends.tvm.tir.row_blocks import RowMajorMatrix
from hbconv.tensor import Constant, Input, Op, TensorProgram

__all__ = ["MatrixRows", "columns_used", "live_rows", "read_columns", "write_rows"]

MIN_BYTES = 4
"""Bytes of the smallest numbers that are transposed in blocks; smaller ones are copied singly."""


class MatrixRows(Protocol):
    """A matrix that is read row by row."""

    def load(self, row: Any, column: Any) -> Any:
        """Read an entry of a row, or neighbouring ones."""


def side(k: Kernel, dtype: str, width: int) -> int:
    """Return the rows and columns of a block: a full register, at most the columns or the tile."""
    size = np.dtype(storage(dtype)).itemsize
    largest = min(k.machine.vector // size, width, k.tile) if size >= MIN_BYTES else 1
    # A power of two, since each step of the transposition swaps one bit.
    return 1 << (max(largest, 1).bit_length() - 1)


def starts(columns: Iterable[int], width: int, size: int) -> list[int]:
    """Return the first columns of blocks that hold the given columns, in order.

    Blocks may overlap, and end with the last column.

    Examples
    --------
    >>> starts(range(11), 11, 4), starts([1, 9], 11, 4)
    ([0, 4, 7], [1, 7])
    """
    firsts: list[int] = []
    for column in sorted(columns):
        if not firsts or column >= firsts[-1] + size:
            # The last block is moved back, so that it ends with the row.
            firsts.append(min(column, width - size))
    return firsts


def transpose(vectors: list[Any]) -> list[Any]:
    """Transpose a square of vectors (Eklundh, 1972).

    Each step swaps one bit of the row's number with that bit of the lane's number.
    """
    size = len(vectors)
    gap = size // 2
    while gap:
        low = [lane if not lane & gap else lane - gap + size for lane in range(size)]
        high = [lane + gap if not lane & gap else lane + size for lane in range(size)]
        pairs = {i: (vectors[i & ~gap], vectors[i | gap]) for i in range(size)}
        vectors = [
            T.Bind(tirx.Shuffle(list(pairs[i]), high if i & gap else low)) for i in range(size)
        ]
        gap //= 2
    return vectors


def live_rows(k: Kernel, rows: Any) -> list[Any]:
    """Return the rows of a vector; those past the last live row are that row again."""
    if k.tile == 1:
        return [rows]
    if k.tile == 1:
        return [rows]
    # A read past the last row would leave the memory of the caller.
    return [T.Bind(tirx.min(rows.base + i, k.rows_live - 1)) for i in range(int(rows.lanes))]


def columns_used(program: TensorProgram, matrix: Input) -> list[int]:
    """Return the columns of an input that its readers take; all if one reads it whole.

    Flags are read from the rows.
    """
    index = program.instructions.index(matrix)
    (width,) = matrix.type.shape
    readers = [
        op
        for op in program.instructions
        if isinstance(op, Op) and index in op.operands and op.primitive != FLAG_BEYOND
    ]
    if index in program.outputs.values() or any(op.primitive != "take" for op in readers):
        return list(range(width))
    taken = [program.instructions[op.operands[1]] for op in readers]
    return sorted(
        # Negative positions count from the end.
        {int(column) % width for x in taken if isinstance(x, Constant) for column in x.value.data}
    )


def _first_column(k: Kernel, block_starts: list[int], block: Any, width: int, size: int) -> Any:
    """Return the first column of a block: computed if blocks are adjacent, else from a table."""
    if block_starts == starts(range(width), width, size):
        return k.bind(tirx.min(block * size, tirx.IntImm("int32", width - size)))
    return k.bind(k.entry(k.constant(np.array(block_starts, dtype=np.int32)), block))


def read_columns(
    k: Kernel, place: Place, matrix: MatrixRows, first: Any, columns: Iterable[int]
) -> None:
    """Read the tile's rows of a matrix, from row ``first`` on: at least the given columns."""
    (width,) = place.shape
    size = side(k, place.dtype, width)
    block_starts = starts(columns, width, size)
    if size == 1:
        with T.serial(len(block_starts)) as block, k.rows() as row:
            column = _first_column(k, block_starts, block, width, size)
            k.store(place, (column,), row, matrix.load(first + row, column))
        return
    with k.vectors(size) as some:
        rows = live_rows(k, some)
        with T.serial(len(block_starts)) as block:
            column = _first_column(k, block_starts, block, width, size)
            read = [k.bind(matrix.load(first + row, tirx.Ramp(column, 1, size))) for row in rows]
            for i, vector in enumerate(transpose(read)):
                k.store(place, (column + i,), some, vector)


def write_rows(k: Kernel, matrix: RowMajorMatrix, first: Any, place: Place) -> None:
    """Write the tile's rows of a matrix, from row ``first`` on."""
    (width,) = place.shape
    size = side(k, place.dtype, width)
    if size == 1:
        with k.over((width,)) as (column,), k.rows() as row:
            matrix.store(first + row, column, k.load(place, (column,), row))
        return
    with k.vectors(size) as some:
        rows = live_rows(k, some)
        with k.over((-(-width // size),)) as (block,):
            column = k.bind(tirx.min(block * size, tirx.IntImm("int32", width - size)))
            held = [k.bind(k.load(place, (column + i,), some)) for i in range(size)]
            # Backwards, so that the last live row is written after the leftovers in its place.
            for row, vector in reversed(list(zip(rows, transpose(held), strict=True))):
                matrix.store(first + row, tirx.Ramp(column, 1, size), vector)
