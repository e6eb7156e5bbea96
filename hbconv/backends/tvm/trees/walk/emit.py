"""Emit trees by traversal of packed nodes: some rows walk down side by side, without a branch."""

from __future__ import annotations

from functools import reduce
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.float_keys.emit import key_of
from hbconv.backends.tvm.trees.leaves import by_tile
from hbconv.backends.tvm.trees.leaves.by_tile import TileLeaves
from hbconv.backends.tvm.trees.packed_nodes.emit import step
from hbconv.backends.tvm.trees.packed_nodes.tables import PackedNodes
from hbconv.backends.tvm.trees.tree_kernel import LeafForm, TreeKernel, TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.backends.tvm.trees.walk.tables import WalkTables, make_walk_tables

__all__ = ["ROWS_WALKING", "Walk"]

ROWS_WALKING = 16
"""Rows that walk at once, so that one waits for memory while others step.

Their keys of a column fill a cache line.
"""
STEPS_PER_CHECK = 3
"""Steps after which rows that went further than usual are asked whether all stand on leaves."""


class Walk(TreeKernel):
    """Walks down one tree with all rows of a tile, then the next.

    A tile must be tall where trees are large, for their nodes to be read from memory once.
    """

    name: ClassVar[str] = "walk"
    form: ClassVar[LeafForm] = by_tile

    def fits(self, task: TreeTask) -> bool:  # noqa: ARG002
        """Ask for nothing: this one comes last."""
        return True

    def tables(self, task: TreeTask, trees: Trees) -> WalkTables:
        """Return the packed nodes."""
        return make_walk_tables(task.forest, task.dtype, ROWS_WALKING, trees)

    def find_leaves(self, k: Kernel, x: Place, tables: WalkTables, hand_over: TileLeaves) -> None:
        """Write the keys of a tile, then walk down tree by tree."""
        packed = tables.packed
        with k.temporary(packed.word, (len(packed.feature) + 1,)) as keys:
            _write_keys(k, keys, x, packed)
            hand_over(_Walker(k, keys, tables).find)


class _Walker:
    """Finds the leaves of one tree for all rows of a tile."""

    def __init__(self, k: Kernel, keys: Place, tables: WalkTables) -> None:
        self.k = k
        self.keys = keys
        self.packed = tables.packed
        self.roots = k.constant(tables.roots)
        self.depths = k.constant(tables.depths)
        self.usual_depths = k.constant(tables.usual_depths)
        self.nodes = k.constant(tables.packed.nodes)

    def find(self, tree: Any, numbers: Place, i: Any) -> None:
        """Write the leaf of each row to entry i of a place."""
        k = self.k
        root = k.bind(k.entry(self.roots, tree))
        depth = k.bind(k.entry(self.depths, tree))
        first_steps = k.bind(k.entry(self.usual_depths, tree))
        with k.vectors(ROWS_WALKING) as row:
            first_key = k.bind(tirx.Cast("int64", row.base * (len(self.packed.feature) + 1)))
            at = [k.variable("int64", root) for _ in range(ROWS_WALKING)]
            with T.serial(first_steps):
                self._advance(at, first_key)
            self._finish(at, first_key, depth - first_steps)
            for j, position in enumerate(at):
                leaf = tirx.Cast("int32", k.entry(self.nodes, position.get() * 2))
                k.store(numbers, (i,), row.base + j, leaf)

    def _finish(self, at: list[Any], first_key: Any, steps_left: Any) -> None:
        """Advance until no row steps on, where there is more to go at all."""
        onward = self.k.variable("int64", steps_left)
        with T.While(onward.get() > 0):
            for _ in range(STEPS_PER_CHECK - 1):
                self._advance(at, first_key)
            onward.set(reduce(tirx.bitwise_or, self._advance(at, first_key)))

    def _advance(self, at: list[Any], first_key: Any) -> list[Any]:
        """Step down with each row; gives 0 for those that stood on leaves."""
        return [
            step(self.k, position, self.nodes, self.keys, self.packed, first_key + j)
            for j, position in enumerate(at)
        ]


def _write_keys(k: Kernel, keys: Place, x: Place, packed: PackedNodes) -> None:
    """Write the keys of rows that walk at once side by side, column after column.

    A last column of zeros is what leaves compare with.
    """
    feature = k.constant(packed.feature)
    nan_left = k.constant(packed.nan_left)
    columns = len(packed.feature)
    lanes = ROWS_WALKING
    lowest = tirx.IntImm(packed.word, 0)
    highest = tirx.IntImm(packed.word, -1)

    def store(row: Any, column: Any, key: Any) -> None:
        at = tirx.Ramp(row.base * (columns + 1) + column * lanes, 1, lanes)
        k.store(keys, (0,), at, key)

    with k.over((columns,)) as (column,):
        source = k.bind(k.entry(feature, column))
        missing = k.bind(tirx.Select(tirx.EQ(k.entry(nan_left, column), 0), highest, lowest))
        with k.vectors(lanes) as row:
            value = k.bind(k.load(x, (source,), row))
            key = key_of(value, x.dtype, packed.word, lanes)
            is_nan = tirx.isnan(value)
            store(row, column, tirx.Select(is_nan, tirx.Broadcast(missing, lanes), key))
    with k.vectors(lanes) as row:
        store(row, columns, literal(0, packed.word, lanes))
