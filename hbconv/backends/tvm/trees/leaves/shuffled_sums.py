"""Sums of leaf values looked up in registers, for trees of few leaves.

A look-up leaves rows in an order of its own, which is undone once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.tir.transpose import WORDS
from hbconv.backends.tvm.trees.leaves.look_ups import ByteLookUp, LookUp, WordLookUp
from hbconv.backends.tvm.trees.leaves.wide_look_ups import WideByteLookUp, WideWordLookUp
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.trees.forest import Forest

__all__ = ["adding_shuffled", "max_shuffled_leaves"]

Number = Callable[[Any, Any], Any]
MAX_LEAVES = 32
"""Leaves of a tree up to which shuffles beat reading the values one by one."""
MAX_LEAVES_WIDE = 64
"""The same where wide vectors of words are looked up."""
MAX_LEAVES_OF_BYTES = 256
"""The same where wide vectors of bytes are looked up."""
MAX_LEAVES_OF_WORDS = 32
"""Leaves up to which wide vectors of words are sooner looked up than those of bytes."""


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
            with T.serial(self.group) as tree:
                place = k.bind(group * self.group + tree)
                values = self.look_up.values(place, row.base, partial(number, tree))
                for total, value in zip(totals, values, strict=True):
                    total.set(total.get() + tirx.reinterpret(f"{self.dtype}x{lanes}", value))
            for total, rows in zip(totals, vectors, strict=True):
                k.store(self.sums, (column,), rows, total.get())

    def end(self) -> None:
        """Put the rows back in their order."""
        k = self.k
        order = self.look_up.order
        place = k.constant(np.argsort(order).astype(np.int32))
        with k.over(self.out.shape) as index, k.rows() as row:
            woven = k.bind(row - row % len(order) + k.entry(place, row % len(order)))
            k.store(self.out, index, row, k.load(self.sums, index, woven))
        k.give(self.sums)
