"""Emit oblivious trees: the outcomes of a tree's levels, bit by bit, are the number of the leaf."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.float_keys.emit import key_of
from hbconv.backends.tvm.trees.leaves import by_tile
from hbconv.backends.tvm.trees.leaves.by_tile import TileLeaves
from hbconv.backends.tvm.trees.oblivious.tables import ObliviousTables, make_oblivious_tables
from hbconv.backends.tvm.trees.tree_kernel import LeafForm, TreeKernel, TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.errors import VerificationError

__all__ = ["Oblivious"]

KEY_BYTES_TOGETHER = 256
"""Bytes of keys compared at once.

The leaf numbers of these rows fill half of the registers, and a threshold is read once for all.
"""


class Oblivious(TreeKernel):
    """Compares one split a level, for many rows at once."""

    name: ClassVar[str] = "oblivious"
    form: ClassVar[LeafForm] = by_tile

    def fits(self, task: TreeTask) -> bool:
        """Ask for one split a level."""
        return task.level_splits is not None

    def tables(self, task: TreeTask, trees: Trees) -> ObliviousTables:
        """Return one split a level."""
        if task.level_splits is None:
            raise VerificationError("The trees are not oblivious: a level has different splits.")
        return make_oblivious_tables(task.forest, task.dtype, task.level_splits, trees)

    def find_leaves(
        self, k: Kernel, x: Place, tables: ObliviousTables, hand_over: TileLeaves
    ) -> None:
        """Write the keys of a tile, then number the leaves tree by tree."""
        key_dtype = tables.threshold.dtype.name
        with k.temporary(key_dtype, (len(tables.feature),)) as keys:
            _write_keys(k, keys, x, tables)
            hand_over(_Finder(k, keys, tables).find)


class _Finder:
    """Finds the leaves of one tree for all rows of a tile."""

    def __init__(self, k: Kernel, keys: Place, tables: ObliviousTables) -> None:
        self.k = k
        self.keys = keys
        self.column = k.constant(tables.column)
        self.threshold = k.constant(tables.threshold)
        self.start = k.constant(tables.start)
        self.first_leaf = k.constant(tables.first_leaf)
        self.lanes = min(KEY_BYTES_TOGETHER // np.dtype(keys.dtype).itemsize, k.tile)

    def find(self, tree: Any, numbers: Place, i: Any) -> None:
        """Write the leaf of each row to entry i of a place."""
        k = self.k
        lanes = self.lanes
        begin = k.bind(k.entry(self.start, tree))
        first = k.bind(k.entry(self.first_leaf, tree))
        levels = k.bind(k.entry(self.start, tree + 1) - begin)
        with k.vectors(lanes) as row:
            path = k.register("int32", literal(0, "int32", lanes), lanes)
            with T.serial(levels) as level:
                bit = self._goes_right(k.bind(begin + level), row)
                path.set(path.get() + path.get() + bit)
            k.store(numbers, (i,), row, path.get() + tirx.Broadcast(first, lanes))

    def _goes_right(self, split: Any, row: Any) -> Any:
        """Return 1 for rows that go right, 0 for others."""
        k = self.k
        lanes = self.lanes
        key = k.load(self.keys, (k.entry(self.column, split),), row)
        right = key > tirx.Broadcast(k.entry(self.threshold, split), lanes)
        return tirx.Select(right, literal(1, "int32", lanes), literal(0, "int32", lanes))


def _write_keys(k: Kernel, keys: Place, x: Place, tables: ObliviousTables) -> None:
    """Write the keys of each column, less half their range.

    As signed numbers they compare in fewer instructions.
    """
    feature = k.constant(tables.feature)
    nan_left = k.constant(tables.nan_left)
    dtype = keys.dtype
    half = literal(-(1 << (8 * np.dtype(dtype).itemsize - 1)), dtype, k.lanes)
    lowest = tirx.IntImm(dtype, 0)
    highest = tirx.IntImm(dtype, -1)
    with k.over(keys.shape) as (column,):
        source = k.bind(k.entry(feature, column))
        missing = k.bind(tirx.Select(tirx.EQ(k.entry(nan_left, column), 0), highest, lowest))
        with k.vectors() as row:
            value = k.bind(k.load(x, (source,), row))
            key = tirx.Select(
                tirx.isnan(value),
                tirx.Broadcast(missing, k.lanes),
                key_of(value, x.dtype, dtype, k.lanes),
            )
            k.store(keys, (column,), row, key ^ half)
