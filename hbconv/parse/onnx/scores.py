"""From scores to what the classifiers of ``ai.onnx.ml`` write: probabilities and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    ArgMax,
    Choose,
    Compare,
    ConstantRows,
    GroupSums,
    Impute,
    Map,
    Multiply,
    Node,
    Pool,
    Quotient,
    Softmax,
)
from hbconv.parse.onnx.operator import OnnxOperator
from hbconv.parse.onnx.values import LabelTensor

__all__ = [
    "TRANSFORMS",
    "class_labels",
    "compared",
    "labelled",
    "largest",
    "regressed",
    "transformed",
]

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Values of ``post_transform``."""


def class_labels(op: OnnxOperator, strings: str = "classlabels_strings") -> npt.NDArray[Any]:
    """Return the labels of a classifier, texts before ints."""
    texts = op.texts(strings)
    if texts:
        return np.array(texts)
    found = op.numbers("classlabels_int64s", "int64")
    found = found if len(found) else op.numbers("classlabels_ints", "int64")
    if not len(found):
        raise op.damaged("has no class labels")
    return found


def labelled(codes: Node, labels: npt.NDArray[Any]) -> LabelTensor:
    """Return the labels of int32 codes, as a vector."""
    return LabelTensor((1,), 0, codes, Array(labels))


def largest(x: Node, groups: int = 1) -> Node:
    """Return the position of the largest entry of each group, as onnxruntime finds it.

    It starts with the first and goes on to a larger one. So NaN stays where it is first, and is
    passed over elsewhere.
    """
    if not x.type.dtype.startswith("float"):
        return ArgMax(x, groups)
    each = x.type.width // groups
    fill = np.full((groups, each), -np.inf, x.type.dtype)
    fill[:, :1] = np.inf
    return ArgMax(Impute(x, Array(fill.ravel())), groups)


def compared(x: Node, operation: str, constant: float) -> Node:
    """Compare each entry with a number, in x's dtype."""
    values = Array(np.full(x.type.width, constant, x.type.dtype))
    return Compare(x, operation, values)


def transformed(op: OnnxOperator, x: Node, transform: str) -> Node:
    """Apply a ``post_transform`` to the scores of a row."""
    if transform == "SOFTMAX":
        return Softmax(x)
    if transform == "SOFTMAX_ZERO":
        return _softmax_zero(x)
    if transform == "LOGISTIC":
        return Map(x, "sigmoid")
    if transform == "PROBIT":
        return _probit(x)
    if transform != "NONE":
        raise op.refuse("post_transform", transform, f"hbconv handles {', '.join(TRANSFORMS)}.")
    return x


def regressed(op: OnnxOperator, x: Node, transform: str) -> Node:
    """Apply a ``post_transform`` to predictions; onnxruntime leaves a single one as it is.

    It computes the PROBIT of a single one all the same.
    """
    if x.type.width > 1 or transform == "PROBIT" or transform not in TRANSFORMS:
        return transformed(op, x, transform)
    return x


def _softmax_zero(x: Node) -> Node:
    """Leave scores of zero out of a softmax: they are multiplied, and add nothing to the sum."""
    top = Map(Pool(x, (tuple(range(x.type.width)),), "max"), "neg")
    small = compared(Map(x, "abs"), "le", 1e-7)
    exponentials = Map(Add((x, top)), "exp")
    kept = Choose(small, Multiply((x, Map(top, "exp"))), exponentials)
    total = GroupSums(Choose(small, _zeros(x), exponentials), 1)
    return Quotient((kept, total))


def _zeros(x: Node) -> Node:
    return ConstantRows(x, Array(np.zeros(x.type.width, x.type.dtype)))


def _probit(score: Node) -> Node:
    """Return ``sqrt(2) * erfinv(2 score - 1)`` as onnxruntime approximates it.

    The inverse error function is that of Winitzki (2008), with its constants of six digits.
    """
    x = Affine.of(score, mul=2.0, sub=1.0)
    rest = Multiply((Affine.of(x, mul=-1.0, add=1.0), Affine.of(x, add=1.0)))
    log = Map(rest, "log")
    first = Affine.of(
        log, mul=0.5, add=float(np.float32(2 / (np.float32(3.14159) * np.float32(0.147))))
    )
    second = Affine.of(log, mul=float(np.float32(1) / np.float32(0.147)))
    root = Map(Add((Map(first, "square"), Map(second, "neg"))), "sqrt")
    size = Map(Add((Map(first, "neg"), root)), "sqrt")
    signed = Choose(compared(x, "lt", 0.0), Map(size, "neg"), size)
    return Affine.of(signed, mul=1.41421356)
