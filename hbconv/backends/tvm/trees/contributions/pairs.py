"""Emit interactions: the walk of contributions, which also keeps the gains of the tests above."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.contributions.emit import Test, Walker, emit_shared, walk_trees
from hbconv.backends.tvm.trees.contributions.tables import make_tables
from hbconv.trees.covered_forest import CoveredForest, find_pairs

__all__ = ["EMITTERS"]

ONCE = 1.0
"""Weight of the gains that are kept: what a lower test adds has that of the node."""


def interactions(k: Kernel, out: Place, x: Place, covered: CoveredForest) -> None:
    """Emit ``tree_interactions``, as a subroutine that models of one kind share."""
    emit_shared(_emit, k, out, x, covered)


def _emit(k: Kernel, out: Place, x: Place, covered: CoveredForest) -> None:
    """Start from zero, and add what all pairs of tests add."""
    k.map_vectors(out, (), lambda: literal(0.0, "float64", k.lanes))
    tables = make_tables(covered, x.dtype)
    start, words = make_pair_tables(covered, tables.depth)
    make = partial(_PairWalker, out=out, start=start, words=words)
    walk_trees(k, x, tables, 4 * tables.depth + 1, make)


def make_pair_tables(
    covered: CoveredForest, depth: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """List the tests above each test that are on other features.

    Returns the first entry of each test, (n_tests * n_values + 1,), and the entries: the slot of
    the upper gain, behind those of the sums, and the column of the result.
    """
    forest = covered.forest
    pairs = find_pairs(covered)
    counts = np.bincount(pairs.test, minlength=forest.n_tests)
    slot = 2 * depth + 1 + 2 * forest.depth_of_tests[pairs.above] + ~pairs.from_left
    output = forest.target.data[forest.tree_of_tests[pairs.test]].astype(np.int64)
    values = range(forest.values.shape[1])
    columns = [(output + value) * len(pairs.first) + pairs.pair for value in values]
    words = [np.stack([slot, column], axis=1) for column in columns]
    start = np.append(0, np.cumsum(np.tile(counts, len(values))))
    return start.astype(np.int32), np.concatenate(words).astype(np.int32)


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
        """Keep the gains of both sides, beside what contributions need."""
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


EMITTERS = {"tree_interactions": interactions}
