"""Shuffles: look up bytes and words in registers.

This file has all that kernels ask of instruction sets by name: AVX2, and AVX-512 for wide words.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel, literal

__all__ = [
    "BYTES",
    "HALF",
    "WIDE_BYTES",
    "WIDE_WORDS",
    "WORDS",
    "find_bytes",
    "find_wide_words",
    "find_words",
    "index_of",
    "twice",
]

BYTES = 32
"""Bytes of the vectors that shuffles work on."""
WORDS = 8
"""Words of 32 bits of these vectors."""
WIDE_BYTES = 64
"""Bytes of wide vectors."""
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
        half = len(tables) // 2
        bit = literal(half * WIDE_WORDS, "uint32", WIDE_WORDS)
        low, high = (find_wide_words(part, index) for part in (tables[:half], tables[half:]))
        return tirx.Select((index & bit) == bit, high, low)
    at = tirx.reinterpret(f"int32x{WIDE_WORDS}", index)
    kind = f"float32x{WIDE_WORDS}"
    if len(tables) == 1:
        name = "llvm.x86.avx512.permvar.sf.512"
        return tirx.call_llvm_pure_intrin(kind, name, tables[0], at)
    name = "llvm.x86.avx512.vpermi2var.ps.512"
    return tirx.call_llvm_pure_intrin(kind, name, tables[0], at, tables[1])


def twice(k: Kernel, half: Any) -> Any:
    """Repeat sixteen bytes: shuffles look up in each half of a vector separately."""
    half = k.bind(half)
    return tirx.Shuffle([half, half], [tirx.IntImm("int32", i) for i in range(BYTES)])
