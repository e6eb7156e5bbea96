"""Emit contributions and interactions: walk each tree down and up, with many rows at once.

The shares of a test become factors here, one node of the rule after another: tables of the factors
would be as many times as long as the rule has nodes. Interactions keep the gains of the tests above
as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, beyond, literal, spread
from hbconv.backends.tvm.tir.memory import InTable, Place
from hbconv.backends.tvm.tir.row_blocks import Block, ByteColumns, blocks, byte_columns
from hbconv.backends.tvm.tir.subroutines import make_subroutine
from hbconv.backends.tvm.trees.bins.emit import write_split_columns
from hbconv.backends.tvm.trees.contributions.tables import (
    ALWAYS,
    LEFT,
    NUMBERS,
    OFF,
    RIGHT,
    WORDS,
    ContributionTables,
    make_pair_tables,
    make_tables,
)
from hbconv.tensor import TensorType
from hbconv.trees.covered_forest import CoveredForest

__all__ = ["EMITTERS", "Test", "Walker", "emit_shared", "walk_trees"]

BLOCK = 64
"""Rows of a block: the slots of a tree of depth 15 fill half of the nearest cache."""
NUMBER_BYTES = 8
WORD_BYTES = 4
ONCE = 1.0
"""Weight of the gains that are kept: what a lower test adds has that of the node."""


def contributions(k: Kernel, out: Place, x: Place, covered: CoveredForest) -> None:
    """Emit ``tree_contributions``, as a subroutine that models of one kind share."""
    if not covered.forest.n_tests:
        k.map_vectors(out, (k.constant(covered.start),), lambda value: value)
        return
    emit_shared(_emit, k, out, x, covered)


def emit_shared(
    emit: Callable[..., None], k: Kernel, out: Place, x: Place, covered: CoveredForest
) -> None:
    """Emit as a subroutine, or in place where rows are a constant or a call has few."""
    if isinstance(x, InTable) or k.schedule.few_rows:
        emit(k, out, x, covered)
        return
    types = (TensorType(out.dtype, out.shape), TensorType(x.dtype, x.shape))
    k.call(make_subroutine(emit, k.schedule, k.machine, types, covered), out, x)


def _emit(k: Kernel, out: Place, x: Place, covered: CoveredForest) -> None:
    """Start from the expected values, and add what all tests add."""
    k.map_vectors(out, (k.constant(covered.start),), lambda value: value)
    tables = make_tables(covered, x.dtype)
    walk_trees(k, x, tables, 2 * tables.depth + 1, partial(Walker, out=out))


def walk_trees(
    k: Kernel, x: Place, tables: ContributionTables, n_slots: int, make: Callable[..., Walker]
) -> None:
    """Bin the rows of a tile, then walk tree by tree, each for every block."""
    bins = tables.bins
    with k.blocks_of(min(BLOCK, k.tile)):
        room, states_room = (
            -(-count * k.schedule.block // k.tile) for count in (n_slots, tables.depth + 1)
        )
        with (
            byte_columns(k, bins.columns + len(bins.sets.groups)) as columns,
            k.temporary("float64", (room,)) as slots,
            k.temporary("uint8", (states_room,)) as states,
        ):
            with blocks(k) as block:
                write_split_columns(k, columns, block, x, bins)
            walker = make(k, columns=columns, slots=slots, states=states, tables=tables)
            with k.over((k.number(len(tables.nodes)),)) as (tree,), blocks(k) as block:
                walker.walk(tree, block)


class Walker:
    """Walks through a tree for the rows of a block, once for each node of its rule."""

    def __init__(
        self,
        k: Kernel,
        *,
        out: Place,
        columns: ByteColumns,
        slots: Place,
        states: Place,
        tables: ContributionTables,
    ) -> None:
        self.k = k
        self.out = out
        self.columns = columns
        self.slots = slots
        self.states = states
        # Sums are float64: a register holds fewer of them than of bytes.
        self.lanes = min(k.schedule.block, max(8, k.machine.vector // NUMBER_BYTES))
        self.steps = k.constant(tables.steps)
        self.start = k.constant(tables.start)
        self.rule = k.constant(tables.rule)
        self.nodes = k.constant(tables.nodes)
        self.t = k.constant(tables.t)
        self.weight = k.constant(tables.weight)
        self.words = k.constant(tables.words.ravel())
        self.numbers = k.constant(tables.numbers.ravel())

    def walk(self, tree: Any, block: Block) -> None:
        """Add the contributions of a tree."""
        k = self.k
        with block.vectors() as row:
            self.store_state(0, row, literal(ALWAYS, "uint8", k.lanes))
        begin = k.bind(k.entry(self.start, tree))
        count = k.bind(k.entry(self.start, tree + 1) - begin)
        rule = k.bind(k.entry(self.rule, tree))
        # LightGBM takes 276 us a row, this walk 3.7: 100 trees of 31 leaves, 20 features.
        with T.serial(k.entry(self.nodes, tree)) as node:
            t = k.bind(k.entry(self.t, rule + node))
            weight = k.bind(k.entry(self.weight, rule + node))
            with block.vectors(self.lanes) as row:
                self.store(0, row, literal(1.0, "float64", self.lanes))
            with T.serial(count) as i:
                step = k.bind(k.entry(self.steps, begin + i))
                test = self.test(k.bind(tirx.shift_right(step, 1)), t)
                with T.If(tirx.EQ(tirx.bitwise_and(step, 1), 0)):
                    with T.Then():
                        test.go_down(block)
                    with T.Else():
                        test.go_up(block, weight)

    def test(self, number: Any, t: Any) -> Test:
        """Return the steps of a test."""
        return Test(self, number, t)

    def load(self, begin: Any, row: Any) -> Any:
        """Read the numbers of a slot that begins there."""
        return self.k.load(self.slots, (0,), beyond(begin, row))

    def store(self, begin: Any, row: Any, value: Any) -> None:
        """Write the numbers of a slot."""
        self.k.store(self.slots, (0,), beyond(begin, row), value)

    def state(self, begin: Any, row: Any) -> Any:
        """Read the states of rows at a test."""
        return self.k.load(self.states, (0,), beyond(begin, row))

    def store_state(self, begin: Any, row: Any, value: Any) -> None:
        """Write the states of rows at a test."""
        self.k.store(self.states, (0,), beyond(begin, row), value)


class Test:
    """The steps of one test, at one node of the rule."""

    def __init__(self, walker: Walker, number: Any, t: Any) -> None:
        self.walker = walker
        self.k = walker.k
        self.first_word = self.k.bind(number * WORDS)
        self.first_number = self.k.bind(number * NUMBERS)
        self.t = t
        # Nodes of the rule lie inside (0, 1), so divisions by this are safe.
        self.keep = self.k.bind(1.0 - t)

    def go_down(self, block: Block) -> None:
        """Decide the test, and multiply what reaches it by the factors of both sides."""
        k = self.k
        walker = self.walker
        lanes = walker.lanes
        self._decide(block)
        sides = self._factors()
        state_begin = self._begin(4)
        slot = self._begin(2)
        child = self._begin(3)
        with block.vectors(lanes) as row:
            state = k.bind(walker.state(state_begin, row))
            reach = k.bind(walker.load(slot, row))
            for i, (side, (passed, failed, off)) in enumerate(sides):
                decided = tirx.Select(
                    _is(state, side, lanes), spread(passed, lanes), spread(failed, lanes)
                )
                factor = tirx.Select(_is(state, OFF, lanes), spread(off, lanes), decided)
                walker.store(child + i * k.schedule.block, row, reach * factor)

    def go_up(self, block: Block, weight: Any) -> None:
        """Add the sums of both sides up, and what they contribute."""
        k = self.k
        walker = self.walker
        lanes = walker.lanes
        gains = self.gains(weight)
        state_begin = self._begin(4)
        slot = self._begin(2)
        child = self._begin(3)
        column = k.bind(self._word(7))
        with block.vectors(lanes) as row:
            left = k.bind(walker.load(child, row))
            right = k.bind(walker.load(child + k.schedule.block, row))
            # A sum replaces what reached the test, which is not read again.
            walker.store(slot, row, left + right)
            of_left, of_right = self.of_sides(gains, walker.state(state_begin, row))
            self.add(column, block.in_tile(row), row, left * of_left + right * of_right)

    def add(self, column: Any, at: Any, row: Any, added: Any) -> None:  # noqa: ARG002
        """Add to the column of the test's feature, for a vector of rows."""
        out = self.walker.out
        self.k.store(out, (column,), at, self.k.load(out, (column,), at) + added)

    def of_sides(self, gains: tuple[Any, Any, Any], state: Any) -> tuple[Any, Any]:
        """Return what the sums of either side count, for a vector of rows."""
        lanes = self.walker.lanes
        states = self.k.bind(state)
        left, right, lost = (spread(gain, lanes) for gain in gains)
        off = _is(states, OFF, lanes)
        zero = literal(0.0, "float64", lanes)
        return (
            tirx.Select(off, zero, tirx.Select(_is(states, LEFT, lanes), left, lost)),
            tirx.Select(off, zero, tirx.Select(_is(states, RIGHT, lanes), right, lost)),
        )

    def _decide(self, block: Block) -> None:
        """Write the state of each row."""
        k = self.k
        walker = self.walker
        column = k.bind(walker.columns.begin(block, self._word(0)))
        # The word holds its byte four times, so it spreads as it is loaded.
        words = tirx.Broadcast(self._word(1), k.lanes // WORD_BYTES)
        threshold = k.bind(tirx.reinterpret(f"int8x{k.lanes}", words))
        state = self._begin(4)
        above = self._begin(5)
        passing = k.bind(spread(tirx.Cast("uint8", self._word(6)), k.lanes))
        left, right, off = (literal(code, "uint8", k.lanes) for code in (LEFT, RIGHT, OFF))
        with block.vectors() as row:
            byte = tirx.reinterpret(f"int8x{k.lanes}", walker.columns.load(column, row))
            side = tirx.Select(threshold > byte, left, right)
            is_open = tirx.EQ(walker.state(above, row), passing)
            walker.store_state(state, row, tirx.Select(is_open, side, off))

    def _factors(self) -> list[tuple[int, tuple[Any, Any, Any]]]:
        """Return factors of either side: for rows that pass it, that fail it, and that are off."""
        k = self.k
        # The factor of the test above on this feature is divided out: a feature counts once on a
        # path.
        scale = k.bind(1.0 / (self.keep * self._number(2) + self.t))
        factors = []
        for i, side in enumerate((LEFT, RIGHT)):
            value = k.bind(self._number(5 + i))
            kept = k.bind(self.keep * self._number(i))
            passed = k.bind((kept + self.t) * scale * value)
            failed = k.bind(kept * scale * value)
            factors.append((side, (passed, failed, k.bind(self._number(3 + i) * value))))
        return factors

    def gains(self, weight: Any) -> tuple[Any, Any, Any]:
        """Return what sums count: the left one if passed, the right one, and one that is failed."""
        k = self.k
        before = k.bind(self._gain(2))
        # A lower test on a feature replaces the gain of the upper one.
        left, right = (k.bind(weight * (self._gain(i) - before)) for i in (0, 1))
        return left, right, k.bind(weight * (-1.0 / self.keep - before))

    def _gain(self, place: int) -> Any:
        share = self.k.bind(self._number(place))
        return (1.0 - share) / (self.keep * share + self.t)

    def _word(self, place: int) -> Any:
        return self.k.entry(self.walker.words, self.first_word + place)

    def _number(self, place: int) -> Any:
        return self.k.entry(self.walker.numbers, self.first_number + place)

    def _begin(self, place: int) -> Any:
        """Return where the slot or state that a word names begins."""
        return self.k.bind(self._word(place) * self.k.schedule.block)


def _is(state: Any, code: int, lanes: int) -> Any:
    return tirx.EQ(state, literal(code, "uint8", lanes))


def interactions(k: Kernel, out: Place, x: Place, covered: CoveredForest) -> None:
    """Emit ``tree_interactions``, as a subroutine that models of one kind share."""
    emit_shared(_emit_pairs, k, out, x, covered)


def _emit_pairs(k: Kernel, out: Place, x: Place, covered: CoveredForest) -> None:
    """Start from zero, and add what all pairs of tests add."""
    k.map_vectors(out, (), lambda: literal(0.0, "float64", k.lanes))
    tables = make_tables(covered, x.dtype)
    start, words = make_pair_tables(covered, tables.depth)
    make = partial(_PairWalker, out=out, start=start, words=words)
    walk_trees(k, x, tables, 4 * tables.depth + 1, make)


class _PairWalker(Walker):
    """Walks through a tree, with the gains of a test in two slots of its depth."""

    def __init__(
        self,
        k: Kernel,
        *,
        start: npt.NDArray[np.int32],
        words: npt.NDArray[np.int32],
        **places: Any,
    ) -> None:
        super().__init__(k, **places)
        self.first_pair = k.constant(start)
        self.pair_words = k.constant(words.ravel())
        # Gains lie behind the sums, whose number depends on the depth: so it is data.
        self.first_gain = k.number(2 * places["tables"].depth)

    def test(self, number: Any, t: Any) -> Test:
        """Return the steps of a test."""
        return _PairTest(self, number, t)


class _PairTest(Test):
    """The steps of a test that meets those above."""

    walker: _PairWalker

    def __init__(self, walker: _PairWalker, number: Any, t: Any) -> None:
        super().__init__(walker, number, t)
        self.number = number

    def go_down(self, block: Block) -> None:
        """Keep the gains of both sides, next to what contributions need."""
        super().go_down(block)
        k = self.k
        walker = self.walker
        size = k.schedule.block
        gains = self.gains(ONCE)
        state = self._begin(4)
        begin = k.bind((self._word(3) + walker.first_gain) * size)
        with block.vectors(walker.lanes) as row:
            for side, gain in enumerate(self.of_sides(gains, walker.state(state, row))):
                walker.store(begin + side * size, row, gain)

    def add(self, column: Any, at: Any, row: Any, added: Any) -> None:  # noqa: ARG002
        """Add to the column of each pair, for a vector of rows."""
        k = self.k
        walker = self.walker
        kept = k.bind(added)
        first = k.bind(k.entry(walker.first_pair, self.number))
        with T.serial(k.entry(walker.first_pair, self.number + 1) - first) as i:
            word = k.bind(2 * (first + i))
            slot = k.bind(k.entry(walker.pair_words, word) * k.schedule.block)
            place = k.bind(k.entry(walker.pair_words, word + 1))
            gain = walker.load(slot, row)
            k.store(walker.out, (place,), at, k.load(walker.out, (place,), at) + gain * kept)


EMITTERS = {"tree_contributions": contributions, "tree_interactions": interactions}
