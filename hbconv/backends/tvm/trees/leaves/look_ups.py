"""Look-ups of leaf values in registers of 32 bytes, for trees of few leaves.

A shuffle looks up 32 bytes, or 8 words, in one instruction. The values of a tree are stored as
planes: the first bytes (or words) of all leaves, their second ones, and so on. Each plane is looked
up apart, and what was found is interleaved to values. That leaves the rows of a vector in an order
that is the same for all trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.shuffles import (
    BYTES,
    HALF,
    WORDS,
    find_bytes,
    find_words,
    index_of,
    twice,
)
from hbconv.backends.tvm.trees.leaves.tables import lay_out_padded
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.forest import Forest

__all__ = ["ByteLookUp", "LookUp", "WordLookUp", "constants"]

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
        words = (
            lay_out_padded(forest, trees, WORDS)
            .view(np.float32)
            .reshape(len(trees.order), WORDS, self.parts)
        )
        self.words = k.constant(np.ascontiguousarray(words.transpose(0, 2, 1)))
        # Four sums and what is added to them stay in the registers.
        self.rows = 4 * BYTES // size
        rows = np.arange(BYTES)
        self.order = rows if self.parts == 1 else rows.reshape(-1, 4, 2)[:, [0, 2, 1, 3]].ravel()

    def values(self, place: Any, row: Any, number: Callable[[Any], Any]) -> list[Any]:
        """Look the words up, eight rows at a time."""
        k = self.k
        starts = [(place * self.parts + part) * WORDS for part in range(self.parts)]
        tables = [k.bind(k.entry(self.words, tirx.Ramp(start, 1, WORDS))) for start in starts]
        return [
            value
            for first in range(0, self.rows, WORDS)
            for value in self._interleaved(tables, number(tirx.Ramp(row + first, 1, WORDS)))
        ]

    def _interleaved(self, tables: list[Any], number: Any) -> list[Any]:
        """Interleave the two words of float64 in each half of a vector, as shuffles do."""
        index = self.k.bind(tirx.Cast(f"int32x{WORDS}", number))
        found = [self.k.bind(find_words(table, index)) for table in tables]
        if self.parts == 1:
            return found
        orders = ([0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15])
        return [tirx.Shuffle(found, constants(order)) for order in orders]


class ByteLookUp(LookUp):
    """The values' first bytes, their second bytes and so on, for trees of up to 64 leaves."""

    rows = BYTES

    def __init__(self, k: Kernel, forest: Forest, trees: Trees, leaves: int) -> None:
        self.k = k
        self.size = np.dtype(forest.accumulate).itemsize
        self.halves = -(-leaves // HALF)
        by_leaf = (
            lay_out_padded(forest, trees, self.halves * HALF)
            .view(np.uint8)
            .reshape(len(trees.order), self.halves, HALF, self.size)
        )
        self.bytes = k.constant(np.ascontiguousarray(by_leaf.transpose(0, 1, 3, 2)))
        self.order = _woven_rows(self.size)

    def values(self, place: Any, row: Any, number: Callable[[Any], Any]) -> list[Any]:
        """Look each byte of the values up, in all tables of sixteen leaves, and weave the bytes."""
        k = self.k
        numbers = k.bind(number(tirx.Ramp(row, 1, BYTES)))
        indices = [k.bind(index_of(numbers, half)) for half in range(self.halves)]
        first = k.bind(place * (self.halves * HALF) * self.size)
        planes = []
        for byte in range(self.size):
            found = [
                find_bytes(self._table(first + (half * self.size + byte) * HALF), index)
                for half, index in enumerate(indices)
            ]
            planes.append([k.bind(_any_of(found))])
        return _weave(planes, lambda a, b, order: k.bind(tirx.Shuffle([a, b], constants(order))))

    def _table(self, position: Any) -> Any:
        """Load sixteen bytes."""
        return twice(self.k, self.k.entry(self.bytes, tirx.Ramp(position, 1, HALF)))


def constants(numbers: Iterable[int]) -> list[Any]:
    """Return the positions that a shuffle takes."""
    return [tirx.IntImm("int32", i) for i in numbers]


def _any_of(vectors: list[Any]) -> Any:
    """Combine vectors of which all but one are zero."""
    total = vectors[0]
    for vector in vectors[1:]:
        total = total | vector
    return total


def _weave(planes: list[list[Any]], shuffle: Callable[[Any, Any, list[int]], Any]) -> list[Any]:
    """Interleave planes of bytes to whole values.

    1. Pairs of planes give one plane of units twice as long: unit by unit, one of each in turn.
    2. Each half of a vector is interleaved by itself, as processors shuffle: first the low units
       of both halves, then the high ones.
    3. This repeats until one plane is left, whose units are whole values.
    """
    unit_bytes = 1
    while len(planes) > 1:
        pairs = zip(planes[::2], planes[1::2], strict=True)  # 1
        planes = [
            [
                shuffle(a, b, _interleaved(unit_bytes, high))  # 2
                for a, b in zip(first, second, strict=True)
                for high in (0, 1)
            ]
            for first, second in pairs
        ]
        unit_bytes *= 2  # 3
    return planes[0]


def _interleaved(unit_bytes: int, high: int) -> list[int]:
    """Positions, in two vectors end to end, of their low or high quarters' units in turn."""
    units = np.arange(HALF // 2).reshape(-1, unit_bytes) + high * HALF // 2
    order: list[int] = [
        i
        for half in (0, HALF)
        for pair in units
        for vector in (0, BYTES)
        for i in (pair + half + vector).tolist()
    ]
    return order


def _woven_rows(size: int) -> Ints:
    """Row of each value that weaving gives."""
    rows = [[np.arange(BYTES)] for _ in range(size)]
    woven = _weave(rows, lambda a, b, order: np.concatenate([a, b])[order])
    return np.concatenate([vector[::size] for vector in woven])
