"""Trees for few rows: for one row after another, some trees walk side by side, so that one waits for memory while others step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.trees.bins.tables import make_bins
from hbconv.backends.tvm.trees.categories.emit import say
from hbconv.backends.tvm.trees.categories.tables import CategorySets, find_sets
from hbconv.backends.tvm.trees.single_row.row_columns import RowColumns
from hbconv.backends.tvm.trees.single_row.tables import MOST_COLUMNS, make_tops
from hbconv.backends.tvm.trees.single_row.tree_tops import EndFinder, ends_of
from hbconv.backends.tvm.trees.walk.tables import PackedNodes, pack_nodes
from hbconv.forest import Forest

__all__ = ["ROWS", "key_of", "leaves", "scores", "step"]

ROWS = 8
"""Tiles of at most so many rows are for few rows at a time."""
TOGETHER = 16
"""Trees that walk side by side. Eight fit the registers, but wait longer for deep trees than as many again take to store."""
AT_ONCE = 8
"""Depth up to which paths differ too little in length for rounds."""
ROUND = 6
"""Steps of a round: as many as most paths have down trees grown leaf by leaf."""
Arrive = Callable[[Any, Any, list[Any]], None]
UNSIGNED = {"int32": "uint32", "int64": "uint64"}


def scores(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_scores``: sums in the source's order, for trees of one output and then the next."""
    order = np.argsort(forest.target.data, kind="stable")
    trees = np.concatenate(
        [
            np.zeros(0, np.int64),
            *(
                _padded(order[forest.target.data[order] == i], forest)
                for i in np.unique(forest.target.data)
            ),
        ]
    )
    output = k.constant(np.append(forest.target.data, 0)[trees[::TOGETHER]].astype(np.int32))
    width = forest.values.shape[1]
    # A tree that is none adds -0.0, which changes no sum.
    values = k.constant(
        np.append(forest.values.data.reshape(-1), np.full(width, -0.0, forest.accumulate))
    )
    k.map_vectors(out, (k.constant(forest.start.data),), lambda value: value)

    def add(group: Any, row: Any, numbers: list[Any]) -> None:
        column = k.bind(k.entry(output, group))
        with k.over((width,)) as (i,):
            total = k.load(out, (column + i,), row)
            for number in numbers:
                total = total + k.entry(values, number * width + i)
            k.store(out, (column + i,), row, total)

    _find(k, x, forest, trees, add)


def leaves(k: Kernel, out: Place, x: Place, forest: Forest) -> None:
    """Emit ``tree_leaves``."""

    def number(group: Any, row: Any, numbers: list[Any]) -> None:
        for i, number in enumerate(numbers):
            tree = group * TOGETHER + i
            with T.If(tree < forest.n_trees), T.Then():
                k.store(out, (tree,), row, tirx.Cast("int32", number))

    _find(k, x, forest, _padded(np.arange(forest.n_trees), forest), number)


def _padded(trees: Any, forest: Forest) -> Any:
    """Fill the last group with the tree that is none."""
    return np.concatenate([trees, np.full(-len(trees) % TOGETHER, forest.n_trees, np.int64)])


def _find(k: Kernel, x: Place, forest: Forest, trees: Any, arrive: Arrive) -> None:
    """Call ``arrive(group, row, leaf numbers)`` for each group of trees: past their tops, where these can be looked up, and on from there."""
    bins = make_bins(forest, x.dtype)
    if not k.machine.shuffles or bins.columns > MOST_COLUMNS:
        packed = pack_nodes(forest, x.dtype)
        roots = k.constant(packed.roots[trees])
        with k.rows() as row:
            _walk(
                k,
                x,
                row,
                forest,
                packed,
                _Begin(lambda turn: k.entry(roots, turn), len(trees), forest.depth),
                arrive,
            )
        return
    arranged = RowColumns.of(bins)
    tops = make_tops(forest, arranged, trees)
    with ends_of(k, tops, arranged) as finder, k.rows() as row:
        finder.find(row, x)
        if tops.whole:
            _arrive_at_once(k, row, finder, len(trees), arrive)
        else:
            packed = pack_nodes(forest, x.dtype)
            places = k.constant(packed.places(tops.ends))
            begin = _Begin(
                lambda turn: k.entry(places, finder.end(turn)),
                len(trees),
                forest.depth_below(tops.ends),
            )
            _walk(k, x, row, forest, packed, begin, arrive)


