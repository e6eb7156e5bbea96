"""Shuffles: look up bytes and words in registers, and interleave what was looked up.

This file has all instructions that kernels name: AVX2, and AVX-512 for wide vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel, literal

__all__ = [
    "BYTES",
    "HALF",
    "WIDE_BYTES",
    "WIDE_WORDS",
    "WORDS",
    "find_bytes",
    "find_wide_bytes",
    "find_wide_words",
    "find_words",
    "index_of",
    "pack",
    "twice",
    "weave",
    "woven_rows",
]

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
    # Numbers below this part wrap to large ones, which the saturated sum keeps above 127.
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
    # The instruction reads the lowest bits of each index and ignores the others.
    at = tirx.reinterpret(f"int32x{WIDE_WORDS}", index)
    kind = f"float32x{WIDE_WORDS}"
    return _permute(kind, ("permvar.sf", "vpermi2var.ps"), tables, at)


def find_wide_bytes(tables: list[Any], index: Any) -> Any:
    """Look bytes up in one, two or four vectors, by the lowest six, seven or eight bits."""
    if len(tables) > 2:
        # One instruction looks up two vectors; four need one more bit.
        bit = literal(len(tables) // 2 * WIDE_BYTES, "uint8", WIDE_BYTES)
        return _of_either(find_wide_bytes, tables, index, bit)
    kind = f"int8x{WIDE_BYTES}"
    at, *signed = (tirx.reinterpret(kind, vector) for vector in (index, *tables))
    looked_up = _permute(kind, ("permvar.qi", "vpermi2var.qi"), signed, at)
    return tirx.reinterpret(f"uint8x{WIDE_BYTES}", looked_up)


def _of_either(
    find: Callable[[list[Any], Any], Any], tables: list[Any], index: Any, bit: Any
) -> Any:
    """Look up in each half of the tables, and choose by the bit that tells them apart."""
    half = len(tables) // 2
    low, high = (find(part, index) for part in (tables[:half], tables[half:]))
    return tirx.Select((index & bit) == bit, high, low)


def _permute(kind: str, names: tuple[str, str], tables: list[Any], at: Any) -> Any:
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
            # This saturates, but all numbers are below 256 already.
            tirx.call_llvm_pure_intrin("int16x32", "llvm.x86.avx512.packusdw.512", low, high)
            for low, high in zip(words[::2], words[1::2], strict=True)
        ]
    packed = tirx.call_llvm_pure_intrin("int8x64", "llvm.x86.avx512.packuswb.512", *vectors)
    return tirx.reinterpret(f"uint8x{WIDE_BYTES}", packed)


def twice(k: Kernel, half: Any) -> Any:
    """Repeat sixteen bytes: shuffles look up in each half of a vector separately."""
    # Bound first, since an expression is computed each time that it is used.
    half = k.bind(half)
    return tirx.Shuffle([half, half], [tirx.IntImm("int32", i) for i in range(BYTES)])


def weave(k: Kernel, planes: list[Any], width: int, unit: int = 1) -> list[Any]:
    """Interleave planes, each a vector of ``width`` bytes with ``unit`` bytes of each value.

    Rows end in the order of ``woven_rows``.
    """

    def shuffle(a: Any, b: Any, order: list[int]) -> Any:
        return k.bind(tirx.Shuffle([a, b], [tirx.IntImm("int32", i) for i in order]))

    return _weave([[plane] for plane in planes], shuffle, width, unit)


def woven_rows(count: int, width: int, unit: int = 1) -> npt.NDArray[np.int64]:
    """Return the row of each value that weaving so many planes gives.

    Examples
    --------
    >>> woven_rows(2, 32, 4).tolist()
    [0, 1, 4, 5, 2, 3, 6, 7]
    """
    rows = [[np.arange(width // unit)] for _ in range(count)]
    # The same steps on numbers of rows give their order, so both cannot differ.
    woven = _weave(rows, lambda a, b, order: np.concatenate([a, b])[order], width, unit)
    return np.concatenate([vector[::count] for vector in woven])


def _weave(
    planes: list[list[Any]],
    shuffle: Callable[[Any, Any, list[int]], Any],
    width: int,
    unit: int,
) -> list[Any]:
    """Interleave planes.

    1. Pairs of planes give one plane of units twice as long: unit by unit, one of each in turn.
    2. Each half of 16 bytes is interleaved by itself, as processors shuffle: first the low units
       of all halves, then the high ones.
    3. This repeats until one plane is left, whose units are whole values.
    """
    length = unit
    while len(planes) > 1:
        pairs = zip(planes[::2], planes[1::2], strict=True)  # 1
        orders = [_interleave_halves(length, high, width)[::unit] for high in (0, 1)]  # 2
        planes = [
            [
                shuffle(a, b, [i // unit for i in order])
                for a, b in zip(first, second, strict=True)
                for order in orders
            ]
            for first, second in pairs
        ]
        length *= 2  # 3
    return planes[0]


def _interleave_halves(length: int, high: int, width: int) -> list[int]:
    """Bytes, of two vectors end to end, of the low or high units of all halves in turn."""
    units = np.arange(HALF // 2).reshape(-1, length) + high * HALF // 2
    order: list[int] = [
        i
        for half in range(0, width, HALF)
        for pair in units
        for vector in (0, width)
        for i in (pair + half + vector).tolist()
    ]
    return order
