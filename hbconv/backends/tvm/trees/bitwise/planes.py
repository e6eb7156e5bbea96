"""Emit bit planes: a bit for each row of a block.

One logical operation decides a split for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block, ByteColumns
from hbconv.backends.tvm.trees.bitwise.masks import (
    DIGIT,
    DIGIT_BITS,
    ONES_PLANE,
    PLANE_WORD,
    ZERO_PLANES,
    Masks,
)
from hbconv.backends.tvm.trees.bitwise.rank_masks import RANK_BYTES, RankMasks

__all__ = [
    "BYTE_BITS",
    "Planes",
    "byte_vectors",
    "parts_of",
    "transpose_bits",
    "write_masks",
    "write_rank_masks",
]

BYTE_BITS = 8
SWAPS = ((4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555))
"""Of each round: by how many bits words are swapped, and which bits stay."""
SCRATCH_PLANES = 2 * DIGIT + 1 + BYTE_BITS
"""Planes of both digits of a column, and of its bits."""

Vector = Any
Ints = npt.NDArray[np.int64]


class Planes:
    """Planes of a block, by the words that tables call them."""

    def __init__(self, k: Kernel, place: Place) -> None:
        self.k = k
        self.place = place
        # A bit for each row: 32 bytes for 256 rows, 64 for 512.
        self.size = k.schedule.block // BYTE_BITS
        self.zeros, self.ones = (
            tirx.Broadcast(tirx.IntImm("uint8", byte), self.size) for byte in (0, 255)
        )

    def load(self, word: Any, number: int = 0) -> Vector:
        """Read a plane: the one ``number`` places after that of a word."""
        return self.k.load(self.place, (0,), self._at(word, number))

    def store(self, word: Any, value: Vector, number: int = 0) -> None:
        """Write a plane: the one ``number`` places after that of a word."""
        self.k.store(self.place, (0,), self._at(word, number), value)

    def _at(self, word: Any, number: int) -> Any:
        if isinstance(word, int):
            word = tirx.IntImm("int32", word)
        # The factor is 4 or 8, which an address applies for nothing.
        first = tirx.Cast("int32", word) * (self.size // PLANE_WORD)
        return tirx.Ramp(first + number * self.size, 1, self.size)


def write_masks(
    k: Kernel, columns: ByteColumns, block: Block, planes: Planes, masks: Masks
) -> None:
    """Decide all splits that there are: a column's byte is below t.

    Columns of few thresholds and of many take ways of their own.
    """
    write_constants(planes)
    few = masks.bits <= DIGIT_BITS
    scratch = -(-SCRATCH_PLANES // BYTE_BITS)
    with k.temporary("uint8", (scratch,)) as place:
        writer = _MaskWriter(k, columns, block, planes, masks, Planes(k, place))
        writer.write(np.flatnonzero(few), writer.double)
        writer.write(np.flatnonzero(~few), writer.by_digits)


def write_constants(planes: Planes) -> None:
    """Write the planes of zeros and of ones."""
    for plane in range(ZERO_PLANES):
        planes.store(plane * PLANE_WORD, planes.zeros)
    planes.store(ONES_PLANE * PLANE_WORD, planes.ones)


class _MaskWriter:
    """Writes the planes of columns.

    The bits of a column's bytes are taken apart. The highest one is stored inverted, as a signed
    byte's is; all others are inverted here, to planes of rows without the bit.

    Going on bit after bit, with the bit on top of those before: ``x < t`` holds where the bit is
    not set, and it holds without the bit. ``x < t + top`` holds where the bit is not set, or it
    holds without the bit. No byte is below 0.
    """

    def __init__(
        self,
        k: Kernel,
        columns: ByteColumns,
        block: Block,
        planes: Planes,
        masks: Masks,
        scratch: Planes,
    ) -> None:
        self.k = k
        self.columns = columns
        self.block = block
        self.planes = planes
        self.masks = masks
        self.scratch = scratch

    def write(self, chosen: Any, writer: Callable[[Any, Any, list[Vector]], None]) -> None:
        """Write the planes of some columns."""
        if not len(chosen):
            return
        k = self.k
        column_of = k.constant(chosen.astype(np.int32))
        start = k.constant((self.masks.start[:-1][chosen] * PLANE_WORD).astype(np.int32))
        with k.over((k.number(len(chosen)),)) as (i,):
            column = k.bind(k.entry(column_of, i))
            begin = k.bind(self.columns.begin(self.block, column))
            unset = _unset_bits(k, self.columns, begin)
            writer(column, k.bind(k.entry(start, i)), unset)

    def double(self, column: Any, first: Any, unset: list[Vector]) -> None:
        """Write the planes of a column of few bits, and double them bit after bit."""
        k, planes = self.k, self.planes
        bits = k.constant(self.masks.bits.astype(np.int32))
        for i, plane in enumerate(unset[:DIGIT_BITS]):
            self.scratch.store(i * PLANE_WORD, plane)
        planes.store(first, planes.zeros)
        with T.serial(k.entry(bits, column)) as bit:
            without = k.bind(self.scratch.load(bit * PLANE_WORD))
            top = k.bind(tirx.shift_left(tirx.IntImm("int32", PLANE_WORD), bit))
            with T.serial(tirx.shift_left(tirx.IntImm("int32", 1), bit)) as t:
                at = k.bind(first + t * PLANE_WORD)
                below = k.bind(planes.load(at))
                planes.store(at, without & below)
                planes.store(at + top, without | below)

    def by_digits(self, column: Any, first: Any, unset: list[Vector]) -> None:
        """Write each plane once: below in the high digit, or not above there and below in the low.

        The scratch has the planes of the high digit, whose last is ones, then those of the low.
        """
        k, planes, scratch = self.k, self.planes, self.scratch
        digits = k.constant(self.masks.digits.astype(np.int32))
        low, high = (below_digit(k, planes, unset[i : i + DIGIT_BITS]) for i in (0, DIGIT_BITS))
        for i, plane in enumerate([*high, planes.ones, *low]):
            scratch.store(i * PLANE_WORD, plane)
        with T.serial(k.entry(digits, column)) as digit:
            below = k.bind(scratch.load(digit * PLANE_WORD))
            # The planes of the high digit end with ones, for its largest value.
            upto = k.bind(scratch.load((digit + 1) * PLANE_WORD))
            begin = k.bind(first + digit * (DIGIT * PLANE_WORD))
            for t in range(DIGIT):
                in_low = scratch.load((DIGIT + 1 + t) * PLANE_WORD)
                planes.store(begin + t * PLANE_WORD, below | (upto & in_low))


def write_rank_masks(
    k: Kernel, columns: ByteColumns, block: Block, planes: Planes, masks: RankMasks, part: Any
) -> None:
    """Decide the splits of a part of the trees: a column's rank is below t.

    For each column that the part reads, the scratch has the planes of its digits.
    """
    first, count = (k.constant(t) for t in parts_of(masks.part, masks.n_parts))
    column_of, start = (k.constant(t.astype(np.int32)) for t in (masks.column, masks.start))
    begin = k.bind(k.entry(k.constant(masks.begin.astype(np.int32)), part))
    write_constants(planes)
    with k.temporary("uint8", (-(-masks.n_digits * masks.planes_of_digit // BYTE_BITS),)) as place:
        scratch = Planes(k, place)
        with T.serial(k.entry(count, part)) as i:
            reading = k.bind(k.entry(first, part) + i)
            _write_digits(k, columns, block, scratch, k.entry(column_of, reading), masks)
            here = k.bind(k.entry(start, reading))
            with T.serial(k.entry(start, reading + 1) - here) as turn:
                at = k.bind(here + turn)
                plane = (at - begin + (ONES_PLANE + 1)) * PLANE_WORD
                planes.store(plane, _below_rank(k, scratch, masks, at))


def _below_rank(k: Kernel, scratch: Planes, masks: RankMasks, threshold: Any) -> Vector:
    """Return the plane of a threshold: below in a digit, or not above and below in the rest."""
    words = k.constant(masks.words)
    *higher, lowest = (
        k.bind(tirx.Cast("int32", k.entry(words, threshold * masks.n_digits + i)))
        for i in range(masks.n_digits)
    )
    below = scratch.load(lowest)
    for digit in reversed(higher):
        # The planes of a digit end with ones, for its largest value.
        below = scratch.load(digit) | (scratch.load(digit, 1) & below)
    return below


def _write_digits(
    k: Kernel, columns: ByteColumns, block: Block, scratch: Planes, column: Any, masks: RankMasks
) -> None:
    """Write the planes of the digits of a column of ranks, the highest digit first."""
    first = k.bind(column * RANK_BYTES)
    unset = [
        bit
        for byte in range(RANK_BYTES)
        for bit in _unset_bits(k, columns, columns.begin(block, first + byte))
    ]
    for digit in range(masks.n_digits):
        low = (masks.n_digits - 1 - digit) * masks.digit_bits
        below = below_digit(k, scratch, unset[low : low + masks.digit_bits])
        for i, plane in enumerate(below):
            scratch.store((digit * masks.planes_of_digit + i) * PLANE_WORD, plane)
        # A digit cut off by the rank's end has fewer values, and no threshold above them.
        scratch.store((digit * masks.planes_of_digit + len(below)) * PLANE_WORD, scratch.ones)


def _unset_bits(k: Kernel, columns: ByteColumns, begin: Any) -> list[Vector]:
    """Return planes of the rows without each bit of a column of bytes, the lowest first."""
    bits = transpose_bits(k, byte_vectors(k, columns, k.bind(begin)))
    # Bytes are stored with the highest bit flipped, so that one is inverted already.
    return [*(k.bind(~plane) for plane in bits[:-1]), k.bind(bits[-1])]


def below_digit(k: Kernel, planes: Planes, unset: list[Vector]) -> list[Vector]:
    """Return the planes of a digit, of what lies below each of its values."""
    below = [planes.zeros]
    for without in unset:
        below = [
            *(k.bind(without & plane) for plane in below),
            *(k.bind(without | plane) for plane in below),
        ]
    return below


def parts_of(part_of: Ints, n_parts: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the first of what belongs to each part, and how many do; parts ascend."""
    first = np.searchsorted(part_of, np.arange(n_parts + 1)).astype(np.int32)
    return first[:-1], np.diff(first)


