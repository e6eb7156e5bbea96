"""Emit trees by select on bytes: every split of every tree, bottom-up, for many rows at once.

The model is data; the code is a few loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, beyond, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block, ByteColumns, blocks, byte_columns
from hbconv.backends.tvm.trees.bins.emit import write_split_columns
from hbconv.backends.tvm.trees.bytewise.tables import (
    KINDS,
    LEAF,
    SLOT,
    ByteTables,
    Shape,
    fields,
    make_byte_tables,
    reads_slots,
)
from hbconv.backends.tvm.trees.leaves import by_block
from hbconv.backends.tvm.trees.leaves.by_block import BlockLeaves
from hbconv.backends.tvm.trees.tree_kernel import LeafForm, TreeKernel, TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees, choose_bytewise_group

__all__ = ["Bytewise", "repeat"]

# No timings of this choice are kept.
VECTORS_TOGETHER = 8
"""Vectors of rows that a macro node is computed for before the next is read."""
REPEATED_WORD_BYTES = 4

Word = Callable[[], Any]
"""Reads the next word of a macro node."""
Number = Callable[[Any], Any]
"""Computes the leaf numbers of a vector of rows."""


@dataclass(frozen=True)
class Bytewise(TreeKernel):
    """Decides splits on bytes, in small subtrees that stay in registers.

    Parameters
    ----------
    trees_together : int
        Trees of a group; 0 for as many as suit the forest.
    """

    trees_together: int = 0

    name: ClassVar[str] = "bytewise"
    form: ClassVar[LeafForm] = by_block
    binned: ClassVar[bool] = True

    def fits(self, task: TreeTask) -> bool:
        """Ask for a strategy that decides all splits."""
        return task.strategy == "select"

    def group(self, task: TreeTask) -> int:
        """Return how many trees are evaluated together."""
        return self.trees_together or choose_bytewise_group(task.forest)

    def numbers(self, task: TreeTask) -> npt.NDArray[np.int64]:
        """Return the place of each leaf in its tree, left to right."""
        first = task.forest.first_leaf.data
        first_of_tree: npt.NDArray[np.int64] = np.repeat(first[:-1], np.diff(first))
        return np.arange(task.forest.n_leaves) - first_of_tree

    def tables(self, task: TreeTask, trees: Trees) -> ByteTables:
        """Return the program over slots."""
        return make_byte_tables(task.forest, task.bins, trees)

    def find_leaves(self, k: Kernel, x: Place, tables: ByteTables, hand_over: BlockLeaves) -> None:
        """Bin the rows of a tile, then run the program group by group.

        A group runs for every block, so that its tables are read once.
        """
        bins = tables.bins
        size = k.schedule.block
        starts = k.constant(tables.group_start)
        with (
            byte_columns(k, bins.columns + len(bins.sets.groups)) as columns,
            k.temporary(tables.dtype, (-(-tables.slots * size // k.tile),)) as slots,
        ):
            with blocks(k) as block:
                write_split_columns(k, columns, block, x, bins)
            runner = _Runner(k, columns, slots, tables)
            with k.over((k.number(tables.n_groups),)) as (group,), blocks(k) as block:
                begin = k.bind(k.entry(starts, group))
                with T.serial(k.entry(starts, group + 1) - begin) as i:
                    runner.run(begin + i, block)
                hand_over(
                    group, block, lambda tree, row: k.load(slots, (0,), beyond(tree * size, row))
                )


class _Runner:
    """Emits a run: the macro nodes of one shape, one after another."""

    def __init__(self, k: Kernel, columns: ByteColumns, slots: Place, tables: ByteTables) -> None:
        self.k = k
        self.columns = columns
        self.slots = slots
        self.kinds = tables.kinds
        self.runs = k.constant(tables.runs)
        self.words = k.constant(tables.words)

    def run(self, number: Any, block: Block) -> None:
        """Emit the run of a number, for all rows of a block."""
        k = self.k
        kind, first, count = (k.bind(k.entry(self.runs, number * 3 + i)) for i in range(3))
        for used in self.kinds:
            node = _MacroNode(k, self.columns, self.slots, KINDS[used], block)
            with T.If(tirx.EQ(kind, used)), T.Then(), T.serial(count) as i:
                node.emit(self.words, k.bind(first + i * node.width))


class _MacroNode:
    """Emits one macro node for all rows of a block."""

    def __init__(
        self, k: Kernel, columns: ByteColumns, slots: Place, shape: Shape, block: Block
    ) -> None:
        self.k = k
        self.columns = columns
        self.slots = slots
        self.dtype = slots.dtype
        self.shape = shape
        self.block = block
        self.width = 1 + len(list(fields(shape)))

    def emit(self, words: Place, first: Any) -> None:
        """Write the loop over rows, for the node whose words begin there."""
        k = self.k
        positions = iter(range(self.width))

        def word() -> Any:
            return k.entry(words, first + next(positions))

        result = k.bind(word() * k.schedule.block)
        number = self._part(self.shape, word)
        # Words of a node are read once for all these vectors.
        together = min(VECTORS_TOGETHER, k.schedule.block // k.lanes)
        with self.block.vectors(together=together) as row:
            for vector in range(together):
                rows = beyond(vector * k.lanes, row)
                k.store(self.slots, (0,), beyond(result, rows), number(rows))

    def _part(self, shape: Shape, word: Word) -> Number:
        """Read the words of a part, and return what computes its number."""
        k = self.k
        if shape == SLOT:
            return self._slot(word)
        if not isinstance(shape, tuple):
            return lambda _: literal(0, self.dtype, k.lanes)
        column = k.bind(self.columns.begin(self.block, word()))
        threshold = k.bind(repeat(word(), "int8", k.lanes))
        leaves_left = self._leaves_left(shape[0], word)
        left = self._part(shape[0], word)
        right = self._part(shape[1], word)

        def number(row: Any) -> Any:
            byte = tirx.reinterpret(f"int8x{k.lanes}", self.columns.load(column, row))
            # In this order the compare reads the column from memory, without a load of its own.
            goes_left = threshold > byte
            from_left = left(row)
            # Leaves are numbered left to right, so those of the left side come before.
            from_right = leaves_left if shape[1] == LEAF else right(row) + leaves_left
            return tirx.Select(goes_left, from_left, from_right)

        return number

    def _leaves_left(self, left: Shape, word: Word) -> Any:
        """Count the leaves of the left part: a word has it where slots are read."""
        k = self.k
        if reads_slots(left):
            return k.bind(repeat(word(), self.dtype, k.lanes))
        return literal(_count_leaves(left), self.dtype, k.lanes)

    def _slot(self, word: Word) -> Number:
        begin = self.k.bind(word() * self.k.schedule.block)
        return lambda row: self.k.load(self.slots, (0,), beyond(begin, row))


def _count_leaves(shape: Shape) -> int:
    return sum(map(_count_leaves, shape)) if isinstance(shape, tuple) else 1


def repeat(word: Any, dtype: str, lanes: int) -> Any:
    """Spread a word, which holds a small number several times, over a vector."""
    # A processor spreads a word of 32 bits as it loads it, so tables hold bytes four times.
    n_words = lanes * np.dtype(dtype).itemsize // REPEATED_WORD_BYTES
    return tirx.reinterpret(f"{dtype}x{lanes}", tirx.Broadcast(word, n_words))
