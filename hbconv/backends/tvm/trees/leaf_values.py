"""Leaf values of a group of trees, looked up by leaf number and added row by row in the trees' order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.tir.shuffles import (
    BYTES,
    HALF,
    WORDS,
    find_bytes,
    find_words,
    index_of,
    twice,
)
from hbconv.forest import Forest

__all__ = ["Adder", "Trees", "adder", "by_number"]

Indices = npt.NDArray[np.int64]
MOST_SHUFFLED = 64
"""Leaves of a tree up to which shuffles beat reading the values one by one."""


@dataclass(frozen=True, eq=False)
class Trees:
    """The order in which trees are evaluated, and how their leaves are numbered.

    Parameters
    ----------
    order : int64 (n,)
        Trees, -1 standing for none; those of a group add to one output.
    group : int
        Trees evaluated together; n is a multiple of it.
    number : int64 (n_leaves,)
        Of each leaf, among those of its tree.
    """

    order: Indices
    group: int
    number: Indices

    def target(self, forest: Forest) -> npt.NDArray[np.int32]:
        """Output that each group adds to."""
        return forest.target.data[np.maximum(self.order[:: self.group], 0)].astype(np.int32)


class Adder(Protocol):
    """Adds up leaf values between ``begin`` and ``end``."""

    def begin(self) -> None:
        """Write the start values."""

    def add(self, group: Any, block: Block, number: Any) -> None:
        """Add the values of a group; ``number(tree, row)`` loads the leaf number of one of its trees."""

    def end(self) -> None:
        """Leave the sums in the output."""


def adder(k: Kernel, out: Place, forest: Forest, trees: Trees) -> Adder:
    """Choose how to add."""
    most = int(trees.number.max(initial=0)) + 1
    if not k.machine.shuffles or most > MOST_SHUFFLED or forest.values.shape[1] > 1:
        return _Plain(k, out, forest, trees)
    return (
        _ByWords(k, out, forest, trees)
        if most <= WORDS
        else _ByBytes(k, out, forest, trees, -(-most // HALF) * HALF)
    )


class _Plain:
    """Reads the values one by one. A tree that is none adds -0.0, which changes no sum."""

    def __init__(self, k: Kernel, out: Place, forest: Forest, trees: Trees) -> None:
        self.k, self.out, self.width, self.start, self.group = (
            k,
            out,
            forest.values.shape[1],
            k.constant(forest.start.data),
            trees.group,
        )
        values, first = by_number(forest, trees, forest.values.data, -0.0)
        self.values, self.first, self.target = (
            k.constant(values),
            k.constant(first * self.width),
            k.constant(trees.target(forest)),
        )

    def begin(self) -> None:
        self.k.map_vectors(self.out, (self.start,), lambda value: value)

    def add(self, group: Any, block: Block, number: Any) -> None:
        k, width = self.k, self.width
        starts = [k.bind(k.entry(self.first, group * self.group + i)) for i in range(self.group)]
        column = k.bind(k.entry(self.target, group))
        with k.over((width,)) as (value,), block.rows() as row:
            total = k.load(self.out, (column + value,), block.first + row)
            for i, start in enumerate(starts):
                total = total + k.entry(
                    self.values, start + tirx.Cast("int32", number(i, row)) * width + value
                )
            k.store(self.out, (column + value,), block.first + row, total)

    def end(self) -> None:
        """Nothing: the sums are in the output."""


class _Shuffled:
    """Looks values up in vectors, part by part, and interleaves the parts to numbers.

    That leaves the rows of a vector in an order of its own, which is the same for all trees and undone at the end. A tree has
    ``width`` values, those past its last leaf being -0.0.
    """

    order: Indices
    rows: int
    """Rows that are looked up together."""

    def __init__(self, k: Kernel, out: Place, forest: Forest, trees: Trees, width: int) -> None:
        self.k, self.out, self.dtype, self.width, self.group = (
            k,
            out,
            forest.accumulate,
            width,
            trees.group,
        )
        self.size = np.dtype(forest.accumulate).itemsize
        self.target = k.constant(trees.target(forest))
        self.start = k.constant(forest.start.data)
        self.sums = k.take(out.dtype, out.shape)

    def begin(self) -> None:
        self.k.map_vectors(self.sums, (self.start,), lambda value: value)

    def add(self, group: Any, block: Block, number: Any) -> None:
        k, lanes, column = self.k, BYTES // self.size, self.k.bind(self.k.entry(self.target, group))
        with block.vectors(self.rows) as row:
            at = [
                tirx.Ramp(block.first + row.base + i * lanes, 1, lanes)
                for i in range(self.rows // lanes)
            ]
            totals = [
                k.register(self.dtype, k.load(self.sums, (column,), rows), lanes) for rows in at
            ]
            with T.serial(self.group) as tree:
                values = self.values(
                    k.bind(group * self.group + tree),
                    row.base,
                    lambda rows, tree=tree: number(tree, rows),
                )
                for total, value in zip(totals, values, strict=True):
                    total.set(total.get() + tirx.reinterpret(f"{self.dtype}x{lanes}", value))
            for total, rows in zip(totals, at, strict=True):
                k.store(self.sums, (column,), rows, total.get())

    def values(self, tree: Any, row: Any, number: Any) -> list[Any]:
        """Look up the values of a tree for some rows."""
        raise NotImplementedError

    def end(self) -> None:
        k, place = self.k, self.k.constant(np.argsort(self.order).astype(np.int32))
        with k.over(self.out.shape) as index, k.rows() as row:
            woven = k.bind(row - row % BYTES + k.entry(place, row % BYTES))
            k.store(self.out, index, row, k.load(self.sums, index, woven))
        k.give(self.sums)


class _ByWords(_Shuffled):
    """Words of 32 bits, a vector of them at a time: for trees of few leaves."""

    def __init__(self, k: Kernel, out: Place, forest: Forest, trees: Trees) -> None:
        super().__init__(k, out, forest, trees, WORDS)
        words = (
            _values(forest, trees, WORDS)
            .view(np.float32)
            .reshape(len(trees.order), WORDS, self.size // 4)
        )
        self.words = k.constant(np.ascontiguousarray(words.transpose(0, 2, 1)))
        # Four sums and what is added to them stay in the registers.
        self.rows = 4 * BYTES // self.size
        self.order = (
            np.arange(BYTES)
            if self.size == 4
            else np.arange(BYTES).reshape(-1, 4, 2)[:, [0, 2, 1, 3]].ravel()
        )

    def values(self, tree: Any, row: Any, number: Any) -> list[Any]:
        k, parts = self.k, self.size // 4
        tables = [
            k.bind(k.entry(self.words, tirx.Ramp((tree * parts + part) * WORDS, 1, WORDS)))
            for part in range(parts)
        ]
        return [
            value
            for first in range(0, self.rows, WORDS)
            for value in self._interleaved(tables, number(tirx.Ramp(row + first, 1, WORDS)))
        ]

    def _interleaved(self, tables: list[Any], number: Any) -> list[Any]:
        """Look a vector's words up; interleaving those of longer numbers works in each half of a vector apart."""
        index = self.k.bind(tirx.Cast(f"int32x{WORDS}", number))
        found = [self.k.bind(find_words(table, index)) for table in tables]
        return (
            found
            if len(found) == 1
            else [
                tirx.Shuffle(found, _constants(order))
                for order in ([0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15])
            ]
        )


