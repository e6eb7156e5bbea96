"""Transpose row-major matrices to tiles of columns and back: square blocks, in registers.

Shuffles: look up bytes and words in registers.

This file has all that kernels ask of instruction sets by name: AVX2, and AVX-512 for wide vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place, storage
from hbconv.backends.tvm.tir.row_blocks import RowMajorMatrix
from hbconv.tensor import Constant, Input, Op, TensorProgram

__all__ = [
    "BYTES",
    "HALF",
    "WIDE_BYTES",
    "WIDE_WORDS",
    "WORDS",
    "columns_used",
    "find_bytes",
    "find_wide_bytes",
    "find_wide_words",
    "find_words",
    "index_of",
    "live_rows",
    "pack",
    "read_columns",
    "twice",
    "write_rows",
]

MIN_BYTES = 4
"""Bytes of the smallest numbers that blocks are made of; smaller ones are copied one by one."""


def side(k: Kernel, dtype: str, width: int) -> int:
    """Return the rows and columns of a block: a full register, at most the columns or the tile."""
    size = np.dtype(storage(dtype)).itemsize
    largest = min(k.machine.vector // size, width, k.tile) if size >= MIN_BYTES else 1
    return 1 << (max(largest, 1).bit_length() - 1)


def starts(columns: Iterable[int], width: int, size: int) -> list[int]:
    """Return the first columns of blocks that hold the given columns, in order.

    Blocks may overlap, and end with the last column.

    Examples
    --------
    >>> starts(range(11), 11, 4), starts([1, 9], 11, 4)
    ([0, 4, 7], [1, 7])
    """
    found: list[int] = []
    for column in sorted(columns):
        if not found or column >= found[-1] + size:
            found.append(min(column, width - size))
    return found


def transposed(vectors: list[Any]) -> list[Any]:
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
        {int(column) % width for x in taken if isinstance(x, Constant) for column in x.value.data}
    )


def _first_column(k: Kernel, found: list[int], block: Any, width: int, size: int) -> Any:
    """Return the first column of a block: computed if blocks are adjacent, else from a table."""
    if found == starts(range(width), width, size):
        return k.bind(tirx.min(block * size, tirx.IntImm("int32", width - size)))
    return k.bind(k.entry(k.constant(np.array(found, dtype=np.int32)), block))


def read_columns(
    k: Kernel, place: Place, matrix: RowMajorMatrix, first: Any, columns: Iterable[int]
) -> None:
    """Read the tile's rows of a matrix, from row ``first`` on: at least the given columns."""
    (width,) = place.shape
    size = side(k, place.dtype, width)
    found = starts(columns, width, size)
    if size == 1:
        with T.serial(len(found)) as block, k.rows() as row:
            column = _first_column(k, found, block, width, size)
            k.store(place, (column,), row, matrix.load(first + row, column))
        return
    with k.vectors(size) as some:
        rows = live_rows(k, some)
        with T.serial(len(found)) as block:
            column = _first_column(k, found, block, width, size)
            read = [k.bind(matrix.load(first + row, tirx.Ramp(column, 1, size))) for row in rows]
            for i, vector in enumerate(transposed(read)):
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
            for row, vector in reversed(list(zip(rows, transposed(held), strict=True))):
                matrix.store(first + row, tirx.Ramp(column, 1, size), vector)


BYTES = 32
"""Bytes of the vectors that shuffles work on."""
WORDS = 8
"""Words of 32 bits of these vectors."""
WIDE_BYTES = 64
"""Bytes of wide vectors, and of the table of one shuffle of theirs."""
WIDE_WORDS = 16
"""Words of 32 bits of these."""
HALF = 16
"""Bytes of the table of one shuffle of bytes."""
OUTSIDE = 0x70
"""Added to a number from 16 on, it sets the highest bit, for which a shuffle returns zero.

The lowest bits of smaller numbers, which a shuffle looks up by, stay.
"""


