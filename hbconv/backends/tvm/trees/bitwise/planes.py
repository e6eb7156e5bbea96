"""Emit bit planes: 256 rows in a vector, a bit for each.

One logical operation decides a split for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.bitwise.masks import PLANE_BYTES, Masks
from hbconv.backends.tvm.trees.byte_columns import ByteColumns

__all__ = ["ONES", "ZEROS", "Planes", "byte_vectors", "transposed_bits", "write_masks"]

BYTE_BITS = 8
SWAPS = ((4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555))
"""Of each round: by how many bits words are swapped, and which bits stay."""

Vector = Any
ZEROS, ONES = (tirx.Broadcast(tirx.IntImm("uint8", byte), PLANE_BYTES) for byte in (0, 255))


class Planes:
    """Planes of a block, by the byte that they begin at."""

    def __init__(self, k: Kernel, place: Place) -> None:
        self.k = k
        self.place = place

    def load(self, begin: Any, number: int = 0) -> Vector:
        """Read a plane, so many after the one that begins there."""
        return self.k.load(
            self.place, (0,), tirx.Ramp(begin + number * PLANE_BYTES, 1, PLANE_BYTES)
        )

    def store(self, begin: Any, value: Vector, number: int = 0) -> None:
        """Write a plane, so many after the one that begins there."""
        at = tirx.Ramp(begin + number * PLANE_BYTES, 1, PLANE_BYTES)
        self.k.store(self.place, (0,), at, value)


def write_masks(
    k: Kernel, columns: ByteColumns, block: Block, planes: Planes, masks: Masks
) -> None:
    """Decide all splits that there are: a column's byte is below t.

    1. Take the bits of the column's bytes apart. The highest one is stored inverted, as a signed
       byte's is; all others are inverted here, to planes of rows without the bit.
    2. No byte is below 0.
    3. Go on bit after bit, from the lowest, with the bit on top of those before. ``x < t`` holds
       where the bit is not set, and it holds without the bit. ``x < t + top`` holds where the bit
       is not set, or it holds without the bit.
    """
    planes.store(0, ZEROS)
    if not len(masks.bits):
        return
    start = k.constant((masks.start * PLANE_BYTES).astype(np.int32))
    bits = k.constant(masks.bits.astype(np.int32))
    with k.temporary("uint8", (1,)) as place, k.over((k.number(len(masks.bits)),)) as (column,):
        first = k.bind(k.entry(start, column))
        begin = k.bind(columns.begin(block, column))
        unset = Planes(k, place)
        for i, plane in enumerate(transposed_bits(k, byte_vectors(k, columns, begin))):  # 1
            unset.store(i * PLANE_BYTES, plane if i == BYTE_BITS - 1 else ~plane)
        planes.store(first, ZEROS)  # 2
        with T.serial(k.entry(bits, column)) as bit:  # 3
            without = k.bind(unset.load(bit * PLANE_BYTES))
            top = k.bind(tirx.shift_left(tirx.IntImm("int32", PLANE_BYTES), bit))
            with T.serial(tirx.shift_left(tirx.IntImm("int32", 1), bit)) as t:
                at = k.bind(first + t * PLANE_BYTES)
                below = k.bind(planes.load(at))
                planes.store(at, without & below)
                planes.store(at + top, without | below)


def byte_vectors(k: Kernel, columns: ByteColumns, begin: Any) -> list[Vector]:
    """Load a column's bytes, those of all rows of a block, as eight vectors."""
    return [
        k.bind(columns.load(begin, tirx.Ramp(PLANE_BYTES * q, 1, PLANE_BYTES)))
        for q in range(BYTE_BITS)
    ]


def transposed_bits(k: Kernel, vectors: list[Vector]) -> list[Vector]:
    """Transpose up to eight vectors of bytes bit by bit.

    Bit i of vector q becomes bit q of vector i, of eight; vectors past the last count as zeros.
    Swaps of half, quarter and single bits, as a matrix is transposed by halves (Eklundh, 1972).
    """
    words: list[Vector | None] = [
        k.bind(tirx.reinterpret(f"uint32x{PLANE_BYTES // 4}", v)) for v in vectors
    ]
    words += [None] * (BYTE_BITS - len(words))
    for shift, mask in SWAPS:
        for low in range(BYTE_BITS):
            if not low & shift:
                words[low], words[low + shift] = _swapped(
                    k.bind, words[low], words[low + shift], shift, mask
                )
    return [ZEROS if v is None else tirx.reinterpret(f"uint8x{PLANE_BYTES}", v) for v in words]


def _swapped(
    bind: Callable[[Any], Any], low: Vector | None, high: Vector | None, shift: int, mask: int
) -> tuple[Vector | None, Vector | None]:
    """Swap the high bits of the low vector with the low bits of the high one."""
    if low is None and high is None:
        return None, None
    by, kept = (
        tirx.Broadcast(tirx.IntImm("uint32", value), PLANE_BYTES // 4) for value in (shift, mask)
    )
    if high is None:
        return bind(low & kept), bind(tirx.shift_right(low, by) & kept)
    swap = bind((tirx.shift_right(low, by) ^ high) & kept)
    return bind(low ^ tirx.shift_left(swap, by)), bind(high ^ swap)
