"""Arithmetic of several tensors: sums, products, quotients, extremes and powers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Check,
    Compare,
    Concat,
    ConstantRows,
    IsOutside,
    Map,
    Maximum,
    Multiply,
    Node,
    Power,
    Quotient,
    Select,
)
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.parse.onnx.broadcasting import Operand, beside, broadcast, constant_node
from hbconv.parse.onnx.entrywise import entrywise
from hbconv.parse.onnx.operator import OnnxOperator
from hbconv.parse.onnx.values import NarrowTensor, RowTensor, ends_of

__all__ = ["added", "refuse_narrow"]


def refuse_narrow(op: OnnxOperator) -> None:
    """Refuse to compute with ints that would wrap around."""
    narrow = [x.narrow for x in op.inputs if isinstance(x, NarrowTensor)]
    if narrow:
        raise op.refuse("input type", narrow[0], "Cast to int64 or float before.")


def added(op: OnnxOperator, x: Operand, y: Operand) -> Node:
    """Return the sum of two operands."""
    if isinstance(x, Node) and isinstance(y, Node):
        return Add((x, y))
    node, constant = beside(x, y)
    if node.type.dtype.startswith("float"):
        return Affine.of(node, add=constant)
    return Add((node, constant_node(op, constant)))


def _subtract(op: OnnxOperator, x: Operand, y: Operand) -> Node:
    if isinstance(y, Node):
        return added(op, x, Map(y, "neg"))
    node, constant = beside(x, y)
    if node.type.dtype.startswith("float"):
        return Affine.of(node, sub=constant)
    return Add((node, constant_node(op, -constant)))


def _multiply(op: OnnxOperator, x: Operand, y: Operand) -> Node:
    if isinstance(x, Node) and isinstance(y, Node):
        return Multiply((x, y))
    node, constant = beside(x, y)
    if node.type.dtype.startswith("float"):
        return Affine.of(node, mul=constant)
    return Multiply((node, constant_node(op, constant)))


def _divide(op: OnnxOperator, x: Operand, y: Operand) -> Node:
    nodes = (constant_node(op, x), constant_node(op, y))
    if not nodes[0].type.dtype.startswith("float"):
        return _divide_ints(op, nodes[0], nodes[1])
    if isinstance(x, Node) and not isinstance(y, Node):
        return Affine.of(x, div=y)
    return Quotient(nodes)


def _divide_ints(op: OnnxOperator, x: Node, y: Node) -> Node:
    """Divide ints toward zero, as float64 does exactly for ints that it holds.

    A quotient that is below an int by one part of y is not rounded to it while ``x < 2**53``.
    Rows beyond are refused, and zeros as y, which end the process of onnxruntime.
    """
    told = f"Div (node {op.name!r:.100})"
    limit = MOST_EXACT_INT
    for ints in (x, y):
        op.checks.append(
            Check(IsOutside.of(ints, -limit, limit), f"{told} divides ints up to 2**53.", op.name)
        )
    if isinstance(y, ConstantRows) and not y.values.data.all():
        raise op.damaged("divides by 0")
    if not isinstance(y, ConstantRows):
        op.checks.append(Check(Compare.of(y, "eq", 0), f"{told} divides by 0.", op.name))
    quotient = Quotient((Cast(x, "float64"), Cast(y, "float64")))
    if x.type.dtype == "int32":
        beyond = IsOutside.of(quotient, *ends_of("int32"))
        op.checks.append(Check(beyond, f"{told} makes a quotient beyond int32.", op.name))
    return Cast(quotient, x.type.dtype)


ARITHMETIC: dict[str, Callable[[OnnxOperator, Operand, Operand], Node]] = {
    "Add": added,
    "Sub": _subtract,
    "Mul": _multiply,
    "Div": _divide,
}


@entrywise(*ARITHMETIC)
def read_arithmetic(op: OnnxOperator) -> RowTensor:
    """Add, subtract, multiply or divide two tensors."""
    refuse_narrow(op)
    (x, y), shape = broadcast(op, (0, 1))
    return shape.of(ARITHMETIC[op.kind](op, x, y))


@entrywise("Sum", "Mean")
def read_sum(op: OnnxOperator) -> RowTensor:
    """Add tensors up."""
    operands, shape = broadcast(op, range(len(op.inputs)))
    total = reduce(lambda x, y: added(op, x, y), operands[1:], constant_node(op, operands[0]))
    return shape.of(Affine.of(total, div=float(len(operands))) if op.kind == "Mean" else total)


@entrywise("Max", "Min")
def read_extreme(op: OnnxOperator) -> RowTensor:
    """Take the largest or the least entry of several tensors; NaN where one is."""
    operands, shape = broadcast(op, range(len(op.inputs)))
    nodes = [constant_node(op, x) for x in operands]
    if len(nodes) == 1:
        return shape.of(nodes[0])
    if op.kind == "Max":
        return shape.of(Maximum(tuple(nodes)))
    return shape.of(Map(Maximum(tuple(Map(x, "neg") for x in nodes)), "neg"))


@entrywise("Pow")
def read_power(op: OnnxOperator) -> RowTensor:
    """Raise to constant powers."""
    (x, exponents), shape = broadcast(op, (0, 1))
    if isinstance(exponents, Node):
        return shape.of(_power_of_two(op, x, exponents))
    x, constant = beside(x, exponents)
    powers = constant.astype(np.float64).tolist()
    if len({*powers}) == 1:
        return shape.of(Cast(_raised(x, powers[0]), x.type.dtype))
    columns = (Select(x, Array(np.array([i], np.int32))) for i in range(len(powers)))
    raised = tuple(_raised(column, power) for column, power in zip(columns, powers, strict=True))
    return shape.of(Cast(Concat(raised), x.type.dtype))


def _power_of_two(op: OnnxOperator, base: Operand, exponents: Node) -> Node:
    if isinstance(base, Node) or np.any(base != 2) or not exponents.type.dtype.startswith("float"):
        raise op.refuse("Y", "computed from the rows", "hbconv raises only 2 to such exponents.")
    return Map(exponents, "exp2")


def _raised(x: Node, power: float) -> Node:
    return Map(x, "square") if power == 2 else Power(x, power)
