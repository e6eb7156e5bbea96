"""The cost model: counts of work, the prices of a unit on each backend, and seconds predicted.

``python benchmarks/strategies.py --backend NAME --fit`` times every strategy on forests of many
shapes and fits the prices. The error of the fit is about a third. The prices below were measured
with one thread of an AMD EPYC (AVX2), torch 2.13, onnxruntime 1.31 and apache-tvm 0.27.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hbconv.forest import Forest
from hbconv.target import Target
from hbconv.tensor import Op, OpKind, TensorProgram, TensorType

__all__ = [
    "CLOCK",
    "SINGLE_ROW",
    "SMALL_TILE",
    "OperatorCost",
    "Prices",
    "Work",
    "count_work",
    "find_prices",
    "predict",
]


@dataclass(frozen=True)
class Work:
    """The work of an algorithm, counted on the primitives it writes.

    Counts are per row unless stated otherwise.

    Parameters
    ----------
    operators : int
        Primitives in all, not per row. Reshapes are free.
    elementwise : int
        Entries computed by arithmetic, or copied side by side.
    takes : int
        Entries read at fixed positions.
    reads : int
        Entries read at computed positions (``lookup``, ``gather``).
    multiplications : int
        Multiply-adds of matrix products.
    visits : int
        Splits that a backend's own kernel evaluates.
    tables : int
        Bytes of constants, not per row.
    temporaries : int
        Largest number of bytes in use at once.
    """

    operators: int = 0
    elementwise: int = 0
    takes: int = 0
    reads: int = 0
    multiplications: int = 0
    visits: int = 0
    tables: int = 0
    temporaries: int = 0

    def rows_at_once(self, target: Target) -> int:
        """Return the rows of one run: a typical call, in chunks where temporaries are large."""
        return min(target.rows, target.rows_at_once(self.temporaries))


@dataclass(frozen=True)
class Prices:
    """Seconds for each unit of work on one backend and device; a price left out is zero.

    Parameters
    ----------
    operator, elementwise, take, read, multiplication, visit : float
        Seconds for one unit of the count of ``Work`` with that name.
    tile : int
        Least number of rows that the backend computes, wanted or not.
    """

    operator: float = 0.0
    elementwise: float = 0.0
    take: float = 0.0
    read: float = 0.0
    multiplication: float = 0.0
    visit: float = 0.0
    tile: int = 1

    def seconds(self, work: Work, target: Target) -> float:
        """Return the price of the work for ``target.rows`` rows.

        Examples
        --------
        >>> Prices(operator=0.5, take=0.125).seconds(Work(operators=2, takes=3), Target(rows=4))
        2.5
        """
        runs = math.ceil(target.rows / work.rows_at_once(target))
        streams = (
            work.elementwise * self.elementwise + work.takes * self.take + work.reads * self.read
        )
        row = streams + work.multiplications * self.multiplication + work.visits * self.visit
        return runs * work.operators * self.operator + max(target.rows, self.tile) * row


CLOCK = 2.6e9
"""Nominal cycles per second of the machine measured."""

PRIMITIVE_PRICES: Mapping[str, Prices] = {
    "torch": Prices(
        operator=4.6e-6, elementwise=1.4e-9, take=1.5e-9, read=1.6e-10, multiplication=5.6e-11
    ),
    "tvm": Prices(operator=6e-8, elementwise=1.8e-10, read=3e-10, multiplication=3e-11, tile=32),
}
"""Prices of primitives, by backend."""

KERNEL_PRICES: Mapping[tuple[str, str], Prices] = {
    ("reference", "tree_traversal"): Prices(visit=1e-7),
    ("onnx", "tree_traversal"): Prices(visit=1.9e-8),
    ("torch", "select"): Prices(operator=2e-6, visit=5e-10),
    ("torch", "perfect_tree_traversal"): Prices(operator=1.5e-6, visit=2.4e-9),
    ("torchscript", "select"): Prices(operator=1.5e-6, visit=5e-10),
    ("torchscript", "perfect_tree_traversal"): Prices(operator=1e-6, visit=2.4e-9),
    ("tvm", "select"): Prices(visit=2.2e-11, tile=256),
    ("tvm", "tree_traversal"): Prices(visit=8.7e-10, tile=16),
    ("tvm", "perfect_tree_traversal"): Prices(visit=8.7e-10, tile=16),
}
"""Prices of a backend's own tree kernels, by backend and strategy."""

SMALL_TILE = Prices(visit=3e-9)
"""Prices of tvm's select for a tile of a few rows: a visit decides a split for all of them."""