def _arrive_at_once(k: Kernel, row: Any, finder: EndFinder, trees: int, arrive: Arrive) -> None:
    """Take the ends of whole trees for what they are: all leaves, in their order."""
    with T.serial(trees // TOGETHER) as group:
        arrive(
            group,
            row,
            [k.bind(tirx.Cast("int64", finder.end(group * TOGETHER + i))) for i in range(TOGETHER)],
        )


@dataclass(frozen=True)
class _Begin:
    """Where a row begins to walk down each of some trees, and the most steps from there to a leaf."""

    place: Callable[[Any], Any]
    trees: int
    steps: int


def _walk(
    k: Kernel,
    x: Place,
    row: Any,
    forest: Forest,
    packed: PackedNodes,
    begin: _Begin,
    arrive: Arrive,
) -> None:
    """Walk down the trees."""
    sets = find_sets(forest)
    columns = len(packed.feature) + sets.count + 1
    with k.temporary(packed.word, (-(-columns // k.tile),)) as keys:
        _write_keys(k, keys, x, row, packed, sets)
        walk = _Walk(k, packed, keys, begin)
        if begin.steps <= AT_ONCE:
            walk.at_once(lambda group, numbers: arrive(group, row, numbers))
        else:
            walk.in_rounds(lambda group, numbers: arrive(group, row, numbers))


class _Walk:
    """The walk of one row down all trees."""

    def __init__(self, k: Kernel, packed: PackedNodes, keys: Place, begin: _Begin) -> None:
        self.k, self.packed, self.keys, self.begin, self.trees = k, packed, keys, begin, begin.trees
        self.nodes = k.constant(packed.nodes)

    def at_once(self, arrive: Callable[[Any, list[Any]], None]) -> None:
        """Take as many steps as the deepest leaf needs."""
        with self._groups(self.trees) as turns:
            at = self._steps([self.begin.place(turn) for turn in turns], self.begin.steps)
            arrive(turns[0] // TOGETHER, [self._number(place.get()) for place in at])

    def in_rounds(self, arrive: Callable[[Any, list[Any]], None]) -> None:
        """Take a few steps down every tree, then down those whose leaf is deeper, until there are none: paths differ in length by far."""
        k, all_trees = self.k, self.trees
        with (
            k.temporary("int64", (all_trees // k.tile + 1,)) as places,
            k.temporary("int32", (all_trees // k.tile + 2,)) as waiting,
        ):
            count = k.variable("int32", literal(0, "int32", 1))
            with self._groups(all_trees) as turns:
                self._round(
                    places, waiting, count, turns, [self.begin.place(turn) for turn in turns]
                )
            k.store(places, (0,), all_trees, literal(self.packed.roots[-1], "int64", 1))
            with T.While(count.get() > 0):
                total = k.bind(count.get())
                count.set(literal(0, "int32", 1))
                for i in range(TOGETHER - 1):
                    k.store(waiting, (0,), total + i, literal(all_trees, "int32", 1))
                with self._groups(total) as turns:
                    trees = [k.bind(k.load(waiting, (0,), turn)) for turn in turns]
                    self._round(
                        places,
                        waiting,
                        count,
                        trees,
                        [k.load(places, (0,), tree) for tree in trees],
                    )
            with self._groups(all_trees) as turns:
                arrive(
                    turns[0] // TOGETHER,
                    [self._number(k.load(places, (0,), turn)) for turn in turns],
                )

    def _round(
        self, places: Place, waiting: Place, count: Any, trees: list[Any], begin: list[Any]
    ) -> None:
        """Take some steps, and list the trees that have yet to go on."""
        k = self.k
        for tree, place in zip(trees, self._steps(begin, ROUND), strict=True):
            k.store(places, (0,), tree, place.get())
            k.store(waiting, (0,), count.get(), tree)
            goes_on = self._word(place.get(), 1) > literal(
                (1 << self.packed.shift) - 1, UNSIGNED[self.packed.word], 1
            )
            count.set(count.get() + tirx.Cast("int32", goes_on))

    @contextmanager
    def _groups(self, count: Any) -> Iterator[list[Any]]:
        """Loop over numbers up to a count, some at a time."""
        with T.serial((count + (TOGETHER - 1)) // TOGETHER) as group:
            yield [group * TOGETHER + i for i in range(TOGETHER)]

    def _steps(self, begin: list[Any], steps: int) -> list[Any]:
        """Go down trees side by side."""
        at = [self.k.variable("int64", place) for place in begin]
        with T.serial(steps):
            for place in at:
                step(self.k, place, self.nodes, self.keys, self.packed, 0)
        return at

    def _number(self, place: Any) -> Any:
        """Return the number of a leaf."""
        return self.k.bind(tirx.Cast("int64", self._word(place, 0)))

    def _word(self, place: Any, which: int) -> Any:
        return tirx.reinterpret(
            UNSIGNED[self.packed.word], self.k.entry(self.nodes, place * 2 + which)
        )


def step(k: Kernel, at: Any, nodes: Place, keys: Place, packed: PackedNodes, first_key: Any) -> Any:
    """Go on to a child; a leaf stays. Returns 0 where it stood on a leaf."""
    unsigned = UNSIGNED[packed.word]
    place = k.bind(at.get())
    threshold, fields = (
        k.bind(tirx.reinterpret(unsigned, k.entry(nodes, place * 2 + i))) for i in range(2)
    )
    column = k.bind(tirx.Cast("int64", fields & tirx.IntImm(unsigned, (1 << packed.shift) - 1)))
    key = tirx.reinterpret(unsigned, k.load(keys, (0,), column + first_key))
    far = k.bind(tirx.Cast("int64", tirx.shift_right(fields, tirx.IntImm(unsigned, packed.shift))))
    at.set(place + far + tirx.Cast("int64", key > threshold))
    return far


def _write_keys(
    k: Kernel, keys: Place, x: Place, row: Any, packed: PackedNodes, sets: CategorySets
) -> None:
    """Write a row's key in each column."""
    feature, nan_left = k.constant(packed.feature), k.constant(packed.nan_left)
    plain = len(packed.feature)
    with k.over((plain,)) as (column,):
        value = k.bind(k.load(x, (k.entry(feature, column),), row))
        missing = tirx.Select(
            tirx.EQ(k.entry(nan_left, column), 0),
            tirx.IntImm(packed.word, -1),
            tirx.IntImm(packed.word, 0),
        )
        k.store(
            keys,
            (0,),
            column,
            tirx.Select(tirx.isnan(value), missing, key_of(value, x.dtype, packed.word)),
        )
    if sets.groups:
        say(
            k,
            x,
            row,
            sets,
            0,
            1,
            lambda number, byte: k.store(keys, (0,), plain + number, tirx.Cast(packed.word, byte)),
        )
    k.store(keys, (0,), plain + sets.count, literal(0, packed.word, 1))


def key_of(value: Any, dtype: str, word: str, lanes: int = 1) -> Any:
    """Return numbers in the order of floats, as words to be read as unsigned: both zeros alike."""
    bits = {"float32": 32, "float64": 64}[dtype]
    integer, sign = f"int{bits}", -(1 << (bits - 1))
    as_integer = integer if lanes == 1 else f"{integer}x{lanes}"
    raw = tirx.Select(
        tirx.EQ(value, literal(0, dtype, lanes)),
        literal(0, integer, lanes),
        tirx.reinterpret(as_integer, value),
    )
    key = raw ^ (
        tirx.shift_right(raw, literal(bits - 1, integer, lanes)) | literal(sign, integer, lanes)
    )
    wide, unsigned = ("int64", "uint32") if lanes == 1 else (f"int64x{lanes}", f"uint32x{lanes}")
    return (
        tirx.Cast(wide, tirx.reinterpret(unsigned, key)) if (word, bits) == ("int64", 32) else key
    )
