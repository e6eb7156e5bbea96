"""Emit the program over planes: chains, windows, and the codes of trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.bitwise.planes import Planes, transposed_bits
from hbconv.backends.tvm.trees.bitwise.tables import CHAIN, BitTables, Kind, words_of
from hbconv.backends.tvm.trees.bitwise.windows import WINDOW_BITS

__all__ = ["Codes", "Runner"]

Vector = Any
Word = Callable[[int], Any]
"""Reads the word of a number, of those of a node or a tree."""


class Runner:
    """Emits a run: the nodes of one kind, one after another."""

    def __init__(self, k: Kernel, planes: Planes, tables: BitTables) -> None:
        self.k = k
        self.planes = planes
        self.kinds = tables.kinds
        self.runs = k.constant(tables.runs)
        self.words = k.constant(tables.words)

    def run(self, number: Any) -> None:
        """Emit the run of a number."""
        k = self.k
        kind, first, count = (k.bind(k.entry(self.runs, number * 3 + i)) for i in range(3))
        _choose(kind, self.kinds, lambda each: self._emit_all(first, count, each))

    def _emit_all(self, first: Any, count: Any, kind: Kind) -> None:
        name, size = kind
        emit = self._chain if name == CHAIN else self._window
        with T.serial(count) as i:
            begin = self.k.bind(first + i * words_of(kind))
            emit(size, lambda word: self.k.entry(self.words, begin + word))

    def _chain(self, pairs: int, word: Word) -> None:
        """Compute ``(decided and this) or that``, pair after pair."""
        k, planes = self.k, self.planes
        decided = k.bind(planes.load(word(1)))
        for i in range(2, 2 + 2 * pairs, 2):
            decided = k.bind((decided & planes.load(word(i))) | planes.load(word(i + 1)))
        planes.store(word(0), decided)

    def _window(self, bits: int, word: Word) -> None:
        """Compute the planes of a window; past its bits are zeros."""
        found = _joined(self.planes, lambda i: word(1 + i), bits)
        result = self.k.bind(tirx.Cast("int32", word(0)))
        missing = [self.planes.zeros] * (WINDOW_BITS - bits)
        for i, plane in enumerate([*found, *missing]):
            self.planes.store(result, plane, i)


def _choose(number: Any, kinds: list[tuple[int, Kind]], emit: Callable[[Kind], None]) -> None:
    """Do what the number says: compares that LLVM makes a jump of."""
    if not kinds:
        return
    (first, kind), *others = kinds
    with T.If(tirx.EQ(number, first)):
        with T.Then():
            emit(kind)
        if others:
            with T.Else():
                _choose(number, others, emit)


def _joined(
    planes: Planes, word: Word, levels: int, below: Word | None = None, split: int = 0
) -> list[Vector]:
    """Return the planes of a part of a tree from a split on, the lowest bit first.

    Parameters
    ----------
    word : callable
        Reads where the plane of each split is.
    levels : int
        Levels of splits from this one on.
    below : callable, optional
        Reads where the planes of each window below these levels begin.
    """
    if not levels:
        first = (split + 1).bit_length() - 1
        window = split + 1 - (1 << first)
        begin = planes.k.bind(tirx.Cast("int32", below(window))) if below else None
        return [planes.load(begin, i) for i in range(WINDOW_BITS)] if below else []
    left, right = (_joined(planes, word, levels - 1, below, 2 * split + side) for side in (1, 2))
    before = planes.k.bind(planes.load(word(split)))
    pairs = zip(left, right, strict=True)
    return [*(planes.k.bind(_chosen(planes.k, before, *pair)) for pair in pairs), before]


def _chosen(k: Kernel, before: Vector, left: Vector, right: Vector) -> Vector:
    """Take the left plane's bits of rows before the split, and the right one's of others."""
    right = k.bind(right)
    return ((left ^ right) & before) ^ right


class Codes:
    """Turns the tops of a group's trees into bytes."""

    def __init__(self, k: Kernel, planes: Planes, tables: BitTables) -> None:
        self.k = k
        self.planes = planes
        self.levels = tables.levels
        self.has_windows = tables.bits > tables.levels
        self.width = tables.codes.shape[1]
        self.words = k.constant(tables.codes)

    def write(self, first_tree: Any, codes: Place) -> None:
        """Write the code of each row, tree after tree."""
        k, size = self.k, self.planes.size
        with T.serial(codes.shape[0]) as tree:
            first = k.bind((first_tree + tree) * self.width)
            splits = (1 << self.levels) - 1

            def word(i: int) -> Any:
                return k.entry(self.words, first + i)

            below = (lambda i: word(splits + i)) if self.has_windows else None
            code = _joined(self.planes, word, self.levels, below)
            for q, vector in enumerate(transposed_bits(k, code)):
                begin = tree * k.schedule.block + q * size
                k.store(codes, (0,), tirx.Ramp(begin, 1, size), vector)
