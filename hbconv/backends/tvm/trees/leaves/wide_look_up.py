"""Look-ups of leaf values in registers of 64 bytes: sixteen words at a time, of up to 64.

The numbers of 64 rows are sixteen words of four bytes. A shuffle looks at the lowest bits of each
word alone. So four shifts by a byte each give the numbers of all rows, and nothing is unpacked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.shuffles import WIDE_BYTES, WIDE_WORDS, find_wide_words
from hbconv.backends.tvm.trees.leaves.look_ups import LookUp, constants
from hbconv.backends.tvm.trees.leaves.tables import lay_out_padded
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.forest import Forest

__all__ = ["WideLookUp"]

WORD_BYTES = 4
INTERLEAVED = (
    (0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29),
    (2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31),
)
"""Low and high words of float64 in turn, in each quarter of a vector, as shuffles do."""


class WideLookUp(LookUp):
    """Words of 32 bits, for trees of up to 64 leaves; float64 is two of them."""

    rows = WIDE_BYTES
    vector = WIDE_BYTES

    def __init__(self, k: Kernel, forest: Forest, trees: Trees, leaves: int) -> None:
        self.k = k
        self.parts = np.dtype(forest.accumulate).itemsize // WORD_BYTES
        self.tables = 1 << (max(0, leaves - 1) // WIDE_WORDS).bit_length()
        self.width = self.tables * WIDE_WORDS
        words = lay_out_padded(forest, trees, self.width).view(np.float32)
        words = words.reshape(len(trees.order), self.width, self.parts)
        self.words = k.constant(np.ascontiguousarray(words.transpose(0, 2, 1)))
        found = np.arange(WIDE_BYTES).reshape(WIDE_WORDS, WORD_BYTES).T
        low = np.array(INTERLEAVED)[:, ::2]
        self.order = (found if self.parts == 1 else found[:, low]).ravel()

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
            self.k.bind(self.k.entries(self.words, begin + table * WIDE_WORDS, WIDE_WORDS))
            for table in range(self.tables)
        ]

    def _values(self, parts: list[list[Any]], index: Any) -> list[Any]:
        """Look one row of each word of the numbers up."""
        index = self.k.bind(index)
        found = [self.k.bind(find_wide_words(words, index)) for words in parts]
        if self.parts == 1:
            return found
        return [tirx.Shuffle(found, constants(order)) for order in INTERLEAVED]


def _shifted(codes: Any, by: int) -> Any:
    return tirx.shift_right(codes, literal(by, "uint32", WIDE_WORDS)) if by else codes
