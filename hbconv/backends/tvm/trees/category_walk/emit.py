"""Emit trees with categorical splits by traversal.

A row looks a category table up as it reaches the split.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, code_within, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.category_walk.tables import (
    CategoryLookUps,
    CategoryWalkTables,
    make_category_walk_tables,
)
from hbconv.backends.tvm.trees.leaves import by_row
from hbconv.backends.tvm.trees.leaves.by_row import RowLeaves
from hbconv.backends.tvm.trees.tree_kernel import LeafForm, TreeKernel, TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees

__all__ = ["CategoryWalk"]

ROWS_LOOKING_UP = 8
"""Rows that walk at once, so that one waits for memory while others step."""
FIELDS = 3
"""Words of a split: its column, and its two children."""


class CategoryWalk(TreeKernel):
    """Walks down one tree with some rows, until the last of them reaches a leaf."""

    name: ClassVar[str] = "category_walk"
    form: ClassVar[LeafForm] = by_row

    def fits(self, task: TreeTask) -> bool:  # noqa: ARG002
        """Ask for nothing: this one comes last."""
        return True

    def tables(self, task: TreeTask, trees: Trees) -> CategoryWalkTables:
        """Return the fields of the splits."""
        return make_category_walk_tables(task.forest, task.dtype, trees)

    def find_leaves(
        self, k: Kernel, x: Place, tables: CategoryWalkTables, hand_over: RowLeaves
    ) -> None:
        """Write x and -x for a tile, then walk down tree by tree."""
        with k.temporary(x.dtype, (2, tables.n_features)) as mirrored:
            _mirror(k, mirrored, x)
            values = mirrored.view((2 * tables.n_features,))
            _walk_trees(k, tables, _Stepper(k, values, tables), hand_over)


class _Stepper:
    """Takes a row one split down; a leaf, which is negative, stays."""

    def __init__(self, k: Kernel, values: Place, tables: CategoryWalkTables) -> None:
        self.k = k
        self.values = values
        self.threshold = k.constant(tables.threshold)
        self.fields = k.constant(tables.fields)
        self.look_up = _LookUp(k, values.dtype, tables.look_ups) if tables.look_ups else None

    def step(self, row: Any, node: Any) -> Any:
        """Return the child that a row goes to."""
        k = self.k
        split = k.bind(tirx.max(node, tirx.IntImm("int32", 0)))
        value = k.bind(k.load(self.values, (k.entry(self.fields, split * FIELDS),), row))
        holds = value <= k.entry(self.threshold, split)
        if self.look_up:
            holds = tirx.Or(holds, self.look_up.goes_left(split, value))
        first = tirx.Select(holds, tirx.IntImm("int32", 1), tirx.IntImm("int32", 0))
        return tirx.Select(node < 0, node, k.entry(self.fields, split * FIELDS + 1 + first))


class _LookUp:
    """Looks a value up in a split's table."""

    def __init__(self, k: Kernel, dtype: str, look_ups: CategoryLookUps) -> None:
        self.k = k
        self.dtype = dtype
        self.start = k.constant(look_ups.start)
        self.last = k.constant(look_ups.last)
        self.table = k.constant(look_ups.goes_left)

    def goes_left(self, split: Any, value: Any) -> Any:
        """Say whether the table sends a code left."""
        k = self.k
        code = code_within(k, value, k.bind(k.entry(self.last, split)), self.dtype)
        entry = k.entry(self.table, k.entry(self.start, split) + code)
        return tirx.NE(entry, tirx.IntImm("uint8", 0))


def _walk_trees(
    k: Kernel, tables: CategoryWalkTables, stepper: _Stepper, hand_over: RowLeaves
) -> None:
    roots = k.constant(tables.roots)
    with k.over((len(tables.roots),)) as (tree,):
        root = k.bind(k.entry(roots, tree))
        groups = (k.rows_live + (ROWS_LOOKING_UP - 1)) // ROWS_LOOKING_UP
        with T.serial(groups) as group:
            numbers = [group * ROWS_LOOKING_UP + i for i in range(ROWS_LOOKING_UP)]
            # Rows past the last hold leftovers; the last row walks again in their place.
            rows = [k.bind(tirx.min(number, k.rows_live - 1)) for number in numbers]
            at = [k.variable("int32", root) for _ in rows]
            if len(tables.fields):
                with T.While(_any_inner(at)):
                    for row, node in zip(rows, at, strict=True):
                        node.set(stepper.step(row, node.get()))
            for number, row, node in zip(numbers, rows, at, strict=True):
                with T.If(number < k.rows_live), T.Then():
                    hand_over(tree, row, [~node.get()])


def _any_inner(at: list[Any]) -> Any:
    """Say whether a row still stands on a split: leaves are negative, so the joint sign tells."""
    signs = at[0].get()
    for node in at[1:]:
        signs = signs & node.get()
    return signs >= 0


def _mirror(k: Kernel, mirrored: Place, x: Place) -> None:
    """Lay out x, and beside it -x, of which ``x > t`` is a ``<=``."""
    minus = literal(-1, x.dtype, k.lanes)
    with k.over(x.shape) as (column,), k.vectors() as row:
        value = k.bind(k.load(x, (column,), row))
        k.store(mirrored, (0, column), row, value)
        k.store(mirrored, (1, column), row, value * minus)
