"""Emit trees for few rows: one row after another, in many trees at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.bins.emit import decide_sets
from hbconv.backends.tvm.trees.leaves import by_row
from hbconv.backends.tvm.trees.leaves.by_row import RowLeaves
from hbconv.backends.tvm.trees.leaves.tables import number_leaves
from hbconv.backends.tvm.trees.single_row.tables import (
    RowWalkTables,
    SingleRowTables,
    make_single_row_tables,
)
from hbconv.backends.tvm.trees.single_row.top_tables import MAX_SPLITS_WHOLE_TREE, TreeTops
from hbconv.backends.tvm.trees.single_row.tree_tops import ExitFinder, finding_exits
from hbconv.backends.tvm.trees.tree_kernel import LeafForm, TreeKernel, TreeTask
from hbconv.backends.tvm.trees.tree_order import Trees, largest_tree
from hbconv.backends.tvm.trees.walk.emit import UNSIGNED, key_of, node_word, step
from hbconv.backends.tvm.trees.walk.tables import ROWS_WALKING, PackedNodes
from hbconv.trees.category_sets import CategorySets

__all__ = ["MAX_STEPS_AT_ONCE", "SingleRow"]

# No timings of this choice are kept.
TREES_SIDE_BY_SIDE = 16
"""Trees that one row walks down at once.

