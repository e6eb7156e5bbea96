"""Trees by select: every test of every tree, bottom-up, for a register of rows at once. The model is data; the code is a few loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.array import Array
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block, blocks
from hbconv.backends.tvm.trees.bins.emit import Columns, write_bins
from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.bytewise.macro_nodes import LEAF, SLOT, Shape, fields, reads_slots
from hbconv.backends.tvm.trees.bytewise.tables import KINDS, ByteTables, make_byte_tables
from hbconv.backends.tvm.trees.categories.emit import write_classes, write_said
from hbconv.forest import Forest

__all__ = ["COLUMNS", "ByteSelect", "Finish"]

TOGETHER = 8
"""Vectors of rows that a macro node is computed for before the next is read."""

COLUMNS = 64
"""Columns of bytes that memory is laid out for: a multiple, so that models that differ by a few share a kernel."""

Finish = Callable[[Any, Block, Callable[[Any, Any], Any]], None]


Ints = npt.NDArray[np.int64]


class ByteSelect:
    """How a forest is evaluated on bytes.

    Parameters
    ----------
    forest : Forest
    bins : Bins
    group : int
        Trees evaluated together.
    """

    def __init__(self, forest: Forest, bins: Bins, group: int) -> None:
        self.forest, self.bins, self.group = forest, bins, group
        self.number = np.arange(forest.n_leaves) - np.repeat(
            forest.first_leaf.data[:-1], np.diff(forest.first_leaf.data)
        )

    def evaluate(self, k: Kernel, x: Place, trees: Ints, finish: Finish) -> None:
        """Bin the rows, then run the program a group of trees at a time, for every block, so that a group's tables are read once."""
        bins, tables = self.bins, _tables(self.forest, self.bins, Array(trees), self.group)
        size, starts, first = k.schedule.block, k.constant(tables.group_start), len(bins.first)
        count = bins.columns + len(bins.sets.groups)
        with (
            k.temporary("uint8", (-(-count // COLUMNS) * COLUMNS,)) as bytes_,
            k.temporary(tables.dtype, (-(-tables.slots * size // k.tile),)) as slots,
        ):
            columns = Columns(k, bytes_)
            with blocks(k) as block:
                write_bins(k, columns, block, x, bins)
                if bins.sets.groups:
                    write_classes(k, columns, block, x, bins.sets, first + bins.sets.count)
                    write_said(k, columns, block, bins.sets, first)
            run = _runner(k, columns, slots, tables)
            with k.over((k.number(tables.groups),)) as (group,), blocks(k) as block:
                begin = k.bind(k.entry(starts, group))
                with T.serial(k.entry(starts, group + 1) - begin) as i:
                    run(begin + i, block)
                finish(
                    group, block, lambda tree, row: k.load(slots, (0,), _shifted(row, tree * size))
                )


@lru_cache(maxsize=2)
def _tables(forest: Forest, bins: Bins, trees: Array, group: int) -> ByteTables:
    """Make the tables once for all methods of a model, which are compiled one after another: one that numbers leaves has a forest of its own."""
    return make_byte_tables(forest, bins, trees.data, group)


def _runner(
    k: Kernel, columns: Columns, slots: Place, tables: ByteTables
) -> Callable[[Any, Block], None]:
    """Return what emits a run: the macro nodes of one shape, one after another."""
    runs, words = k.constant(tables.runs), k.constant(tables.words)

    def run(number: Any, block: Block) -> None:
        shape, first, count = (k.bind(k.entry(runs, number * 3 + i)) for i in range(3))
        for used in tables.kinds:
            node = _MacroNode(k, columns, slots, tables.dtype, KINDS[used], block)
            with T.If(tirx.EQ(shape, used)), T.Then(), T.serial(count) as i:
                node.emit(words, k.bind(first + i * node.width))

    return run


class _MacroNode:
    """Emits one macro node for all rows of a block."""

    def __init__(
        self, k: Kernel, columns: Columns, slots: Place, dtype: str, shape: Shape, block: Block
    ) -> None:
        self.k, self.columns, self.slots, self.dtype, self.shape, self.block = (
            k,
            columns,
            slots,
            dtype,
            shape,
            block,
        )
        self.width = 1 + len(list(fields(shape)))

    def emit(self, words: Place, first: Any) -> None:
        """Write the loop over rows, for the node whose words begin there."""
        size, positions = self.k.schedule.block, iter(range(self.width))

        def word() -> Any:
            return self.k.entry(words, first + next(positions))

        result = self.k.bind(word() * size)
        number = self._part(self.shape, word)
        together = min(TOGETHER, self.k.schedule.block // self.k.lanes)
        with self.block.vectors(together=together) as row:
            for turn in range(together):
                rows = _shifted(row, turn * self.k.lanes)
                self.k.store(self.slots, (0,), _shifted(rows, result), number(rows))

    def _part(self, shape: Shape, word: Callable[[], Any]) -> Callable[[Any], Any]:
        """Read the words of a part, and return what computes its number for a vector of rows."""
        k = self.k
        if not isinstance(shape, tuple):
            return self._slot(word) if shape == SLOT else lambda _: literal(0, self.dtype, k.lanes)
        column = k.bind(self.columns.begin(self.block, word()))
        place = k.bind(_splat(word(), "int8", k.lanes))
        count = (
            k.bind(_splat(word(), self.dtype, k.lanes))
            if reads_slots(shape[0])
            else literal(_leaves(shape[0]), self.dtype, k.lanes)
        )
        left, right = (self._part(child, word) for child in shape)

        def number(row: Any) -> Any:
            # In this order the processor compares with the column where it lies in memory.
            goes_left = place > tirx.reinterpret(f"int8x{k.lanes}", self.columns.load(column, row))
            return tirx.Select(
                goes_left, left(row), count if shape[1] == LEAF else right(row) + count
            )

        return number

    def _slot(self, word: Callable[[], Any]) -> Callable[[Any], Any]:
        begin = self.k.bind(word() * self.k.schedule.block)
        return lambda row: self.k.load(self.slots, (0,), _shifted(row, begin))


def _leaves(shape: Shape) -> int:
    return sum(map(_leaves, shape)) if isinstance(shape, tuple) else 1


def _shifted(row: Any, by: Any) -> Any:
    """Return a row, or a vector of rows, some rows on."""
    return (
        tirx.Ramp(row.base + by, row.stride, row.lanes) if isinstance(row, tirx.Ramp) else row + by
    )


def _splat(word: Any, dtype: str, lanes: int) -> Any:
    return tirx.reinterpret(
        f"{dtype}x{lanes}", tirx.Broadcast(word, lanes * np.dtype(dtype).itemsize // 4)
    )
