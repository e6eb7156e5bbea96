"""Operators of ``ai.onnx.ml`` on numbers: Scaler, Normalizer, Imputer, Binarizer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Choose,
    Compare,
    ConstantRows,
    GroupSums,
    Impute,
    Map,
    Node,
    Pool,
    Quotient,
)
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.values import RowTensor

__all__: list[str] = []

ML = "ai.onnx.ml"


@operator("Scaler", domain=ML)
def read_scaler(op: OnnxOperator) -> RowTensor:
    """``(x - offset) * scale`` in float32."""
    x = op.matrix().cast("float32")
    steps = {name: op.numbers(own) for name, own in (("sub", "offset"), ("mul", "scale"))}
    for name, constant in steps.items():
        if len(constant) not in (1, x.width):
            raise op.damaged(f"has {len(constant)} numbers to {name} for {x.width} columns")
    return x.of(Affine.of(x.node, **steps))


@operator("Normalizer", domain=ML)
def read_normalizer(op: OnnxOperator) -> RowTensor:
    """Divide each row by its norm, and leave rows whose norm is 0.

    A norm MAX is the largest entry, not the largest size.
    """
    norm = op.one_of("norm", "MAX", "MAX", "L1", "L2")
    x = op.matrix().cast("float32")
    return x.of(_divided(x.node, NORMS[norm](x.node)))


def _without_nan(x: Node) -> Node:
    """Hide NaN, which onnxruntime passes over when it looks for the largest entry."""
    return Impute(x, Array(np.full(x.type.width, np.finfo(x.type.dtype).min, x.type.dtype)))


NORMS: dict[str, Callable[[Node], Node]] = {
    "MAX": lambda x: Pool(_without_nan(x), (tuple(range(x.type.width)),), "max"),
    "L1": lambda x: GroupSums(Map(x, "abs"), 1),
    "L2": lambda x: Map(GroupSums(Map(x, "square"), 1), "sqrt"),
}


def _divided(x: Node, size: Node) -> Node:
    """Divide a row by its size, where that is not 0."""
    zero = Compare(size, "eq", Array(np.zeros(1, size.type.dtype)))
    one = ConstantRows(size, Array(np.ones(1, size.type.dtype)))
    return Quotient((x, Choose(zero, one, size)))


@operator("LpNormalization")
def read_lp_normalization(op: OnnxOperator) -> RowTensor:
    """Divide each row by its norm of order 1 or 2; a row of zeros stays."""
    x = op.matrix()
    if op.axis(op.get("axis", -1), 2) != 1:
        raise op.refuse("axis", op.get("axis", -1), "A reduction of the rows is no answer.")
    return x.of(_divided(x.node, NORMS[f"L{op.one_of('p', 2, 1, 2)}"](x.node)))


@operator("Imputer", domain=ML)
def read_imputer(op: OnnxOperator) -> RowTensor:
    """Replace what is missing: NaN, or one number."""
    x = op.matrix()
    floats = x.dtype.startswith("float")
    kind = "floats" if floats else "int64s"
    value = op.get("replaced_value_float", 0.0) if floats else op.get("replaced_value_int64", 0)
    fill = op.numbers(f"imputed_value_{kind}", "float32" if floats else "int64")
    if len(fill) not in (1, x.width):
        raise op.damaged(f"has {len(fill)} values for {x.width} columns")
    return x.of(Impute(x.node, Array(np.broadcast_to(fill, (x.width,))), float(value)))


@operator("Binarizer", domain=ML)
def read_binarizer(op: OnnxOperator) -> RowTensor:
    """1 above the threshold, 0 elsewhere."""
    x = op.rows()
    threshold = np.full(x.width, op.get("threshold", 0.0), np.float32).astype(x.dtype)
    return x.of(Compare(x.node, "gt", Array(threshold), x.dtype))
