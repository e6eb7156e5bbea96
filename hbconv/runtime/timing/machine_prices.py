"""Machine prices: time small programs on a backend, and compare them with the shipped prices.

Price programs: small programs whose times tell what a unit of work costs on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.cost_model import GROUPS, Factors, count_work, scaled_prices, settled
from hbconv.cost_model.work import counted_operators
from hbconv.optimize.program_cost import is_added, strategy_costs, tree_work
from hbconv.runtime.timing.tune import Measure, measure
from hbconv.target import Target
from hbconv.tensor import Builder, Op, OpKind, TensorProgram, Value
from hbconv.trees.forest import Forest

__all__ = ["PriceTime", "find_factors", "find_trials", "measure_backend", "predicted_seconds"]


@dataclass(frozen=True)
class PriceTime:
    """What a group of units took on a backend.

    Parameters
    ----------
    backend, group : str
    predicted, measured : float
        Seconds of a call, without those of the program that is subtracted.
    """

    backend: str
    group: str
    predicted: float
    measured: float

    @property
    def factor(self) -> float:
        """What to multiply prices of the group by."""
        return settled(self.measured / self.predicted)


def measure_backend(name: str, seconds: float, timed: Measure = measure) -> list[PriceTime]:
    """Time the programs of a backend for about so many seconds; compiling comes on top."""
    target = Target(name)
    share = seconds / len(GROUPS)
    return [
        PriceTime(name, group, _predict(trial, target), _time(trial, target, share, timed))
        for group, trial in find_trials(target).items()
    ]


def find_factors(times: Iterable[PriceTime]) -> dict[str, Factors]:
    """Return the factors of each backend."""
    by_backend: dict[str, dict[str, float]] = {}
    for time in times:
        by_backend.setdefault(time.backend, {})[time.group] = time.factor
    return {backend: Factors(**factors) for backend, factors in by_backend.items()}


def predicted_seconds(program: TensorProgram, target: Target, factors: Factors) -> float:
    """Predict the seconds of a program at the shipped prices times factors."""
    return sum(_operator_seconds(program, op, target, factors) for op in counted_operators(program))


def _operator_seconds(program: TensorProgram, op: Op, target: Target, factors: Factors) -> float:
    if op.kind is not OpKind.TREES:
        prices = scaled_prices(target.backend, "", factors, native=False)
        return prices.seconds(count_work(program, op), target)
    backend, strategy = find_backend(target.backend), op.attributes["strategy"]
    dtype = program.instructions[op.operands[0]].type.dtype
    native = strategy in backend.native_trees(target)
    forest = op.attributes["forest"]
    work = tree_work(forest, strategy, target, backend, dtype, added=is_added(op))
    return scaled_prices(target.backend, strategy, factors, native=native).seconds(work, target)


def _predict(trial: Trial, target: Target) -> float:
    fitted = target.replace(rows=trial.rows)
    base = predicted_seconds(trial.base, fitted, Factors()) if trial.base else 0.0
    return predicted_seconds(trial.program, fitted, Factors()) - base


def _time(trial: Trial, target: Target, seconds: float, timed: Measure) -> float:
    """Return the least time of a call, less that of the program that is subtracted."""
    inputs = trial.inputs()
    backend = find_backend(target.backend)
    programs = [trial.program, trial.base] if trial.base else [trial.program]
    least = []
    for program in programs:
        artifact = backend.compile(program, target)
        calls = {"call": lambda artifact=artifact: artifact.run(inputs)}
        least.append(timed(calls, seconds / len(programs))["call"])
    return least[0] - sum(least[1:])


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
    places = np.arange(tests)
    left = _child(2 * places + 1, tests)
    right = _child(2 * places + 2, tests)
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
