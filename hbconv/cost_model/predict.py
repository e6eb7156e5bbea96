"""Predict the seconds of a prepared program, operator by operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from hbconv.cost_model.price_record import SHIPPED, Factors, PriceRecord, Prices, find_record
from hbconv.cost_model.shipped import CLOCK, KERNEL_PRICES, LOWERED_PRICES, PRIMITIVE_PRICES
from hbconv.cost_model.work import Work, count_work, counted_operators, words
from hbconv.target import Target
from hbconv.tensor import Op, OpKind, TensorProgram, TensorType

__all__ = ["OperatorCost", "find_prices", "predict", "scaled_prices", "show_prices"]


DEFAULT = "torch"
"""The backend whose prices hold for one that has none of its own."""


def find_prices(target: Target, strategy: str, *, native: bool) -> Prices:
    """Return the prices of a strategy on a backend, or those of the backend most like it.

    They are of this machine where ``hbconv tune-machine`` measured it.
    """
    # Prices of CUDA devices are of no one backend, and no factors are measured for them.
    if target.device != "cpu":
        return PRIMITIVE_PRICES["cuda"]
    record = _record_of(target)
    factors = record.factors[_priced_backend(target.backend)] if record else SHIPPED
    return scaled_prices(target.backend, strategy, factors, native=native)


def show_prices(target: Target) -> str:
    """Say which prices predictions for a target are made with."""
    record = _record_of(target)
    return f"prices: of this machine, measured {record.day}" if record else "prices: shipped"


@cache
def scaled_prices(backend: str, strategy: str, factors: Factors, *, native: bool) -> Prices:
    """Return the shipped prices of a strategy on a backend, times factors."""
    # A strategy written as primitives costs other units than a kernel of the backend.
    trees = KERNEL_PRICES if native else LOWERED_PRICES
    priced = _priced_backend(backend)
    tree_prices = trees.get((backend, strategy)) or trees.get((priced, strategy))
    return (
        factors.of_trees(tree_prices)
        if tree_prices
        else factors.of_primitives(PRIMITIVE_PRICES[priced])
    )


def _record_of(target: Target) -> PriceRecord | None:
    """Return the record of this machine, if it holds for a target."""
    record = find_record() if target.device == "cpu" else None
    return record if record and _priced_backend(target.backend) in record.factors else None


def _priced_backend(backend: str) -> str:
    """Return the backend whose prices hold for one."""
    return backend if backend in PRIMITIVE_PRICES else DEFAULT


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
    program: TensorProgram, target: Target, tree_seconds: Callable[[Op], float]
) -> tuple[OperatorCost, ...]:
    """Price every operator of a prepared program, and the copies of inputs and outputs.

    Parameters
    ----------
    program : TensorProgram
        As the backend prepared it.
    target : Target
    tree_seconds : callable
        Prices a tree operator.
    """
    costs: list[OperatorCost] = []
    prices = find_prices(target, "", native=False)
    for op in counted_operators(program):
        trees = op.kind is OpKind.TREES
        name = f"{op.primitive} ({op.attributes['strategy']})" if trees else op.primitive
        seconds = tree_seconds(op) if trees else prices.seconds(count_work(program, op), target)
        costs.append(OperatorCost(name, op.source, seconds / target.rows))
    inputs = [i.type for i in program.inputs]
    outputs = [program.instructions[index].type for index in program.outputs.values()]
    # Callers' rows are copied into programs and out again, which narrow programs feel most.
    return (*costs, _copies("read rows", inputs, target), _copies("write rows", outputs, target))


def _copies(name: str, copied: list[TensorType], target: Target) -> OperatorCost:
    """Price the copies of matrices between the caller and the program."""
    work = Work(operators=1, elementwise=sum(map(words, copied)))
    prices = find_prices(target, "", native=False)
    return OperatorCost(name, "", prices.seconds(work, target) / target.rows)
