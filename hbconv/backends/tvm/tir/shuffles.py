"""Shuffles: bytes and words looked up in registers. All that kernels ask of one instruction set by name is here, for machines that have it."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel, literal

__all__ = ["BYTES", "HALF", "WORDS", "find_bytes", "find_words", "index_of", "twice"]

BYTES, WORDS = 32, 8
"""Bytes, and words of 32 bits, of the vectors that shuffles work on, however long other vectors are."""
HALF = 16
"""Bytes of the table that one shuffle of bytes looks up in."""
OUTSIDE = 0x70
"""What makes of a number from 16 on one that a shuffle gives zero for, and leaves the lowest bits of others."""


def index_of(number: Any, part: int) -> Any:
    """Return bytes that look zero up, unless the number is in this part of a table: sixteen entries of it."""
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
    """Repeat sixteen bytes: shuffles look up in each half of a vector apart."""
    half = k.bind(half)
    return tirx.Shuffle([half, half], [tirx.IntImm("int32", i) for i in range(BYTES)])