SINGLE_ROW = Prices(operator=1e-7, elementwise=1.2e-9, read=1.25e-9, visit=1.4e-9)
"""Prices of tvm's loop for one row after another.

An operator is a row, an elementwise entry a leaf value added, a read a step down a tree, and a
visit one vector of splits in the tops of trees.
"""


def find_prices(target: Target, strategy: str, *, native: bool) -> Prices:
    """Return the prices of a strategy on a backend, or those of the backend most like it."""
    primitives = PRIMITIVE_PRICES.get(target.backend, PRIMITIVE_PRICES["torch"])
    return KERNEL_PRICES.get((target.backend, strategy), primitives) if native else primitives


class ForestCounter(Protocol):
    """Counts the work of a forest: a tree strategy."""

    def work(self, forest: Forest) -> Work:
        """Return the counts."""


@dataclass(frozen=True)
class OperatorCost:
    """Predicted cost of one operator.

    Parameters
    ----------
    operator : str
    source : str
        Step of the pipeline that it comes from.
    seconds : float
        Per row, in calls of ``target.rows`` rows.
    """

    operator: str
    source: str
    seconds: float

    @property
    def cycles(self) -> float:
        """Cycles per row, on the machine measured."""
        return self.seconds * CLOCK


def predict(
    program: TensorProgram,
    target: Target,
    native: frozenset[str],
    strategies: Mapping[str, ForestCounter],
) -> tuple[OperatorCost, ...]:
    """Price every operator of a prepared program, and the copies of inputs and outputs.

    Parameters
    ----------
    program : TensorProgram
        As the backend prepared it.
    target : Target
    native : frozenset of str
        Strategies that the backend runs by kernels of its own.
    strategies : mapping of str to ForestCounter
        Counts the work of tree operators, by strategy.
    """
    costs: list[OperatorCost] = []
    for op in _counted(program):
        strategy = op.attributes.get("strategy", "")
        prices = find_prices(target, strategy, native=strategy in native)
        name = f"{op.primitive} ({strategy})" if strategy else op.primitive
        seconds = prices.seconds(count_work(program, op, strategies), target)
        costs.append(OperatorCost(name, op.source, seconds / target.rows))
    inputs = [i.type for i in program.inputs]
    outputs = [program.instructions[index].type for index in program.outputs.values()]
    return (*costs, _copies("read rows", inputs, target), _copies("write rows", outputs, target))


def _counted(program: TensorProgram) -> list[Op]:
    """List the operators that are not free."""
    return [i for i in program.instructions if isinstance(i, Op) and i.kind is not OpKind.VIEW]


def _copies(name: str, copied: list[TensorType], target: Target) -> OperatorCost:
    """Price the copies of matrices between the caller and the program."""
    work = Work(operators=1, elementwise=sum(math.prod(kind.shape) for kind in copied))
    prices = find_prices(target, "", native=False)
    return OperatorCost(name, "", prices.seconds(work, target) / target.rows)


def count_work(program: TensorProgram, op: Op, strategies: Mapping[str, ForestCounter]) -> Work:
    """Count the work of an operator; a repeated program counts every time.

    Elementwise entries count alike, whether copied or computed by an exponential.

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float32", 3)
    >>> program = b.program({"y": b.matmul(x, b.constant(np.ones((3, 5)), "float32"))})
    >>> count_work(program, program.instructions[-1], {}).multiplications
    15
    """
    if op.kind is OpKind.TREES:
        return strategies[op.attributes["strategy"]].work(op.attributes["forest"])
    if op.body:
        return _repeated(op.body, op.attributes["steps"], strategies)
    operands = [program.instructions[i].type for i in op.operands]
    entries = math.prod(op.type.shape)
    if op.primitive == "nearest":  # its result has k entries, whatever the number of points
        return Work(operators=1, multiplications=math.prod(operands[1].shape))
    if op.kind is OpKind.PRODUCT:
        return Work(operators=1, multiplications=entries * operands[0].shape[-1])
    if op.kind is OpKind.READ:
        return Work(operators=1, reads=entries)
    if op.kind is OpKind.COPY:
        return Work(operators=1, takes=entries)
    return Work(operators=1, elementwise=max(entries, math.prod(operands[0].shape)))


def _repeated(body: TensorProgram, steps: int, strategies: Mapping[str, ForestCounter]) -> Work:
    """Count a repeated program; tables and temporaries are not counted."""
    works = [count_work(body, op, strategies) for op in _counted(body)]
    counts = {
        unit: steps * sum(getattr(work, unit) for work in works)
        for unit in ("operators", "elementwise", "takes", "reads", "multiplications")
    }
    return Work(**counts)
