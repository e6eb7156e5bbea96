"""Functions of each entry, comparisons, choices and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Check,
    Choose,
    Clip,
    Compare,
    ConstantRows,
    IsMissing,
    IsOutside,
    Map,
    Node,
    Not,
    Relation,
)
from hbconv.parse.onnx.arithmetic import refuse_narrow
from hbconv.parse.onnx.broadcasting import Numbers, beside, broadcast, constant_node
from hbconv.parse.onnx.entrywise import entrywise
from hbconv.parse.onnx.operator import OnnxOperator
from hbconv.parse.onnx.texts import chosen_texts, equal_texts, is_text
from hbconv.parse.onnx.values import (
    DTYPES,
    NARROW,
    LabelTensor,
    MapList,
    NarrowTensor,
    RowTensor,
    TextTensor,
    ends_of,
)

__all__: list[str] = []

FUNCTIONS = {
    "Abs": "abs", "Neg": "neg", "Sign": "sign", "Sqrt": "sqrt", "Exp": "exp", "Log": "log",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "Tanh": "tanh", "Sigmoid": "sigmoid",
    "Relu": "relu", "Erf": "erf", "Floor": "floor", "Ceil": "ceil", "Round": "rint",
    "Reciprocal": "reciprocal",
}  # fmt: skip


@entrywise(*FUNCTIONS)
def read_function(op: OnnxOperator) -> RowTensor:
    """Apply a function to each entry."""
    refuse_narrow(op)
    x = op.rows()
    found = Map(x.node, FUNCTIONS[op.kind])
    return x.of(found if found.type.dtype == x.dtype else Cast(found, x.dtype))


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
        op.get(name, default) if not op.has(i) else op.constant(i).ravel()[0]
        for i, (name, default) in enumerate((("min", ends.min), ("max", ends.max)), start=1)
    ]
    if not x.dtype.startswith("float"):
        return _clipped_ints(x, bounds)
    return x.of(Clip.of(x.node, *map(float, bounds))).cast(x.dtype)


def _clipped_ints(x: RowTensor, bounds: list[Any]) -> RowTensor:
    """Compare ints as such: Clip would round them to float64."""
    node = x.node
    for relation, bound in zip(("lt", "gt"), bounds, strict=True):
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
        return equal_texts(op)
    (x, y), shape = broadcast(op, (0, 1))
    relation = RELATIONS[op.kind]
    if shape.dtype == "bool":
        return shape.of(Not(Relation(constant_node(op, x), constant_node(op, y), "xor")))
    if isinstance(x, Node) and isinstance(y, Node):
        return shape.of(Relation(x, y, relation))
    node, constant = beside(x, y)
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
        return chosen_texts(op)
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
        return value.through(_converted(op, value.table.data, dtype))
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
        return x.of(Compare(x.node, "ne", Array(np.zeros(x.width, x.dtype))))
    return _narrowed(op, x, dtype) if dtype in NARROW.values() else x.cast(dtype)


def _narrowed(op: OnnxOperator, x: RowTensor, dtype: str) -> RowTensor:
    """Convert to a type of ints that holds less; rows that would wrap around are refused."""
    if isinstance(x, NarrowTensor) and x.narrow == dtype:
        return x
    held = x.cast("int64").node
    if x.dtype != "bool":
        least, most = ends_of(dtype)
        told = f"Cast (node {op.name!r:.100}) writes {dtype}: {least} to {most}, not beyond."
        op.checks.append(Check(IsOutside.of(held, least, most), told, op.name))
    return NarrowTensor(x.dims, x.axis, held, dtype)


def _converted(op: OnnxOperator, table: Numbers, dtype: str) -> Numbers:
    if dtype == "string":
        if table.dtype.kind == "f":
            raise op.refuse("to", dtype, "hbconv makes no texts of floats.")
        return table.astype(str)
    try:
        return table.astype(np.float64 if table.dtype.kind in "UO" else table.dtype).astype(dtype)
    except ValueError as error:
        raise op.refuse("to", dtype, f"A label is no number ({error}).") from error
