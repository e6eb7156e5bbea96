"""Products with constant matrices: MatMul, Gemm, LinearRegressor and LinearClassifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Compare,
    Concat,
    GroupSums,
    Linear,
    Map,
    Multiply,
    Node,
)
from hbconv.parse.onnx.arithmetic import added
from hbconv.parse.onnx.broadcasting import broadcast
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.scores import class_labels, labelled, largest, regressed, transformed
from hbconv.parse.onnx.values import KnownTensor, LabelTensor, RowTensor

__all__: list[str] = []

ML = "ai.onnx.ml"

Numbers = npt.NDArray[Any]


@operator("MatMul")
def read_matmul(op: OnnxOperator) -> RowTensor:
    """Multiply rows by a constant matrix, or a constant matrix by columns of rows."""
    if isinstance(op.value(1), KnownTensor):
        return _times(op, op.rows(0), op.constant(1))
    if isinstance(op.value(0), KnownTensor):
        x = op.rows(1)
        weights = op.constant(0)
        if x.axis != 1 or len(x.dims) != 2 or weights.ndim != 2:
            raise op.refuse("B", list(x.dims), "It must be (columns, rows).")
        return RowTensor((len(weights), 1), 1, _product(op, x, weights.T))
    return _row_products(op)


def _times(op: OnnxOperator, x: RowTensor, weights: Numbers) -> RowTensor:
    flat = x.axis == 0 and len(x.dims) == 2
    if not flat or weights.ndim not in (1, 2):
        raise op.refuse("A", list(x.dims), "It must be (rows, columns).")
    found = _product(op, x, weights if weights.ndim == 2 else weights[:, None])
    return RowTensor((1, weights.shape[1]) if weights.ndim == 2 else (1,), 0, found)


def _product(op: OnnxOperator, x: RowTensor, weights: Numbers) -> Node:
    if not x.dtype.startswith("float") or weights.dtype.name != x.dtype:
        raise op.refuse("input type", x.dtype, "hbconv multiplies floats.")
    if len(weights) != x.width:
        raise op.damaged(f"multiplies {x.width} columns by a matrix of {len(weights)} rows")
    return Linear.of(x.node, weights)


def _row_products(op: OnnxOperator) -> RowTensor:
    """Multiply a row vector by a column vector of the same row: (rows, 1, k) by (rows, k, 1)."""
    x, y = op.rows(0), op.rows(1)
    if (x.axis, y.axis) != (0, 0) or x.dims[:2] != (1, 1) or y.dims != (1, x.width, 1):
        raise op.refuse("inputs", "two tensors of rows", "One must be a constant of the file.")
    return RowTensor((1, 1, 1), 0, GroupSums(Multiply((x.node, y.node)), 1))


@operator("Gemm")
def read_gemm(op: OnnxOperator) -> RowTensor:
    """``alpha * A @ B + beta * C`` for constant B and C."""
    x = op.rows(0)
    if op.get("transA", 0):
        x = x.taking(np.ascontiguousarray(x.places.T), 1 - x.axis)
    weights = op.constant(1)
    weights = weights.T if op.get("transB", 0) else weights
    found = _times(op, x, weights)
    alpha = op.get("alpha", 1.0)
    node = found.node if alpha == 1 else Affine.of(found.node, mul=alpha)
    plus = op.has(2) and op.get("beta", 1.0) != 0
    return _plus(op, found.of(node)) if plus else found.of(node)


def _plus(op: OnnxOperator, product: RowTensor) -> RowTensor:
    """Add C, scaled, to a product."""
    beta = op.get("beta", 1.0)
    bias = op.value(2)
    scaled = (
        KnownTensor(bias.data * bias.data.dtype.type(beta))
        if isinstance(bias, KnownTensor)
        else op.rows(2).of(Affine.of(op.rows(2).node, mul=beta))
    )
    (x, y), shape = broadcast(replace(op, inputs=(product, scaled)), (0, 1))
    if shape.dims != product.dims:
        raise op.damaged(f"adds {shape.dims} to {product.dims}")
    return shape.of(added(op, x, y))


@operator("LinearRegressor", domain=ML)
def read_regressor(op: OnnxOperator) -> RowTensor:
    """Multiply by the coefficients of each target, and transform."""
    x = op.matrix().cast("float32")
    scores = _scores(op, x, op.get("targets", 1))
    found = regressed(op, scores, op.get("post_transform", "NONE"))
    return RowTensor((1, scores.type.width), 0, found)


def _scores(op: OnnxOperator, x: RowTensor, targets: int) -> Node:
    weights = op.numbers("coefficients")
    bias = op.numbers("intercepts")
    if targets < 1 or len(weights) != targets * x.width or len(bias) not in (0, targets):
        raise op.damaged(
            f"has {len(weights)} coefficients and {len(bias)} intercepts for {targets} targets of "
            f"{x.width} columns"
        )
    bias = bias if len(bias) else np.zeros(targets, np.float32)
    return Linear.of(x.node, weights.reshape(targets, x.width).T, bias)


def _transformed(op: OnnxOperator, scores: Node) -> Node:
    return transformed(op, scores, op.get("post_transform", "NONE"))


@operator("LinearClassifier", domain=ML)
def read_classifier(op: OnnxOperator) -> tuple[LabelTensor, RowTensor]:
    """Score each class; a single score decides between two by its sign.

    Scores of two classes are made of one as onnxruntime does: softmax leaves them as they are.
    """
    labels = class_labels(op)
    x = op.matrix().cast("float32")
    targets = len(op.numbers("intercepts")) or len(op.numbers("coefficients")) // max(x.width, 1)
    scores = _scores(op, x, targets)
    if targets == 1 and len(labels) == 2:
        code = Compare(scores, "gt", Array(np.zeros(1, np.float32)), "int32")
        return labelled(code, labels), RowTensor((1, 2), 0, _both(op, scores))
    if targets != len(labels):
        raise op.damaged(f"has {targets} scores for {len(labels)} classes")
    found = RowTensor((1, targets), 0, _transformed(op, scores))
    return labelled(largest(scores), labels), found


def _both(op: OnnxOperator, score: Node) -> Node:
    transform = op.get("post_transform", "NONE")
    if transform == "LOGISTIC":
        return Concat((Map(Map(score, "neg"), "sigmoid"), Map(score, "sigmoid")))
    if transform in ("NONE", "SOFTMAX", "SOFTMAX_ZERO"):
        return Concat((Affine.of(score, mul=-1.0, add=1.0), score))
    raise op.refuse("post_transform", transform, "Use LOGISTIC, SOFTMAX or NONE.")