def byte_vectors(k: Kernel, columns: ByteColumns, begin: Any) -> list[Vector]:
    """Load a column's bytes, those of all rows of a block, as eight vectors."""
    size = k.schedule.block // BYTE_BITS
    return [k.bind(columns.load(begin, tirx.Ramp(size * q, 1, size))) for q in range(BYTE_BITS)]


def transpose_bits(k: Kernel, vectors: list[Vector]) -> list[Vector]:
    """Transpose up to eight vectors of planes, or of columns, bit by bit.

    Bit i of vector q becomes bit q of vector i, of eight; vectors past the last count as zeros.
    Swaps of half, quarter and single bits, as a matrix is transposed by halves (Eklundh, 1972).
    """
    size = k.schedule.block // BYTE_BITS
    words: list[Vector | None] = [
        k.bind(tirx.reinterpret(f"uint32x{size // 4}", v)) for v in vectors
    ]
    words += [None] * (BYTE_BITS - len(words))
    for shift, mask in SWAPS:
        constants = [
            tirx.Broadcast(tirx.IntImm("uint32", value), size // 4) for value in (shift, mask)
        ]
        for low in range(BYTE_BITS):
            if not low & shift:
                words[low], words[low + shift] = _swap(
                    k.bind, words[low], words[low + shift], *constants
                )
    # Vectors that were never given stay zeros, and need no instructions.
    zeros = tirx.Broadcast(tirx.IntImm("uint8", 0), size)
    return [zeros if v is None else tirx.reinterpret(f"uint8x{size}", v) for v in words]


def _swap(
    bind: Callable[[Any], Any], low: Vector | None, high: Vector | None, by: Vector, kept: Vector
) -> tuple[Vector | None, Vector | None]:
    """Swap the high bits of the low vector with the low bits of the high one."""
    if low is None and high is None:
        return None, None
    if high is None:
        return bind(low & kept), bind(tirx.shift_right(low, by) & kept)
    # The bits in which both differ: an exclusive or with them exchanges the two.
    swap = bind((tirx.shift_right(low, by) ^ high) & kept)
    return bind(low ^ tirx.shift_left(swap, by)), bind(high ^ swap)
