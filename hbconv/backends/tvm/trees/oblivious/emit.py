"""Emit oblivious trees: the outcomes of a tree's levels, bit by bit, number the leaf."""

from __future__ import annotations

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
from hbconv.backends.tvm.trees.bytewise.emit import repeat
from hbconv.backends.tvm.trees.leaves import by_block
from hbconv.backends.tvm.trees.leaves.by_block import BlockLeaves
from hbconv.backends.tvm.trees.oblivious.tables import ObliviousTables, make_oblivious_tables
from hbconv.backends.tvm.trees.tree_kernel import LeafForm, TreeKernel, TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees, choose_bytewise_group
from hbconv.errors import VerificationError

__all__ = ["Oblivious"]

REGISTERS = 8
"""Registers for the numbers of leaves: half of them, so that what is compared has the others."""


@dataclass(frozen=True)
class Oblivious(TreeKernel):
    """Compares one byte a level, for as many rows at once as registers hold.

    Parameters
    ----------
    trees_together : int
        Trees of a group; 0 for as many as suit the forest.
    """

    trees_together: int = 0

    name: ClassVar[str] = "oblivious"
    form: ClassVar[LeafForm] = by_block
    binned: ClassVar[bool] = True

    def fits(self, task: TreeTask) -> bool:
        """Ask for one split a level."""
        # With bytes, CatBoost's trees took 0.55 to 0.6 of their former time (AVX2).
        return task.level_splits is not None

    def group(self, task: TreeTask) -> int:
        """Return how many trees are evaluated together."""
        return self.trees_together or choose_bytewise_group(task.forest)

    def numbers(self, task: TreeTask) -> npt.NDArray[np.int64]:
        """Return the place of each leaf in its tree, right to left: a bit is set where left."""
        last = task.forest.first_leaf.data[1:].astype(np.int64) - 1
        counts = np.diff(task.forest.first_leaf.data)
        return np.repeat(last, counts) - np.arange(task.forest.n_leaves)

    def tables(self, task: TreeTask, trees: Trees) -> ObliviousTables:
        """Return one split a level."""
        if task.level_splits is None:
            raise VerificationError("The trees are not oblivious: a level has different splits.")
        return make_oblivious_tables(task.forest, task.bins, task.level_splits, trees)

    def find_leaves(
        self, k: Kernel, x: Place, tables: ObliviousTables, hand_over: BlockLeaves
    ) -> None:
        """Bin the rows of a tile, then number the leaves of a group of trees block by block.

        A group runs for every block, so that its leaves are read once.
        """
        size = k.schedule.block
        bins = tables.bins
        with (
            byte_columns(k, bins.columns + len(bins.sets.groups)) as columns,
            k.temporary(tables.dtype, (-(-tables.group * size // k.tile),)) as numbers,
        ):
            with blocks(k) as block:
                write_split_columns(k, columns, block, x, bins)
            finder = _Finder(k, columns, numbers, tables)
            with k.over((k.number(tables.n_groups),)) as (group,), blocks(k) as block:
                with T.serial(tables.group) as tree:
                    finder.find(k.bind(group * tables.group + tree), tree, block)
                hand_over(
                    group, block, lambda tree, row: k.load(numbers, (0,), beyond(tree * size, row))
                )


class _Finder:
    """Numbers the leaves of one tree for all rows of a block."""

    def __init__(
        self, k: Kernel, columns: ByteColumns, numbers: Place, tables: ObliviousTables
    ) -> None:
        self.k = k
        self.columns = columns
        self.numbers = numbers
        self.column = k.constant(tables.column)
        self.threshold = k.constant(tables.threshold)
        self.start = k.constant(tables.start)
        self.together = _vectors_together(k, tables.dtype)

    def find(self, place: Any, tree: Any, block: Block) -> None:
        """Write the numbers for the tree at a place of the order, and in its group."""
        k = self.k
        lanes = k.lanes
        dtype = self.numbers.dtype
        begin = k.bind(k.entry(self.start, place))
        levels = k.bind(k.entry(self.start, place + 1) - begin)
        result = k.bind(tree * k.schedule.block)
        with block.vectors(together=self.together) as row:
            vectors = [beyond(i * lanes, row) for i in range(self.together)]
            paths = [k.register(dtype, literal(0, dtype, lanes)) for _ in vectors]
            with T.serial(levels) as level:
                split = k.bind(begin + level)
                column = k.bind(self.columns.begin(block, k.entry(self.column, split)))
                threshold = k.bind(repeat(k.entry(self.threshold, split), "int8", lanes))
                for rows, path in zip(vectors, paths, strict=True):
                    bit = self._goes_left(column, threshold, rows)
                    # Doubled by an addition, since processors cannot shift bytes of vectors.
                    path.set(path.get() + path.get() + bit)
            for rows, path in zip(vectors, paths, strict=True):
                k.store(self.numbers, (0,), beyond(result, rows), path.get())

    def _goes_left(self, column: Any, threshold: Any, rows: Any) -> Any:
        """Return 1 for rows that go left, 0 for others."""
        lanes = self.k.lanes
        dtype = self.numbers.dtype
        byte = tirx.reinterpret(f"int8x{lanes}", self.columns.load(column, rows))
        # In this order the compare reads the column from memory, without a load of its own.
        left = threshold > byte
        return tirx.Select(left, literal(1, dtype, lanes), literal(0, dtype, lanes))


def _vectors_together(k: Kernel, dtype: str) -> int:
    """Return how many vectors of rows are numbered before the next tree is."""
    vector_bytes = k.lanes * np.dtype(dtype).itemsize
    fit = REGISTERS * k.machine.vector // vector_bytes
    return max(1, min(fit, k.schedule.block // k.lanes))