Eight fit the registers, but wait longer for deep trees than as many again take to store.
"""
MAX_STEPS_AT_ONCE = 8
"""Depth up to which paths differ too little in length for rounds."""
STEPS_PER_ROUND = 6
"""Steps of a round: as many as most paths have down trees grown leaf by leaf."""

Start = Callable[[Any], Any]
"""Reads the position where the walk down the tree at a place begins."""
Reach = Callable[[Any, list[Any]], None]
"""Takes a group of trees, and the leaves that the row reaches in them."""


class SingleRow(TreeKernel):
    """Passes the tops of the trees, where they can be looked up, and walks on from there."""

    name: ClassVar[str] = "single_row"
    form: ClassVar[LeafForm] = by_row

    def fits(self, task: TreeTask) -> bool:
        """Ask for a tile of too few rows for vectors over rows."""
        return task.schedule.few_rows

    def group(self, task: TreeTask) -> int:  # noqa: ARG002
        """Return how many trees a row walks down at once."""
        return TREES_SIDE_BY_SIDE

    def numbers_added(self, task: TreeTask) -> npt.NDArray[np.int64]:
        """Give leaves the numbers of ``Walk``; in whole trees their own, as exits are leaves."""
        may_be_whole = largest_tree(task.forest) <= MAX_SPLITS_WHOLE_TREE + 1
        if may_be_whole or task.level_splits is not None:
            return self.numbers(task)
        return number_leaves(task.forest)

    def tables(self, task: TreeTask, trees: Trees) -> SingleRowTables:
        """Return the tops of the trees, and what is below them."""
        return make_single_row_tables(
            task.forest, task.dtype, task.bins, task.level_splits, trees, task.machine
        )

    def find_leaves(
        self, k: Kernel, x: Place, tables: SingleRowTables, hand_over: RowLeaves
    ) -> None:
        """Find the leaves of one row in all trees, then those of the next row."""
        if tables.tops:
            _pass_tops(k, x, tables.tops, tables, hand_over)
        elif tables.walk:
            with k.rows() as row:
                _walk(k, x, row, tables.walk, lambda place: place, hand_over)


def _pass_tops(
    k: Kernel, x: Place, tops: TreeTops, tables: SingleRowTables, hand_over: RowLeaves
) -> None:
    """Find the exits of the tops that a row comes to, and walk on from them."""
    with finding_exits(k, tops, tables.columns) as finder, k.rows() as row:
        if tables.walk is None:
            with finder.groups(row, x) as group:
                _reach_exits(k, row, finder, group, tables.n_places, hand_over)
            return
        # The exits of all trees are found before the first walk begins.
        with finder.groups(row, x):
            pass
        _walk(k, x, row, tables.walk, finder.exit, hand_over)


def _reach_exits(
    k: Kernel, row: Any, finder: ExitFinder, group: Any, n_places: int, hand_over: RowLeaves
) -> None:
    """Hand over the exits of whole trees: they are the leaves, in their order."""
    most = finder.tops.group // TREES_SIDE_BY_SIDE
    first = k.bind(group * most)
    left = n_places // TREES_SIDE_BY_SIDE - first
    with T.serial(tirx.min(left, tirx.IntImm("int32", most))) as i:
        side_by_side = k.bind(first + i)
        places = [side_by_side * TREES_SIDE_BY_SIDE + j for j in range(TREES_SIDE_BY_SIDE)]
        exits = [tirx.Cast("int64", finder.exit(place)) for place in places]
        hand_over(side_by_side, row, exits)


def _walk(
    k: Kernel, x: Place, row: Any, walk: RowWalkTables, start: Start, hand_over: RowLeaves
) -> None:
    """Walk down the trees; ``start`` numbers the start of the tree at a place."""
    columns = len(walk.packed.feature) + walk.sets.count + 1
    starts = k.constant(walk.starts)
    with k.temporary(walk.packed.word, (-(-columns // k.tile),)) as keys:
        _write_keys(k, keys, x, row, walk.packed, walk.sets)
        walker = _Walker(k, walk, keys, lambda place: k.entry(starts, start(place)))
        # Trees grown leaf by leaf have paths half as long as they are deep.
        reach = walker.at_once if walk.steps <= MAX_STEPS_AT_ONCE else walker.in_rounds
        reach(lambda group, leaves: hand_over(group, row, leaves))


class _Walker:
    """Walks down all trees with one row."""

    def __init__(self, k: Kernel, walk: RowWalkTables, keys: Place, start: Start) -> None:
        self.k = k
        self.packed = walk.packed
        self.steps = walk.steps
        self.n_places = walk.n_places
        self.keys = keys
        self.start = start
        self.nodes = k.constant(walk.packed.nodes)

    def at_once(self, reach: Reach) -> None:
        """Take as many steps as the deepest leaf needs."""
        with self._groups(self.n_places) as places:
            at = self._go_down([self.start(place) for place in places], self.steps)
            leaves = [self._leaf(position.get()) for position in at]
            reach(places[0] // TREES_SIDE_BY_SIDE, leaves)

    def in_rounds(self, reach: Reach) -> None:
        """Take a few steps down every tree, then down those whose leaf is deeper, until none is.

        Paths differ in length by far.

        1. After the first round, ``waiting`` lists the places of the trees to continue with.
        2. A place past the last one, which is on a leaf of no tree, fills the last group.
        3. Each round writes a new list over the one that it reads, never ahead of it.
        """
        k = self.k
        with (
            k.temporary("int64", (self.n_places // k.tile + 1,)) as positions,
            k.temporary("int32", (self.n_places // k.tile + 2,)) as waiting,
        ):
            count = k.variable("int32", literal(0, "int32", 1))
            with self._groups(self.n_places) as places:  # 1
                starts = [self.start(place) for place in places]
                self._round(positions, waiting, count, places, starts)
            no_leaf = literal(self.packed.roots[-1], "int64", 1)
            # This extra place fills the last group, and never has to continue.
            k.store(positions, (0,), self.n_places, no_leaf)
            with T.While(count.get() > 0):
                total = k.bind(count.get())
                count.set(literal(0, "int32", 1))
                for i in range(TREES_SIDE_BY_SIDE - 1):  # 2
                    k.store(waiting, (0,), total + i, literal(self.n_places, "int32", 1))
                with self._groups(total) as turns:  # 3
                    places = [k.bind(k.load(waiting, (0,), turn)) for turn in turns]
                    at = [k.load(positions, (0,), place) for place in places]
                    self._round(positions, waiting, count, places, at)
            with self._groups(self.n_places) as places:
                leaves = [self._leaf(k.load(positions, (0,), place)) for place in places]
                reach(places[0] // TREES_SIDE_BY_SIDE, leaves)

    def _round(
        self, positions: Place, waiting: Place, count: Any, places: list[Any], starts: list[Any]
    ) -> None:
        """Take some steps, and list the trees that have to continue."""
        k = self.k
        word = UNSIGNED[self.packed.word]
        for place, at in zip(places, self._go_down(starts, STEPS_PER_ROUND), strict=True):
            k.store(positions, (0,), place, at.get())
            k.store(waiting, (0,), count.get(), place)
            fields = node_word(k, self.nodes, self.packed, at.get(), 1)
            # The step is in the highest bits: it is 0 on a leaf, so fields are then below this.
            goes_on = fields > literal((1 << self.packed.shift) - 1, word, 1)
            count.set(count.get() + tirx.Cast("int32", goes_on))

    @contextmanager
    def _groups(self, count: Any) -> Iterator[list[Any]]:
        """Loop over numbers up to a count, some at a time."""
        with T.serial((count + (TREES_SIDE_BY_SIDE - 1)) // TREES_SIDE_BY_SIDE) as group:
            yield [group * TREES_SIDE_BY_SIDE + i for i in range(TREES_SIDE_BY_SIDE)]

    def _go_down(self, starts: list[Any], steps: int) -> list[Any]:
        """Go down trees side by side."""
        # Positions of 64 bits are added to addresses without a conversion.
        at = [self.k.variable("int64", start) for start in starts]
        with T.serial(steps):
            for position in at:
                step(self.k, position, self.nodes, self.keys, self.packed, _place)
        return at

    def _leaf(self, position: Any) -> Any:
        """Return the number of a leaf."""
        word = node_word(self.k, self.nodes, self.packed, position, 0)
        return self.k.bind(tirx.Cast("int64", word))


def _place(column: Any) -> Any:
    """Return where the key of a column is: nodes name it as if rows stood side by side."""
    return column // ROWS_WALKING


def _write_keys(
    k: Kernel, keys: Place, x: Place, row: Any, packed: PackedNodes, sets: CategorySets
) -> None:
    """Write a row's key in each column: of features, of category sets, then 0."""
    feature = k.constant(packed.feature)
    nan_left = k.constant(packed.nan_left)
    plain = len(packed.feature)
    word = packed.word
    lowest = tirx.IntImm(word, 0)
    # As an unsigned key, -1 is above all others: NaN goes right.
    highest = tirx.IntImm(word, -1)
    with k.over((plain,)) as (column,):
        value = k.bind(k.load(x, (k.entry(feature, column),), row))
        missing = tirx.Select(tirx.EQ(k.entry(nan_left, column), 0), highest, lowest)
        # Each column has one side of NaN, so no step has to test for it.
        key = tirx.Select(tirx.isnan(value), missing, key_of(value, x.dtype, word))
        k.store(keys, (0,), column, key)

    def store(number: Any, byte: Any) -> None:
        k.store(keys, (0,), plain + number, tirx.Cast(word, byte))

    if sets.groups:
        decide_sets(k, x, row, sets, (0, 1), store)
    k.store(keys, (0,), plain + sets.count, literal(0, word, 1))
