"""Sums of leaf values looked up in registers, for trees of few leaves.

A shuffle looks up 32 or 64 bytes, or 8 or 16 words, in one instruction. The values of a tree are
stored as planes: the first bytes (or words) of all leaves, their second ones, and so on. Each plane
is looked up by itself, and what was found is interleaved to values. That leaves the rows of a
vector in an order that is the same for all trees, and is undone once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.tir.shuffles import (
    BYTES,
    HALF,
    WIDE_BYTES,
    WIDE_WORDS,
    WORDS,
    find_bytes,
    find_wide_bytes,
    find_wide_words,
    find_words,
    index_of,
    twice,
    weave,
    woven_rows,
)
from hbconv.backends.tvm.trees.leaves.tables import lay_out_parts
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["adding_shuffled", "max_shuffled_leaves"]

Number = Callable[[Any, Any], Any]
MAX_LEAVES = 32
"""Leaves of a tree up to which shuffles beat reading the values one by one."""
# 500 trees of 8 leaves took 88 ns a row with these and 114 without, 31 leaves 190 and 250 (Zen 4,
# float32).
MAX_LEAVES_WIDE = 64
"""The same where wide vectors of words are looked up."""
# 500 LightGBM trees of depth 8 took 390 ns a row with these and 545 with reads (Zen 4, float32).
MAX_LEAVES_OF_BYTES = 256
"""The same where wide vectors of bytes are looked up."""
MAX_LEAVES_OF_WORDS = 32
"""Leaves up to which wide vectors of words are looked up faster than those of bytes."""
Ints = npt.NDArray[np.int64]
WORD_BYTES = 4


@contextmanager
def adding_shuffled(
    k: Kernel, out: Place, forest: Forest, trees: Trees
) -> Iterator[Callable[[Any, Block, Number], None]]:
    """Add the values of the leaves."""
    sums = _Sums(k, out, forest, trees, _look_up(k, forest, trees))
    sums.begin()
    yield sums.add
    sums.end()


def max_shuffled_leaves(k: Kernel) -> int:
    """Return the leaves of a tree up to which shuffles beat reading the values one by one."""
    if not k.machine.shuffles:
        return 0
    if _has_wide_bytes(k):
        return MAX_LEAVES_OF_BYTES
    return MAX_LEAVES_WIDE if _has_wide_words(k) else MAX_LEAVES


def _has_wide_bytes(k: Kernel) -> bool:
    return k.machine.wide_byte_shuffles and k.schedule.block % WideByteLookUp.rows == 0


def _has_wide_words(k: Kernel) -> bool:
    return k.machine.wide_shuffles and k.schedule.block % WideWordLookUp.rows == 0


def _look_up(k: Kernel, forest: Forest, trees: Trees) -> LookUp:
    """Choose by the processor, then by the leaves: words for small trees, else bytes."""
    leaves = int(trees.numbers.max(initial=0)) + 1
    if _has_wide_bytes(k) and leaves > MAX_LEAVES_OF_WORDS:
        return WideByteLookUp(k, forest, trees, leaves)
    if _has_wide_words(k):
        return WideWordLookUp(k, forest, trees, leaves)
    return WordLookUp(k, forest, trees) if leaves <= WORDS else ByteLookUp(k, forest, trees, leaves)


class _Sums:
    """The sums of a tile, of rows in the order that the look-ups leave them in."""

    def __init__(
        self, k: Kernel, out: Place, forest: Forest, trees: Trees, look_up: LookUp
    ) -> None:
        self.k = k
        self.out = out
        self.dtype = forest.accumulate
        self.group = trees.group
        self.look_up = look_up
        self.target = k.constant(trees.targets(forest))
        self.start = k.constant(forest.start.data)
        self.sums = k.take(out.dtype, out.shape)

    def begin(self) -> None:
        """Write the start values, of all rows that a look-up may bring among the live ones."""
        k = self.k
        with k.over(self.sums.shape) as index, k.vectors(len(self.look_up.order)) as row:
            k.store(self.sums, index, row, k.load(self.start, index, row))

    def add(self, group: Any, block: Block, number: Number) -> None:
        """Add the values of a group of trees, with the sums in registers."""
        k = self.k
        lanes = self.look_up.vector // np.dtype(self.dtype).itemsize
        column = k.bind(k.entry(self.target, group))
        with block.vectors(self.look_up.rows) as row:
            first = block.first + row.base
            vectors = [
                tirx.Ramp(first + i * lanes, 1, lanes) for i in range(self.look_up.rows // lanes)
            ]
            totals = [
                k.register(self.dtype, k.load(self.sums, (column,), rows), lanes)
                for rows in vectors
            ]
            # Tree after tree, so that sums round as the source's do.
            with T.serial(self.group) as tree:
                place = k.bind(group * self.group + tree)
                values = self.look_up.values(place, row.base, partial(number, tree))
                for total, value in zip(totals, values, strict=True):
                    # Shuffles move bits and compute nothing, so halves of float64 may pass as
                    # float32.
                    total.set(total.get() + tirx.reinterpret(f"{self.dtype}x{lanes}", value))
            for total, rows in zip(totals, vectors, strict=True):
                k.store(self.sums, (column,), rows, total.get())

    def end(self) -> None:
        """Put the rows back in their order."""
        k = self.k
        order = self.look_up.order
        # The inverse order: where the look-ups left each row.
        place = k.constant(np.argsort(order).astype(np.int32))
        with k.over(self.out.shape) as index, k.rows() as row:
            woven = k.bind(row - row % len(order) + k.entry(place, row % len(order)))
            k.store(self.out, index, row, k.load(self.sums, index, woven))
        k.give(self.sums)


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
        parts = [self.k.bind(find_words(table, index)) for table in tables]
        return weave(self.k, parts, BYTES, WORD_BYTES)


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
        # Each table of 16 leaves gives zero for leaves of the others, so the results join by "or".
        indices = [k.bind(index_of(numbers, half)) for half in range(self.halves)]
        first = k.bind(place * (self.width * self.size))
        planes = []
        for byte in range(self.size):
            bytes_ = [
                find_bytes(self._table(first + byte * self.width + half * HALF), index)
                for half, index in enumerate(indices)
            ]
            planes.append(k.bind(_any_of(bytes_)))
        return weave(k, planes, BYTES)

    def _table(self, position: Any) -> Any:
        """Load sixteen bytes."""
        return twice(self.k, self.k.entry(self.bytes, tirx.Ramp(position, 1, HALF)))


def _any_of(vectors: list[Any]) -> Any:
    """Combine vectors; in each lane all but one of them are zero."""
    total = vectors[0]
    for vector in vectors[1:]:
        total = total | vector
    return total


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
        rows = np.arange(WIDE_BYTES).reshape(WIDE_WORDS, WORD_BYTES).T
        self.order = rows[:, woven_rows(self.parts, WIDE_BYTES, WORD_BYTES)].ravel()

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
            for value in self._values(parts, _shift(codes, 8 * byte))
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
        planes = [self.k.bind(find_wide_words(words, index)) for words in parts]
        return weave(self.k, planes, WIDE_BYTES, WORD_BYTES)


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
    # Instructions look up one or two vectors; more are halved by a bit, so powers of two.
    return entries << (max(0, leaves - 1) // entries).bit_length()


def _shift(codes: Any, by: int) -> Any:
    return tirx.shift_right(codes, literal(by, "uint32", WIDE_WORDS)) if by else codes
