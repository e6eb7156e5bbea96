"""Look-ups of leaf values in registers of 64 bytes, of 64 rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.transpose import (
    WIDE_BYTES,
    WIDE_WORDS,
    find_wide_bytes,
    find_wide_words,
)
from hbconv.backends.tvm.trees.leaves.look_ups import WORD_BYTES, LookUp
from hbconv.backends.tvm.trees.leaves.tables import lay_out_parts
from hbconv.backends.tvm.trees.leaves.weaving import weave, woven_rows
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["WideByteLookUp", "WideWordLookUp"]


class WideWordLookUp(LookUp):
    """Words of 32 bits, sixteen at a time, for trees of up to 64 leaves; float64 is two of them.

    The numbers of 64 rows are sixteen words of four bytes. A shuffle looks at the lowest bits of
    each word alone. So four shifts by a byte each give the numbers of all rows, and nothing is
    unpacked.
    """

    rows = WIDE_BYTES
    vector = WIDE_BYTES

    def __init__(self, k: Kernel, forest: Forest, trees: Trees, leaves: int) -> None:
        self.k = k
        self.parts = np.dtype(forest.accumulate).itemsize // WORD_BYTES
        self.width = _whole_tables(leaves, WIDE_WORDS)
        self.words = k.constant(lay_out_parts(forest, trees, self.width, np.float32))
        found = np.arange(WIDE_BYTES).reshape(WIDE_WORDS, WORD_BYTES).T
        self.order = found[:, woven_rows(self.parts, WIDE_BYTES, WORD_BYTES)].ravel()

    def values(self, place: Any, row: Any, number: Callable[[Any], Any]) -> list[Any]:
        """Look the words up, sixteen rows at a time."""
        k = self.k
        parts = [
            self._load(k.bind((place * self.parts + part) * self.width))
            for part in range(self.parts)
        ]
        numbers = number(tirx.Ramp(row, 1, WIDE_BYTES))
        codes = k.bind(tirx.reinterpret(f"uint32x{WIDE_WORDS}", numbers))
        return [
            value
            for byte in range(WORD_BYTES)
            for value in self._values(parts, _shifted(codes, 8 * byte))
        ]

    def _load(self, begin: Any) -> list[Any]:
        """Load one word of all leaves."""
        return [
            self.k.bind(self.k.entries(self.words, begin + first, WIDE_WORDS))
            for first in range(0, self.width, WIDE_WORDS)
        ]

    def _values(self, parts: list[list[Any]], index: Any) -> list[Any]:
        """Look one row of each word of the numbers up."""
        index = self.k.bind(index)
        found = [self.k.bind(find_wide_words(words, index)) for words in parts]
        return weave(self.k, found, WIDE_BYTES, WORD_BYTES)


class WideByteLookUp(LookUp):
    """The values' first bytes, their second bytes and so on, for trees of up to 256 leaves."""

    rows = WIDE_BYTES
    vector = WIDE_BYTES

    def __init__(self, k: Kernel, forest: Forest, trees: Trees, leaves: int) -> None:
        self.k = k
        self.size = np.dtype(forest.accumulate).itemsize
        self.width = _whole_tables(leaves, WIDE_BYTES)
        self.bytes = k.constant(lay_out_parts(forest, trees, self.width, np.uint8))
        self.order = woven_rows(self.size, WIDE_BYTES)

    def values(self, place: Any, row: Any, number: Callable[[Any], Any]) -> list[Any]:
        """Look each byte of the values up, and weave the bytes."""
        k = self.k
        numbers = k.bind(number(tirx.Ramp(row, 1, WIDE_BYTES)))
        first = k.bind(place * (self.width * self.size))
        planes = [
            k.bind(find_wide_bytes(self._load(first + byte * self.width), numbers))
            for byte in range(self.size)
        ]
        return weave(k, planes, WIDE_BYTES)

    def _load(self, begin: Any) -> list[Any]:
        """Load one byte of all leaves."""
        return [
            self.k.bind(self.k.entries(self.bytes, begin + first, WIDE_BYTES))
            for first in range(0, self.width, WIDE_BYTES)
        ]


def _whole_tables(leaves: int, entries: int) -> int:
    """Return the least width for so many leaves that is 1, 2, 4 or more tables of an instruction.

    Examples
    --------
    >>> [_whole_tables(leaves, 16) for leaves in (1, 16, 17, 40)]
    [16, 16, 32, 64]
    """
    return entries << (max(0, leaves - 1) // entries).bit_length()


def _shifted(codes: Any, by: int) -> Any:
    return tirx.shift_right(codes, literal(by, "uint32", WIDE_WORDS)) if by else codes
