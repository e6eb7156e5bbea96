"""Predict what each operator of a program costs: counts of its work, at the prices of the backend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbconv.backends.base import Backend
from hbconv.optimize.costs import CLOCK, find_prices
from hbconv.strategy import Work, find_strategy
from hbconv.target import Target
from hbconv.tensor import Op, OpKind, TensorProgram

__all__ = ["OperatorCost", "count_work", "predict"]


@dataclass(frozen=True)
class OperatorCost:
    """Predicted cost of one operator.

    Parameters
    ----------
    operator : str
    source : str
        Step of the pipeline that it comes from.
    seconds : float
        Of a row, in calls of ``target.rows``.
    """

    operator: str
    source: str
    seconds: float

    @property
    def cycles(self) -> float:
        """Cycles of a row, of the machine that the prices were measured on."""
        return self.seconds * CLOCK


def predict(program: TensorProgram, backend: Backend, target: Target) -> tuple[OperatorCost, ...]:
    """Price every operator of a prepared program, and the copies of inputs and outputs."""
    ops = [
        _price(program, op, backend, target)
        for op in program.instructions
        if isinstance(op, Op) and op.kind is not OpKind.VIEW
    ]
    outputs = [program.instructions[index] for index in program.outputs.values()]
    prices = find_prices(target, "", native=False)
    copies = {"read rows": program.inputs, "write rows": outputs}
    works = {
        name: Work(operators=1, elementwise=sum(int(np.prod(i.type.shape)) for i in copied))
        for name, copied in copies.items()
    }
    return (
        *ops,
        *(
            OperatorCost(name, "", prices.seconds(work, target) / target.rows)
            for name, work in works.items()
        ),
    )


def _price(program: TensorProgram, op: Op, backend: Backend, target: Target) -> OperatorCost:
    strategy = op.attributes.get("strategy", "")
    prices = find_prices(target, strategy, native=strategy in backend.native_trees(target))
    name = f"{op.primitive} ({strategy})" if strategy else op.primitive
    return OperatorCost(
        name, op.source, prices.seconds(count_work(program, op), target) / target.rows
    )


def count_work(program: TensorProgram, op: Op) -> Work:
    """Count the work of an operator. Entries count alike, whether copied or of an exponential; what is repeated counts every time.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float32", 3)
    >>> program = b.program({"y": b.matmul(x, b.constant(np.ones((3, 5)), "float32"))})
    >>> count_work(program, program.instructions[-1]).multiplications
    15
    """
    if "forest" in op.attributes:
        return find_strategy(op.attributes["strategy"]).work(op.attributes["forest"])
    if op.body:
        return _repeated(op.body, op.attributes["steps"])
    entries, taken = (
        int(np.prod(shape))
        for shape in (op.type.shape, program.instructions[op.operands[0]].type.shape)
    )
    if op.primitive == "nearest":
        return Work(
            operators=1,
            multiplications=int(np.prod(program.instructions[op.operands[1]].type.shape)),
        )
    if op.kind is OpKind.PRODUCT:
        return Work(
            operators=1,
            multiplications=entries * program.instructions[op.operands[0]].type.shape[-1],
        )
    if op.kind is OpKind.READ:
        return Work(operators=1, reads=entries)
    return (
        Work(operators=1, takes=entries)
        if op.kind is OpKind.COPY
        else Work(operators=1, elementwise=max(entries, taken))
    )


def _repeated(body: TensorProgram, steps: int) -> Work:
    """Add up the work of a repeated program."""
    counts = [
        count_work(body, op)
        for op in body.instructions
        if isinstance(op, Op) and op.kind is not OpKind.VIEW
    ]
    return Work(
        **{
            field: steps * sum(getattr(work, field) for work in counts)
            for field in ("operators", "elementwise", "takes", "reads", "multiplications")
        }
    )
