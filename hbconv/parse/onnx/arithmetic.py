"""Operators of entries: sums, products, functions, comparisons, choices and conversions.

The inputs of an operator are brought to one shape first, as in ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Check,
    Choose,
    Clip,
    Compare,
    Concat,
    ConstantRows,
    Fmod,
    IsMissing,
    IsOutside,
    Map,
    Maximum,
    Minimum,
    Multiply,
    Node,
    Not,
    Power,
    Quotient,
    Relation,
    Remainder,
    Select,
)
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.parse.onnx.operator import OnnxOperator, entrywise
from hbconv.parse.onnx.texts import choose_texts, compare_texts, is_text
from hbconv.parse.onnx.values import (
    DTYPES,
    NARROW,
    KnownTensor,
    LabelTensor,
    MapList,
    NarrowTensor,
    RowTensor,
    TextTensor,
    ends_of,
    require_few,
)

__all__ = ["Numbers", "add", "broadcast", "constant_node", "refuse_narrow", "split_operands"]


def refuse_narrow(op: OnnxOperator) -> None:
    """Refuse to compute with ints that would wrap around."""
    narrow = [x.narrow for x in op.inputs if isinstance(x, NarrowTensor)]
    if narrow:
        raise op.refuse("input type", narrow[0], "Cast to int64 or float before.")


def add(op: OnnxOperator, x: Operand, y: Operand) -> Node:
    """Return the sum of two operands."""
    if isinstance(x, Node) and isinstance(y, Node):
        return Add((x, y))
    node, constant = split_operands(x, y)
    if node.type.dtype.startswith("float"):
        return Affine.of(node, add=constant)
    return Add((node, constant_node(op, constant)))


def _subtract(op: OnnxOperator, x: Operand, y: Operand) -> Node:
    if isinstance(y, Node):
        return add(op, x, Map(y, "neg"))
    node, constant = split_operands(x, y)
    if node.type.dtype.startswith("float"):
        return Affine.of(node, sub=constant)
    return Add((node, constant_node(op, -constant)))


def _multiply(op: OnnxOperator, x: Operand, y: Operand) -> Node:
    if isinstance(x, Node) and isinstance(y, Node):
        return Multiply((x, y))
    node, constant = split_operands(x, y)
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
    node_name = f"Div (node {op.name!r:.100})"
    limit = MOST_EXACT_INT
    for ints in (x, y):
        op.checks.append(
            Check(
                IsOutside.of(ints, -limit, limit), f"{node_name} divides ints up to 2**53.", op.name
            )
        )
    _refuse_zeros(op, y, "Div")
    quotient = Quotient((Cast(x, "float64"), Cast(y, "float64")))
    if x.type.dtype == "int32":
        beyond = IsOutside.of(quotient, *ends_of("int32"))
        op.checks.append(Check(beyond, f"{node_name} makes a quotient beyond int32.", op.name))
    return Cast(quotient, x.type.dtype)


ARITHMETIC: dict[str, Callable[[OnnxOperator, Operand, Operand], Node]] = {
    "Add": add,
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


@entrywise("Mod")
def read_rest(op: OnnxOperator) -> RowTensor:
    """Take the rest of a division: of ints rounded down, of floats rounded toward zero."""
    refuse_narrow(op)
    operands, shape = broadcast(op, (0, 1))
    x, y = (constant_node(op, operand) for operand in operands)
    is_float = x.type.dtype.startswith("float")
    toward_zero = op.get("fmod", 0)
    if toward_zero != is_float:
        raise op.refuse("fmod", toward_zero, "hbconv handles 1 of floats, and 0 of ints.")
    if is_float:
        return shape.of(Fmod(x, y))
    _refuse_zeros(op, y, "Mod")
    return shape.of(Remainder(x, y))


def _refuse_zeros(op: OnnxOperator, y: Node, kind: str) -> None:
    """Refuse ints to divide by that are zero: they end the process of onnxruntime."""
    if not isinstance(y, ConstantRows):
        message = f"{kind} (node {op.name!r:.100}) divides by 0."
        op.checks.append(Check(Compare.of(y, "eq", 0), message, op.name))
    elif not y.values.data.all():
        raise op.damaged("divides by 0")


@entrywise("Sum", "Mean")
def read_sum(op: OnnxOperator) -> RowTensor:
    """Add tensors up."""
    operands, shape = broadcast(op, range(len(op.inputs)))
    total = reduce(lambda x, y: add(op, x, y), operands[1:], constant_node(op, operands[0]))
    return shape.of(Affine.of(total, div=float(len(operands))) if op.kind == "Mean" else total)


@entrywise("Max", "Min")
def read_extreme(op: OnnxOperator) -> RowTensor:
    """Take the largest or the least entry of several tensors; NaN where one is."""
    operands, shape = broadcast(op, range(len(op.inputs)))
    nodes = [constant_node(op, x) for x in operands]
    if len(nodes) == 1:
        return shape.of(nodes[0])
    return shape.of((Maximum if op.kind == "Max" else Minimum)(tuple(nodes)))


@entrywise("Pow")
def read_power(op: OnnxOperator) -> RowTensor:
    """Raise to constant powers."""
    (x, exponents), shape = broadcast(op, (0, 1))
    if isinstance(exponents, Node):
        return shape.of(_power_of_two(op, x, exponents))
    x, constant = split_operands(x, exponents)
    powers = constant.astype(np.float64).tolist()
    # One power takes one node; several take one for each column.
    if len({*powers}) == 1:
        return shape.of(Cast(_raise_to(x, powers[0]), x.type.dtype))
    columns = (Select(x, Array(np.array([i], np.int32))) for i in range(len(powers)))
    raised = tuple(_raise_to(column, power) for column, power in zip(columns, powers, strict=True))
    return shape.of(Cast(Concat(raised), x.type.dtype))


def _power_of_two(op: OnnxOperator, base: Operand, exponents: Node) -> Node:
    if isinstance(base, Node) or np.any(base != 2) or not exponents.type.dtype.startswith("float"):
        raise op.refuse("Y", "computed from the rows", "hbconv raises only 2 to such exponents.")
    return Map(exponents, "exp2")


def _raise_to(x: Node, power: float) -> Node:
    return Map(x, "square") if power == 2 else Power(x, power)


Numbers = npt.NDArray[Any]
Operand = Node | Numbers


def broadcast(op: OnnxOperator, places: Sequence[int]) -> tuple[list[Operand], RowTensor]:
    """Bring inputs to one shape: nodes and vectors of constants, and a tensor of that shape.

    Axes are counted from the last, as in numpy.
    """
    values = [_operand(op, i) for i in places]
    # Shapes are aligned at their last axes, so the axis of the rows counts from there too.
    rank = max(v.data.ndim if isinstance(v, KnownTensor) else len(v.dims) for v in values)
    axes = {v.axis + rank - len(v.dims) for v in values if isinstance(v, RowTensor)}
    if len(axes) != 1:
        raise op.refuse("inputs", "rows on several axes", "Answers are computed row by row.")
    (axis,) = axes
    shapes = [(1,) * (rank - len(_dims(v))) + _dims(v) for v in values]
    if any(shape[axis] != 1 for shape in shapes):
        raise op.refuse("inputs", "a constant for each row", "Answers are computed row by row.")
    try:
        dims = np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise op.damaged(f"has inputs that do not fit ({error})") from error
    require_few(dims)
    operands = [_spread(v, s, dims, axis) for v, s in zip(values, shapes, strict=True)]
    node = next(x for x in operands if isinstance(x, Node))
    return operands, RowTensor(dims, axis, node)


def _operand(op: OnnxOperator, place: int) -> KnownTensor | RowTensor:
    value = op.value(place)
    if isinstance(value, KnownTensor) and value.data.dtype.kind in "ifb":
        return value
    return op.rows(place)


def _dims(value: KnownTensor | RowTensor) -> tuple[int, ...]:
    return value.data.shape if isinstance(value, KnownTensor) else value.dims


def _spread(
    value: KnownTensor | RowTensor, shape: tuple[int, ...], dims: tuple[int, ...], axis: int
) -> Operand:
    if isinstance(value, KnownTensor):
        return np.ascontiguousarray(np.broadcast_to(value.data.reshape(shape), dims)).ravel()
    places = np.broadcast_to(value.places.reshape(shape), dims)
    taken: RowTensor = value.take(np.ascontiguousarray(places), axis)
    return taken.node


def constant_node(op: OnnxOperator, x: Operand) -> Node:
    """Return a node of a vector of constants."""
    return x if isinstance(x, Node) else ConstantRows(op.row, Array(x))


def split_operands(x: Operand, y: Operand) -> tuple[Node, Numbers]:
    """Return the node and the constant beside it."""
    if isinstance(x, Node) and not isinstance(y, Node):
        return x, y
    if isinstance(y, Node) and not isinstance(x, Node):
        return y, x
    raise TypeError("an operator of constants was not computed")


FUNCTIONS = {
    "Abs": "abs", "Neg": "neg", "Sign": "sign", "Sqrt": "sqrt", "Exp": "exp", "Log": "log",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "arcsin", "Acos": "arccos", "Atan": "arctan",
    "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh", "Asinh": "arcsinh", "Acosh": "arccosh",
    "Atanh": "arctanh", "Sigmoid": "sigmoid",
    "Relu": "relu", "Erf": "erf", "Floor": "floor", "Ceil": "ceil", "Round": "rint",
    "Reciprocal": "reciprocal",
}  # fmt: skip


@entrywise(*FUNCTIONS)
def read_function(op: OnnxOperator) -> RowTensor:
    """Apply a function to each entry."""
    refuse_narrow(op)
    x = op.rows()
    result = Map(x.node, FUNCTIONS[op.kind])
    return x.of(result if result.type.dtype == x.dtype else Cast(result, x.dtype))


@entrywise("Softplus")
def read_softplus(op: OnnxOperator) -> RowTensor:
    """``log(exp(x) + 1)`` as ``max(x, 0) + log1p(exp(-|x|))``, which does not overflow."""
    x = op.rows()
    rest = Map(Map(Map(Map(x.node, "abs"), "neg"), "exp"), "log1p")
    return x.of(Add((Map(x.node, "relu"), rest)))


@entrywise("LeakyRelu")
def read_leaky_relu(op: OnnxOperator) -> RowTensor:
    """``alpha * x`` below 0, and x elsewhere."""
    x = op.rows()
    scaled = Affine.of(x.node, mul=op.get("alpha", 0.01))
    negative = Compare(x.node, "lt", Array(np.zeros(x.width, x.dtype)))
    return x.of(Choose(negative, scaled, x.node))


@entrywise("Clip")
def read_clip(op: OnnxOperator) -> RowTensor:
    """Keep entries between two constants; those not given are the ends of the finite numbers."""
    x = op.rows()
    ends = np.finfo(x.dtype) if x.dtype.startswith("float") else np.iinfo(x.dtype)
    bounds = [
        # Bounds are attributes before opset 11, and inputs since.
        op.get(name, default) if not op.has(i) else op.constant(i).ravel()[0]
        for i, (name, default) in enumerate((("min", ends.min), ("max", ends.max)), start=1)
    ]
    if not x.dtype.startswith("float"):
        return _clip_ints(x, bounds)
    return x.of(Clip.of(x.node, *map(float, bounds))).cast(x.dtype)


def _clip_ints(x: RowTensor, bounds: list[Any]) -> RowTensor:
    """Compare ints as such: Clip would round them to float64."""
    node = x.node
    for relation, bound in zip(("lt", "gt"), bounds, strict=True):
        # 2**53 + 1 came back as 2**53 when ints were clipped as floats.
        limit = Array(np.full(x.width, bound, x.dtype))
        node = Choose(Compare(node, relation, limit), ConstantRows(node, limit), node)
    return x.of(node)


RELATIONS = {
    "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge", "Equal": "eq",
}  # fmt: skip
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


@entrywise(*RELATIONS)
def read_comparison(op: OnnxOperator) -> RowTensor:
    """Compare two tensors, or texts with a constant."""
    if op.kind == "Equal" and (is_text(op.value(0)) or is_text(op.value(1))):
        return compare_texts(op)
    (x, y), shape = broadcast(op, (0, 1))
    relation = RELATIONS[op.kind]
    # Compare takes numbers; bools are equal where they do not differ.
    if shape.dtype == "bool":
        return shape.of(Not(Relation(constant_node(op, x), constant_node(op, y), "xor")))
    if isinstance(x, Node) and isinstance(y, Node):
        return shape.of(Relation(x, y, relation))
    node, constant = split_operands(x, y)
    relation = relation if node is x else MIRRORED[relation]
    return shape.of(Compare(node, relation, Array(constant)))


@entrywise("And", "Or", "Xor")
def read_logic(op: OnnxOperator) -> RowTensor:
    """Combine bools."""
    (x, y), shape = broadcast(op, (0, 1))
    relation = {"And": "and", "Or": "or", "Xor": "xor"}[op.kind]
    return shape.of(Relation(constant_node(op, x), constant_node(op, y), relation))


@entrywise("Not")
def read_not(op: OnnxOperator) -> RowTensor:
    """Return the opposite."""
    x = op.rows()
    return x.of(Not(x.node))


@entrywise("IsNaN")
def read_is_nan(op: OnnxOperator) -> RowTensor:
    """Tell where NaN is."""
    x = op.rows()
    return x.of(IsMissing(x.node))


@entrywise("IsInf")
def read_is_inf(op: OnnxOperator) -> RowTensor:
    """Tell where infinity of either sign is."""
    op.one_of("detect_negative", 1, 1)
    op.one_of("detect_positive", 1, 1)
    x = op.rows()
    infinite = Array(np.full(x.width, np.inf, x.dtype))
    return x.of(Compare(Map(x.node, "abs"), "eq", infinite))


@entrywise("Where")
def read_where(op: OnnxOperator) -> RowTensor | LabelTensor | TextTensor:
    """Choose between two tensors, or between texts."""
    if is_text(op.value(1)) or is_text(op.value(2)):
        return choose_texts(op)
    (condition, x, y), shape = broadcast(op, (0, 1, 2))
    nodes = [constant_node(op, v) for v in (condition, x, y)]
    return shape.of(Choose(nodes[0], nodes[1], nodes[2]))


@entrywise("Cast")
def read_cast(op: OnnxOperator) -> RowTensor | LabelTensor | TextTensor:
    """Convert entries to another type."""
    to = op.get("to")
    if to not in DTYPES:
        raise op.refuse("to", to, f"hbconv handles {', '.join(DTYPES.values())}.")
    value = op.value()
    if isinstance(value, MapList):
        raise op.refuse("input", "maps", "A list of dicts is no tensor.")
    dtype = DTYPES[to]
    if isinstance(value, LabelTensor):
        return value.through(_convert_table(op, value.table.data, dtype))
    if isinstance(value, TextTensor):
        if dtype != "string":
            raise op.refuse("to", dtype, "Texts of the input must be encoded.")
        return value
    return cast(op, op.rows(), dtype)


def cast(op: OnnxOperator, x: RowTensor, dtype: str) -> RowTensor:
    """Convert numbers; a float that is not 0 is true."""
    if dtype == "string":
        raise op.refuse("to", dtype, "hbconv makes no texts of computed numbers.")
    if dtype == "bool" and x.dtype != "bool":
        # NaN differs from 0, and is true to onnxruntime too.
        return x.of(Compare(x.node, "ne", Array(np.zeros(x.width, x.dtype))))
    return _narrow(op, x, dtype) if dtype in NARROW.values() else x.cast(dtype)


def _narrow(op: OnnxOperator, x: RowTensor, dtype: str) -> RowTensor:
    """Convert to a type of ints that holds less; rows that would wrap around are refused."""
    if isinstance(x, NarrowTensor) and x.narrow == dtype:
        return x
    held = x.cast("int64").node
    if x.dtype != "bool":
        least, most = ends_of(dtype)
        message = f"Cast (node {op.name!r:.100}) writes {dtype}: {least} to {most}, not beyond."
        op.checks.append(Check(IsOutside.of(held, least, most), message, op.name))
    return NarrowTensor(x.dims, x.axis, held, dtype)


def _convert_table(op: OnnxOperator, table: Numbers, dtype: str) -> Numbers:
    if dtype == "string":
        if table.dtype.kind == "f":
            raise op.refuse("to", dtype, "hbconv makes no texts of floats.")
        return table.astype(str)
    try:
        # Texts become floats first, since "1.0" is no int to numpy.
        return table.astype(np.float64 if table.dtype.kind in "UO" else table.dtype).astype(dtype)
    except ValueError as error:
        raise op.refuse("to", dtype, f"A label is no number ({error}).") from error
