"""Emit trees by traversal: some rows walk down side by side, without a branch.

``Walk`` steps over packed nodes. ``CategoryWalk`` is for forests where many category sets differ: a
row looks a category table up as it reaches the split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, code_within, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.bins.emit import decide_sets
from hbconv.backends.tvm.trees.leaves import by_row, by_tile
from hbconv.backends.tvm.trees.leaves.by_row import RowLeaves
from hbconv.backends.tvm.trees.leaves.by_tile import TileLeaves
from hbconv.backends.tvm.trees.leaves.tables import number_leaves
from hbconv.backends.tvm.trees.tree_kernel import (
    MOST_TABLES,
    SETS_PER_TREE,
    LeafForm,
    TreeKernel,
    TreeTask,
)
from hbconv.backends.tvm.trees.tree_order import Trees
from hbconv.backends.tvm.trees.walk.tables import (
    ROWS_WALKING,
    CategoryLookUps,
    CategoryWalkTables,
    PackedNodes,
    WalkTables,
    make_category_walk_tables,
    make_walk_tables,
)
from hbconv.trees.category_sets import find_sets

__all__ = ["UNSIGNED", "CategoryWalk", "Walk", "key_of", "node_word", "step"]

STEPS_PER_ROUND = 3
"""Steps of a round, for rows whose paths are longer than usual."""
# 100 trees of 7,625 leaves: 500 rows took 14.3 us each without, 8.2 with up to 32 lines, 8.9 with
# 64 and 9.8 with 128; 10,000 rows 8.0 without and 2.8 with the 15 that each needs. 4,096 rows in 12
# trees of 183,697 leaves took 5.3 us without, 4.5 with 32, 4.6 with 160, 5.5 with all (Zen 3).
MAX_LINES_AHEAD = 32
"""Cache lines of the next tree that are fetched as some rows walk down one.

