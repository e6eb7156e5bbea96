"""Look-ups of leaf values in registers of 32 bytes, for trees of few leaves.

A shuffle looks up 32 bytes, or 8 words, in one instruction. The values of a tree are stored as
planes: the first bytes (or words) of all leaves, their second ones, and so on. Each plane is looked
up apart, and what was found is interleaved to values. That leaves the rows of a vector in an order
that is the same for all trees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.transpose import (
    BYTES,
    HALF,
    WORDS,
    find_bytes,
    find_words,
    index_of,
    twice,
)
from hbconv.backends.tvm.trees.leaves.tables import lay_out_parts
from hbconv.backends.tvm.trees.leaves.weaving import weave, woven_rows
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["WORD_BYTES", "ByteLookUp", "LookUp", "WordLookUp"]

Ints = npt.NDArray[np.int64]
WORD_BYTES = 4


class LookUp:
    """Looks up the values of the tree at one place for some rows at once.

    Attributes
    ----------
    rows : int
        Rows that are looked up together.
    vector : int
        Bytes of the vectors of values.
    order : int64 (n_rows,)
        Row of each value that a look-up gives; ``rows`` are a multiple of these.
    """

    rows: int
    vector: int = BYTES
    order: Ints

    def values(self, place: Any, row: Any, number: Callable[[Any], Any]) -> list[Any]:
        """Return vectors of the values; ``number(rows)`` loads the numbers of the leaves."""
        raise NotImplementedError


class WordLookUp(LookUp):
    """Words of 32 bits, a vector of them at a time: for trees of up to eight leaves."""

    def __init__(self, k: Kernel, forest: Forest, trees: Trees) -> None:
        size = np.dtype(forest.accumulate).itemsize
        self.k = k
        self.parts = size // WORD_BYTES
        self.words = k.constant(lay_out_parts(forest, trees, WORDS, np.float32))
        # Four sums and what is added to them stay in the registers.
        self.rows = 4 * BYTES // size
        self.order = woven_rows(self.parts, BYTES, WORD_BYTES)

    def values(self, place: Any, row: Any, number: Callable[[Any], Any]) -> list[Any]:
        """Look the words up, eight rows at a time."""
        k = self.k
        starts = [(place * self.parts + part) * WORDS for part in range(self.parts)]
        tables = [k.bind(k.entry(self.words, tirx.Ramp(start, 1, WORDS))) for start in starts]
        return [
            value
            for first in range(0, self.rows, WORDS)
            for value in self._values(tables, number(tirx.Ramp(row + first, 1, WORDS)))
        ]

    def _values(self, tables: list[Any], number: Any) -> list[Any]:
        index = self.k.bind(tirx.Cast(f"int32x{WORDS}", number))
        found = [self.k.bind(find_words(table, index)) for table in tables]
        return weave(self.k, found, BYTES, WORD_BYTES)


class ByteLookUp(LookUp):
    """The values' first bytes, their second bytes and so on, for trees of up to 64 leaves."""

    rows = BYTES

    def __init__(self, k: Kernel, forest: Forest, trees: Trees, leaves: int) -> None:
        self.k = k
        self.size = np.dtype(forest.accumulate).itemsize
        self.halves = -(-leaves // HALF)
        self.width = self.halves * HALF
        self.bytes = k.constant(lay_out_parts(forest, trees, self.width, np.uint8))
        self.order = woven_rows(self.size, BYTES)

    def values(self, place: Any, row: Any, number: Callable[[Any], Any]) -> list[Any]:
        """Look each byte of the values up, in all tables of sixteen leaves, and weave the bytes."""
        k = self.k
        numbers = k.bind(number(tirx.Ramp(row, 1, BYTES)))
        indices = [k.bind(index_of(numbers, half)) for half in range(self.halves)]
        first = k.bind(place * (self.width * self.size))
        planes = []
        for byte in range(self.size):
            found = [
                find_bytes(self._table(first + byte * self.width + half * HALF), index)
                for half, index in enumerate(indices)
            ]
            planes.append(k.bind(_any_of(found)))
        return weave(k, planes, BYTES)

    def _table(self, position: Any) -> Any:
        """Load sixteen bytes."""
        return twice(self.k, self.k.entry(self.bytes, tirx.Ramp(position, 1, HALF)))


def _any_of(vectors: list[Any]) -> Any:
    """Combine vectors of which all but one are zero."""
    total = vectors[0]
    for vector in vectors[1:]:
        total = total | vector
    return total