def index_of(number: Any, part: int) -> Any:
    """Return indices into one part of a table, of 16 entries; numbers of other parts give zero."""
    inside = number - literal(part * HALF, "uint8", BYTES) if part else number
    return tirx.call_llvm_pure_intrin(
        f"uint8x{BYTES}", f"llvm.uadd.sat.v{BYTES}i8", inside, literal(OUTSIDE, "uint8", BYTES)
    )


def find_bytes(table: Any, index: Any) -> Any:
    """Look bytes up in a table given ``twice``."""
    return tirx.call_llvm_pure_intrin(f"uint8x{BYTES}", "llvm.x86.avx2.pshuf.b", table, index)


def find_words(table: Any, index: Any) -> Any:
    """Look words up, by the lowest three bits of each index."""
    return tirx.call_llvm_pure_intrin(f"float32x{WORDS}", "llvm.x86.avx2.permps", table, index)


def find_wide_words(tables: list[Any], index: Any) -> Any:
    """Look words up in one, two or four vectors, by the lowest four, five or six bits."""
    if len(tables) > 2:
        bit = literal(len(tables) // 2 * WIDE_WORDS, "uint32", WIDE_WORDS)
        return _of_either(find_wide_words, tables, index, bit)
    at = tirx.reinterpret(f"int32x{WIDE_WORDS}", index)
    kind = f"float32x{WIDE_WORDS}"
    return _permuted(kind, ("permvar.sf", "vpermi2var.ps"), tables, at)


def find_wide_bytes(tables: list[Any], index: Any) -> Any:
    """Look bytes up in one, two or four vectors, by the lowest six, seven or eight bits."""
    if len(tables) > 2:
        bit = literal(len(tables) // 2 * WIDE_BYTES, "uint8", WIDE_BYTES)
        return _of_either(find_wide_bytes, tables, index, bit)
    kind = f"int8x{WIDE_BYTES}"
    at, *signed = (tirx.reinterpret(kind, vector) for vector in (index, *tables))
    found = _permuted(kind, ("permvar.qi", "vpermi2var.qi"), signed, at)
    return tirx.reinterpret(f"uint8x{WIDE_BYTES}", found)


def _of_either(
    find: Callable[[list[Any], Any], Any], tables: list[Any], index: Any, bit: Any
) -> Any:
    """Look up in each half of the tables, and choose by the bit that tells them apart."""
    half = len(tables) // 2
    low, high = (find(part, index) for part in (tables[:half], tables[half:]))
    return tirx.Select((index & bit) == bit, high, low)


def _permuted(kind: str, names: tuple[str, str], tables: list[Any], at: Any) -> Any:
    """Look up in one vector, or in two; an instruction for either."""
    first, *second = tables
    name = f"llvm.x86.avx512.{names[len(second)]}.512"
    return tirx.call_llvm_pure_intrin(kind, name, first, at, *second)


def pack(vectors: list[Any]) -> Any:
    """Pack wide vectors of integers below 256 to one of bytes.

    Each quarter of the vectors is packed by itself, as processors do: weaving undoes it.
    """
    kind = f"int32x{WIDE_WORDS}"
    while len(vectors) > 2:
        words = [tirx.reinterpret(kind, vector) for vector in vectors]
        vectors = [
            tirx.call_llvm_pure_intrin("int16x32", "llvm.x86.avx512.packusdw.512", low, high)
            for low, high in zip(words[::2], words[1::2], strict=True)
        ]
    found = tirx.call_llvm_pure_intrin("int8x64", "llvm.x86.avx512.packuswb.512", *vectors)
    return tirx.reinterpret(f"uint8x{WIDE_BYTES}", found)


def twice(k: Kernel, half: Any) -> Any:
    """Repeat sixteen bytes: shuffles look up in each half of a vector separately."""
    half = k.bind(half)
    return tirx.Shuffle([half, half], [tirx.IntImm("int32", i) for i in range(BYTES)])