class _ByBytes(_Shuffled):
    """The values' first bytes, their second bytes and so on, which are then woven to numbers."""

    rows = BYTES

    def __init__(self, k: Kernel, out: Place, forest: Forest, trees: Trees, width: int) -> None:
        super().__init__(k, out, forest, trees, width)
        by_leaf = (
            _values(forest, trees, width)
            .view(np.uint8)
            .reshape(len(trees.order), width // HALF, HALF, self.size)
        )
        self.bytes, self.order = (
            k.constant(np.ascontiguousarray(by_leaf.transpose(0, 1, 3, 2))),
            _row_order(self.size),
        )

    def values(self, tree: Any, row: Any, number: Any) -> list[Any]:
        numbers = self.k.bind(number(tirx.Ramp(row, 1, BYTES)))
        indices = [self.k.bind(index_of(numbers, half)) for half in range(self.width // HALF)]
        first, planes = self.k.bind(tree * self.width * self.size), []
        for byte in range(self.size):
            found = [
                find_bytes(self._table(first + (half * self.size + byte) * HALF), index)
                for half, index in enumerate(indices)
            ]
            planes.append([self.k.bind(_any_of(found))])
        return _weave(
            planes, 1, lambda a, b, order: self.k.bind(tirx.Shuffle([a, b], _constants(order)))
        )

    def _table(self, position: Any) -> Any:
        """Load sixteen bytes."""
        return twice(self.k, self.k.entry(self.bytes, tirx.Ramp(position, 1, HALF)))


def by_number(
    forest: Forest, trees: Trees, leaves: npt.NDArray[Any], none: float
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Lay out what belongs to leaves by their numbers, tree after tree, and at last that of a tree that is none; say where each tree of the order begins."""
    first = forest.first_leaf.data[:-1]
    start = (
        np.append(0, np.cumsum(np.maximum.reduceat(trees.number, first) + 1))
        if len(first)
        else np.zeros(1, np.int64)
    )
    table = np.full((start[-1] + 1, *leaves.shape[1:]), none, leaves.dtype)
    table[np.repeat(start[:-1], np.diff(forest.first_leaf.data)) + trees.number] = leaves
    return table, start[trees.order].astype(np.int32)


def _values(forest: Forest, trees: Trees, width: int) -> npt.NDArray[Any]:
    """Lay the values out as (tree, number)."""
    table = np.full((forest.n_trees + 1, width), -0.0, forest.accumulate)
    table[np.repeat(np.arange(forest.n_trees), np.diff(forest.first_leaf.data)), trees.number] = (
        forest.values.data[:, 0]
    )
    return table[trees.order]


def _constants(numbers: Iterable[int]) -> list[Any]:
    return [tirx.IntImm("int32", i) for i in numbers]


def _any_of(vectors: list[Any]) -> Any:
    """Combine vectors of which all but one are zero."""
    total = vectors[0]
    for vector in vectors[1:]:
        total = total | vector
    return total


def _weave(planes: list[list[Any]], unit: int, shuffle: Any) -> list[Any]:
    """Interleave units of bytes of each two planes, in each half of the vectors, until one plane is left."""
    while len(planes) > 1:
        pairs = zip(planes[::2], planes[1::2], strict=True)
        planes = [
            [
                shuffle(a, b, _interleaved(unit, high))
                for a, b in zip(first, second, strict=True)
                for high in (0, 1)
            ]
            for first, second in pairs
        ]
        unit *= 2
    return planes[0]


def _interleaved(unit: int, high: int) -> list[int]:
    """Positions, in two vectors end to end, of their low or high quarters' units in turn."""
    units = np.arange(HALF // 2).reshape(-1, unit) + high * HALF // 2
    order: list[int] = [
        i
        for half in (0, HALF)
        for pair in units
        for vector in (0, BYTES)
        for i in (pair + half + vector).tolist()
    ]
    return order


def _row_order(size: int) -> Indices:
    """Row of each number that weaving gives."""
    rows = [[np.arange(BYTES)] for _ in range(size)]
    woven = _weave(rows, 1, lambda a, b, order: np.concatenate([a, b])[order])
    return np.concatenate([vector[::size] for vector in woven])
