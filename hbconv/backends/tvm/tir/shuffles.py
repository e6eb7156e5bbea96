"""Shuffles: look up bytes and words in registers.

This file has all that kernels ask of one instruction set by name (AVX2).
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel, literal

__all__ = ["BYTES", "HALF", "WORDS", "find_bytes", "find_words", "index_of", "twice"]

BYTES = 32
"""Bytes of the vectors that shuffles work on."""
WORDS = 8
"""Words of 32 bits of these vectors."""
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


def twice(k: Kernel, half: Any) -> Any:
    """Repeat sixteen bytes: shuffles look up in each half of a vector separately."""
    half = k.bind(half)
    return tirx.Shuffle([half, half], [tirx.IntImm("int32", i) for i in range(BYTES)])