They are its upper part where the rows are few, for it lies level by level.
"""
UNSIGNED = {"int32": "uint32", "int64": "uint64"}
ROWS_LOOKING_UP = 8
"""Rows that walk at once, so that one waits for memory while others step."""
FIELDS = 3
"""Words of a split: its column, and its two children."""


class Walk(TreeKernel):
    """Walks down one tree with all rows of a tile, then the next.

    A tile must be tall where trees are large, for their nodes to be read from memory once.
    """

    name: ClassVar[str] = "walk"
    form: ClassVar[LeafForm] = by_tile

    def fits(self, task: TreeTask) -> bool:
        """Ask for so few category sets that deciding all takes less time than looking some up."""
        tables = task.forest.tables
        if tables is None:
            return True
        return (
            tables.count <= MOST_TABLES
            and find_sets(task.forest).count <= SETS_PER_TREE * task.forest.n_trees
        )

    def numbers_added(self, task: TreeTask) -> npt.NDArray[np.int64]:
        """Give leaves of equal values one number, where these tables stay in the caches."""
        return number_leaves(task.forest)

    def tables(self, task: TreeTask, trees: Trees) -> WalkTables:
        """Return the packed nodes."""
        return make_walk_tables(task.forest, task.dtype, trees, task.machine)

    def find_leaves(self, k: Kernel, x: Place, tables: WalkTables, hand_over: TileLeaves) -> None:
        """Write the keys of a tile, then walk down tree by tree."""
        packed = tables.packed
        with (
            k.temporary(packed.word, (tables.n_keys,)) as keys,
            k.temporary("int32", (2,)) as rows,
            k.temporary("int64", (2,)) as positions,
        ):
            walker = _Walker(k, keys, _Waiting(k, rows, positions), tables)
            _write_keys(k, keys, x, tables)
            _write_sets(k, keys, x, tables)
            hand_over(walker.find)


class _Walker:
    """Finds the leaves of one tree for all rows of a tile."""

    def __init__(self, k: Kernel, keys: Place, waiting: _Waiting, tables: WalkTables) -> None:
        self.k = k
        self.keys = keys
        self.waiting = waiting
        self.packed = tables.packed
        self.n_keys = tables.n_keys
        self.even = tables.even
        self.roots = k.constant(tables.roots)
        self.usual_depths = k.constant(tables.usual_depths)
        self.nodes = k.constant(tables.packed.nodes)
        self.ahead = k.constant(tables.ahead)

    def find(self, tree: Any, numbers: Place, i: Any) -> None:
        """Write the leaf of each row to entry i of a place.

        All rows go as far as is usual. Where paths differ in length by far, those that are on a
        split then continue together, until none is.
        """
        k = self.k
        root = k.bind(k.entry(self.roots, tree))
        # 100 trees of 2,000 leaves took 1,150 ns a row when 16 rows waited for the deepest, and 750
        # so.
        steps = k.bind(k.entry(self.usual_depths, tree))
        # The trees of a forest come from memory: 100 of 7,625 leaves took 8.0 us a row when rows
        # waited for each node, and 2.8 so.
        first_line, lines = (k.bind(k.entry(self.ahead, tree * 2 + n)) for n in range(2))
        groups = tirx.Cast("int64", (k.rows_live + (ROWS_WALKING - 1)) // ROWS_WALKING)
        share = tirx.min((lines + (groups - 1)) // groups, literal(MAX_LINES_AHEAD, "int64", 1))
        share = k.bind(share)
        self.waiting.clear()
        with k.vectors(ROWS_WALKING) as row:
            self._fetch_ahead(first_line, share, row.base // ROWS_WALKING)
            rows = [row.base + j for j in range(ROWS_WALKING)]
            first_key = k.bind(_first_key(row.base, self.n_keys))
            at = [k.variable("int64", root) for _ in rows]
            first_keys = [first_key + j for j in range(ROWS_WALKING)]
            self._go_down(at, first_keys, steps)
            self._write_leaves(rows, at, numbers, i)
        if self.even:
            return
        with self.waiting.rounds() as (rows, starts):
            at = [k.variable("int64", start) for start in starts]
            first_keys = [k.bind(_first_key(row, self.n_keys)) for row in rows]
            self._go_down(at, first_keys, STEPS_PER_ROUND)
            self._write_leaves(rows, at, numbers, i)

    def _fetch_ahead(self, first: Any, share: Any, group: Any) -> None:
        """Fetch a share of the next tree to the second-level cache, as rows walk down this one."""
        k = self.k
        begin = k.bind(first + tirx.Cast("int64", group) * share)
        with T.serial(share) as line:
            entry = (begin + line) * (2 * self.packed.nodes_per_line)
            k.fetch(k.entry(self.nodes, entry))

    def _go_down(self, at: list[Any], first_keys: list[Any], steps: Any) -> None:
        """Take some steps with rows side by side."""
        with T.serial(steps):
            for position, first_key in zip(at, first_keys, strict=True):
                step(self.k, position, self.nodes, self.keys, self.packed, first_key.__add__)

    def _write_leaves(self, rows: list[Any], at: list[Any], numbers: Place, i: Any) -> None:
        """Write the leaves of rows, and list those that have to continue."""
        k = self.k
        packed = self.packed
        for row, variable in zip(rows, at, strict=True):
            position = k.bind(variable.get())
            leaf, fields = (node_word(k, self.nodes, packed, position, n) for n in range(2))
            k.store(numbers, (i,), row, tirx.Cast("int32", leaf))
            if not self.even:
                # The step is in the highest bits: it is 0 on a leaf, so fields are then below this.
                goes_on = fields > literal((1 << packed.shift) - 1, UNSIGNED[packed.word], 1)
                self.waiting.add(row, position, goes_on)


class _Waiting:
    """The rows of a tile that have to continue, and their positions.

    Each round writes a new list over the one that it reads, never ahead of it.
    """

    def __init__(self, k: Kernel, rows: Place, positions: Place) -> None:
        self.k = k
        self.rows = rows
        self.positions = positions
        self.count = k.variable("int32", literal(0, "int32", 1))

    def clear(self) -> None:
        """Have no row wait."""
        self.count.set(literal(0, "int32", 1))

    def add(self, row: Any, position: Any, goes_on: Any) -> None:
        """Write a row, which stays in the list if it continues."""
        self._write(self.count.get(), row, position)
        self.count.set(self.count.get() + tirx.Cast("int32", goes_on))

    @contextmanager
    def rounds(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """Loop until no row waits, and yield some rows at a time.

        The last row is repeated to fill the last of these groups.
        """
        k = self.k
        with T.While(self.count.get() > 0):
            total = k.bind(self.count.get())
            # Repeating a row writes its leaf again, which is the same one.
            last = [k.bind(each) for each in self._read(total - 1)]
            for i in range(ROWS_WALKING - 1):
                self._write(total + i, *last)
            self.clear()
            with T.serial((total + (ROWS_WALKING - 1)) // ROWS_WALKING) as group:
                first = k.bind(group * ROWS_WALKING)
                entries = [self._read(first + i) for i in range(ROWS_WALKING)]
                yield [k.bind(row) for row, _ in entries], [k.bind(at) for _, at in entries]

    def _write(self, place: Any, row: Any, position: Any) -> None:
        self.k.store(self.rows, (0,), place, row)
        self.k.store(self.positions, (0,), place, position)

    def _read(self, place: Any) -> tuple[Any, Any]:
        return self.k.load(self.rows, (0,), place), self.k.load(self.positions, (0,), place)


def _first_key(row: Any, n_keys: int) -> Any:
    """Return where the first key of a row is: those of rows side by side follow each other."""
    # Keys are in groups of 16 rows, column after column.
    lane = row % ROWS_WALKING
    return tirx.Cast("int64", row - lane) * n_keys + tirx.Cast("int64", lane)


def _write_keys(k: Kernel, keys: Place, x: Place, tables: WalkTables) -> None:
    """Write the keys of rows that walk at once side by side, column after column.

    A last column of zeros is what leaves compare with.
    """
    packed = tables.packed
    feature = k.constant(packed.feature)
    nan_left = k.constant(packed.nan_left)
    columns = len(packed.feature)
    lanes = ROWS_WALKING
    lowest = tirx.IntImm(packed.word, 0)
    # As an unsigned key, -1 is above all others: NaN goes right.
    highest = tirx.IntImm(packed.word, -1)

    def store(row: Any, column: Any, key: Any) -> None:
        at = tirx.Ramp(row.base * tables.n_keys + column * lanes, 1, lanes)
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
        store(row, tables.n_keys - 1, literal(0, packed.word, lanes))


def _write_sets(k: Kernel, keys: Place, x: Place, tables: WalkTables) -> None:
    """Write a key for each category set, behind those of thresholds: 0 where a row goes left."""
    if not tables.sets.groups:
        return
    first_set = len(tables.packed.feature) * ROWS_WALKING
    with k.rows() as row:
        first = k.bind(_first_key(row, tables.n_keys) + first_set)

        def store(number: Any, byte: Any) -> None:
            at = first + tirx.Cast("int64", number) * ROWS_WALKING
            k.store(keys, (0,), at, tirx.Cast(tables.packed.word, byte))

        decide_sets(k, x, row, tables.sets, (0, 1), store)


def step(
    k: Kernel,
    at: Any,
    nodes: Place,
    keys: Place,
    packed: PackedNodes,
    place: Callable[[Any], Any],
) -> Any:
    """Step to a child; a leaf stays. Returns 0 where the row was on a leaf.

    ``place`` says where the row's key is, of a column named as nodes name it.
    """
    unsigned = UNSIGNED[packed.word]
    position = k.bind(at.get())
    threshold, fields = (k.bind(node_word(k, nodes, packed, position, i)) for i in range(2))
    column = k.bind(tirx.Cast("int64", fields & tirx.IntImm(unsigned, (1 << packed.shift) - 1)))
    key = tirx.reinterpret(unsigned, k.load(keys, (0,), place(column)))
    far = k.bind(tirx.Cast("int64", tirx.shift_right(fields, tirx.IntImm(unsigned, packed.shift))))
    # The compare is added to the step, so no branch depends on the row.
    at.set(position + far + tirx.Cast("int64", key > threshold))
    return far


def node_word(k: Kernel, nodes: Place, packed: PackedNodes, position: Any, which: int) -> Any:
    """Read one of the two words of a node, as unsigned."""
    return tirx.reinterpret(UNSIGNED[packed.word], k.entry(nodes, position * 2 + which))


def key_of(value: Any, dtype: str, key_dtype: str, lanes: int = 1) -> Any:
    """Return the key of a float, or of a vector of them, to be read as unsigned.

    ``keys_of`` in ``tables.py`` does the same in numpy, but for NaN, which callers handle. A key of
    32 bits is widened where ``key_dtype`` is int64.
    """
    bits = {"float32": 32, "float64": 64}[dtype]
    integer = f"int{bits}"
    sign = -(1 << (bits - 1))
    as_integer = integer if lanes == 1 else f"{integer}x{lanes}"
    # Both zeros have one key, as they are equal.
    raw = tirx.Select(
        tirx.EQ(value, literal(0, dtype, lanes)),
        literal(0, integer, lanes),
        tirx.reinterpret(as_integer, value),
    )
    # The shift spreads the sign: negative floats flip all bits, others the sign alone.
    key = raw ^ (
        tirx.shift_right(raw, literal(bits - 1, integer, lanes)) | literal(sign, integer, lanes)
    )
    if (key_dtype, bits) != ("int64", 32):
        return key
    suffix = "" if lanes == 1 else f"x{lanes}"
    # By way of unsigned, which widens with zeros and keeps the order.
    return tirx.Cast(f"int64{suffix}", tirx.reinterpret(f"uint32{suffix}", key))


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
        # A leaf reads split 0, and ignores it.
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
    """Say whether a row is still on a split: leaves are negative, so the joint sign decides."""
    signs = at[0].get()
    for node in at[1:]:
        signs = signs & node.get()
    return signs >= 0


def _mirror(k: Kernel, mirrored: Place, x: Place) -> None:
    """Lay out x, and next to it -x: so ``x > t`` becomes a ``<=`` too."""
    minus = literal(-1, x.dtype, k.lanes)
    with k.over(x.shape) as (column,), k.vectors() as row:
        value = k.bind(k.load(x, (column,), row))
        k.store(mirrored, (0, column), row, value)
        k.store(mirrored, (1, column), row, value * minus)
