"""Price programs: small programs whose times tell what a unit of work costs on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.optimize.program_cost import strategy_costs
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram, Value
from hbconv.trees.forest import Forest

__all__ = ["Trial", "find_trials"]

WIDTH = 32
MANY_ROWS, MOST_ROWS = 2_000, 5_000
TERMS = 8
"""Terms of a sum that are timed together."""
TREES, DEPTH = 50, 6
FUNCTIONS = ("exp", "log", "tanh", "sigmoid")
"""Functions that are computed in turn, so that none counts for all."""

Write = Callable[[Builder, Value, int], Value]


@dataclass(frozen=True)
class Trial:
    """A program to time, and the rows of a call.

    Parameters
    ----------
    program : TensorProgram
    rows : int
    base : TensorProgram or None
        A program whose time is subtracted.
    """

    program: TensorProgram
    rows: int
    base: TensorProgram | None = None

    def inputs(self) -> dict[str, npt.NDArray[Any]]:
        """Return rows for the program, within what all its functions are defined for."""
        kind = self.program.inputs[0].type
        rows = np.random.default_rng(0).uniform(0.5, 2.0, (self.rows, *kind.shape))
        return {self.program.inputs[0].name: rows.astype(kind.dtype)}


def find_trials(target: Target) -> Mapping[str, Trial]:
    """Return what to time on a backend for each group of units, in the order of the groups.

    Functions, reads and products stand in sums of terms, and the sum alone is subtracted: compilers
    keep its words in registers, where they cost less than the words of an operator of its own.
    """
    plain = _sum_of(_shifted, TERMS)
    return {
        "operators": Trial(_sum_of(_shifted, 5 * TERMS), 1, plain),
        "elementwise": Trial(_scale(), MOST_ROWS),
        "functions": Trial(_sum_of(_function, TERMS), MANY_ROWS, plain),
        "reads": Trial(_sum_of(_look_up, TERMS), MANY_ROWS, plain),
        "products": Trial(_sum_of(_product, TERMS), MANY_ROWS, plain),
        "trees": Trial(_trees(target), MANY_ROWS),
    }


def _scale() -> TensorProgram:
    b = Builder()
    x = b.input("x", "float64", WIDTH)
    centred = x - b.constant(np.linspace(0.0, 1.0, WIDTH), "float64")
    return b.program({"y": b.op("div", centred, b.constant(np.full(WIDTH, 1.7), "float64"))})


def _sum_of(write: Write, terms: int) -> TensorProgram:
    b = Builder()
    x = b.input("x", "float64", WIDTH)
    total = x
    for turn in range(terms):
        shifted = x + b.constant(0.125 * turn + 0.25, "float64")
        total = total + write(b, shifted, turn)
    return b.program({"y": total})


def _shifted(b: Builder, x: Value, turn: int) -> Value:  # noqa: ARG001
    return x


def _function(b: Builder, x: Value, turn: int) -> Value:
    return b.op(FUNCTIONS[turn % len(FUNCTIONS)], x)


def _look_up(b: Builder, x: Value, turn: int) -> Value:
    table = np.random.default_rng(turn).standard_normal(1_000)
    return b.lookup(b.constant(table), b.cast(x, "int32"))


def _product(b: Builder, x: Value, turn: int) -> Value:
    weights = np.random.default_rng(turn).standard_normal((WIDTH, WIDTH))
    return b.matmul(x, b.constant(weights))


def _trees(target: Target) -> TensorProgram:
    """Write a forest by the strategy that is predicted to be the cheapest."""
    forest = make_forest()
    costs = strategy_costs(
        forest, target.replace(rows=MANY_ROWS), find_backend(target.backend), "float32"
    )
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    strategy = min(costs, key=costs.__getitem__)
    return b.program({"y": b.op("tree_scores", x, forest=forest, strategy=strategy)})


def make_forest() -> Forest:
    """Return complete trees of random tests, so that none of their paths is short."""
    rng = np.random.default_rng(0)
    tests, leaves = 2**DEPTH - 1, 2**DEPTH
    own = np.arange(tests)
    left = _child(2 * own + 1, tests)
    right = _child(2 * own + 2, tests)
    trees = np.arange(TREES)
    return Forest(
        feature=Array(rng.integers(WIDTH, size=TREES * tests).astype(np.int32)),
        threshold=Array(rng.uniform(0.5, 2.0, TREES * tests).astype(np.float32)),
        default_left=Array(np.zeros(TREES * tests, np.bool_)),
        left=Array(_repeated(left, trees, tests, leaves)),
        right=Array(_repeated(right, trees, tests, leaves)),
        roots=Array((trees * tests).astype(np.int32)),
        first_leaf=Array((np.arange(TREES + 1) * leaves).astype(np.int32)),
        values=Array(rng.standard_normal((TREES * leaves, 1)).astype(np.float32)),
        target=Array(np.zeros(TREES, np.int32)),
        start=Array(np.zeros(1, np.float32)),
        strict=False,
        n_features=WIDTH,
        leaf_id=Array(np.tile(np.arange(leaves), TREES).astype(np.int32)),
    )


def _child(place: npt.NDArray[Any], tests: int) -> npt.NDArray[Any]:
    """Return tests by their place in a heap, and leaves, which stand behind them, negative."""
    return np.where(place < tests, place, ~(place - tests))


def _repeated(
    child: npt.NDArray[Any], trees: npt.NDArray[Any], tests: int, leaves: int
) -> npt.NDArray[np.int32]:
    """Repeat the children of one tree for all, numbered over the whole forest."""
    shift = np.where(child >= 0, tests, -leaves)
    numbered: npt.NDArray[np.int32] = (child + trees[:, None] * shift).ravel().astype(np.int32)
    return numbered
