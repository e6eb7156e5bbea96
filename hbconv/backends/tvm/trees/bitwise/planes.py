"""Bit planes: 256 rows in a vector, a bit for each. One logical operation decides a test for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.bins.emit import Columns
from hbconv.backends.tvm.trees.bins.tables import SEGMENT, Bins

__all__ = [
    "BYTES",
    "ONES",
    "ROWS",
    "ZEROS",
    "Masks",
    "Planes",
    "make_masks",
    "transposed_bits",
    "write_masks",
]

ROWS = 256
"""Rows of a block."""
BYTES = 32
"""Bytes of a plane. Bit q of byte j is that of row ``32 q + j``, so that eight planes, transposed bit by bit, are the rows' bytes in order."""
SWAPS = ((4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555))

Vector = Any
ZEROS, ONES = (tirx.Broadcast(tirx.IntImm("uint8", byte), BYTES) for byte in (0, 255))
Ints = npt.NDArray[np.int64]


class Planes:
    """Planes of a block, by the byte that they begin at."""

    def __init__(self, k: Kernel, place: Place) -> None:
        self.k, self.place = k, place

    def load(self, begin: Any, number: int = 0) -> Vector:
        """Read a plane, so many after the one that begins there."""
        return self.k.load(self.place, (0,), tirx.Ramp(begin + number * BYTES, 1, BYTES))

    def store(self, begin: Any, value: Vector, number: int = 0) -> None:
        """Write a plane, so many after the one that begins there."""
        self.k.store(self.place, (0,), tirx.Ramp(begin + number * BYTES, 1, BYTES), value)


class Masks:
    """Where the outcomes of tests lie: for a column of ``bits`` bits, plane ``start + t`` holds whether its byte is below t.

    Parameters
    ----------
    bits : int64 (n_columns,)
    sets : int
        Number of category sets.

    Attributes
    ----------
    start : int64 (n_columns + 1,)
        The first plane of each column. It is all zeros, as plane 0 is where there are no columns.
    first_set : int
        The first plane of those of the sets.
    """

    def __init__(self, bits: Ints, sets: int) -> None:
        self.bits, self.start = bits, np.cumsum(np.append(0, 1 << bits))
        self.first_set = max(1, int(self.start[-1]))
        self.count = self.first_set + sets

    def of_tests(self, bins: Bins) -> Ints:
        """Return the plane of each test."""
        below = np.append(self.start, 0)[np.minimum(bins.column, len(self.bits))] + bins.place + 1
        planes: Ints = np.where(bins.sets.of_test < 0, below, self.first_set + bins.sets.of_test)
        return planes


def make_masks(bins: Bins) -> Masks:
    """Count the bits of the largest byte in each column."""
    feature = np.repeat(np.arange(len(bins.feature)), np.diff(bins.column_start))
    largest = np.minimum(bins.edge_count[feature] - bins.first, SEGMENT)
    return Masks(np.frexp(largest)[1].astype(np.int64), bins.sets.count)


def write_masks(k: Kernel, columns: Columns, block: Block, planes: Planes, masks: Masks) -> None:
    """Decide all tests that there are: a column's byte is below t.

    Bit after bit, from the lowest: with it on top, ``x < t`` holds where it is not set and holds without it, and ``x < t + top`` where it is not set
    or holds without it.
    """
    planes.store(0, ZEROS)
    if not len(masks.bits):
        return
    start, bits = (
        k.constant((masks.start * BYTES).astype(np.int32)),
        k.constant(masks.bits.astype(np.int32)),
    )
    with k.temporary("uint8", (1,)) as unset, k.over((k.number(len(masks.bits)),)) as (column,):
        first, begin, kept = (
            k.bind(k.entry(start, column)),
            k.bind(columns.begin(block, column)),
            Planes(k, unset),
        )
        rows = [k.bind(columns.load(begin, tirx.Ramp(BYTES * q, 1, BYTES))) for q in range(8)]
        # The highest bit of a byte is kept inverted, as a signed one's is.
        for i, plane in enumerate(transposed_bits(k, rows)):
            kept.store(i * BYTES, plane if i == 7 else ~plane)
        planes.store(first, ZEROS)
        with T.serial(k.entry(bits, column)) as bit:
            without, top = (
                k.bind(kept.load(bit * BYTES)),
                k.bind(tirx.shift_left(tirx.IntImm("int32", BYTES), bit)),
            )
            with T.serial(tirx.shift_left(tirx.IntImm("int32", 1), bit)) as t:
                begin = k.bind(first + t * BYTES)
                below = k.bind(planes.load(begin))
                planes.store(begin, without & below)
                planes.store(begin + top, without | below)


def transposed_bits(k: Kernel, vectors: list[Vector]) -> list[Vector]:
    """Transpose up to eight vectors of bytes bit by bit: bit i of vector q becomes bit q of vector i, of eight; those past the last count as zeros.

    Swaps of half, quarter and single bits, as a matrix is transposed by halves (Eklundh, 1972).
    """
    words: list[Vector | None] = [
        k.bind(tirx.reinterpret(f"uint32x{BYTES // 4}", v)) for v in vectors
    ]
    words += [None] * (8 - len(words))
    for shift, mask in SWAPS:
        for low in range(8):
            if not low & shift:
                words[low], words[low + shift] = _swapped(
                    k.bind, words[low], words[low + shift], shift, mask
                )
    return [ZEROS if v is None else tirx.reinterpret(f"uint8x{BYTES}", v) for v in words]


def _swapped(
    bind: Callable[[Any], Any], low: Vector | None, high: Vector | None, shift: int, mask: int
) -> tuple[Vector | None, Vector | None]:
    """Swap the high bits of the low vector with the low bits of the high one."""
    if low is None and high is None:
        return None, None
    by, kept = (tirx.Broadcast(tirx.IntImm("uint32", value), BYTES // 4) for value in (shift, mask))
    if high is None:
        return bind(low & kept), bind(tirx.shift_right(low, by) & kept)
    swap = bind((tirx.shift_right(low, by) ^ high) & kept)
    return bind(low ^ tirx.shift_left(swap, by)), bind(high ^ swap)
