"""Fold a projection into the linear model after it."""

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import Linear, Node

__all__ = ["fold_linear_into_linear"]


def fold_linear_into_linear(node: Node) -> Node | None:
    """Multiply the two matrices now, if one product then costs no more than two.

    Matrices that are both narrower than the output stay: rounding their product would cost half of
    its digits.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> projection = Linear.of(x, [[1.0], [2.0]], 1.0)
    >>> show_rule(fold_linear_into_linear, Linear.of(projection, [[3.0]], 4.0))
    linear(linear(columns(a, b), [[1.], [2.]] + [1.]), [[3.]] + [4.])
    -> linear(columns(a, b), [[3.], [6.]] + [7.])
    """
    if not (isinstance(node, Linear) and isinstance(node.x, Linear)):
        return None
    inner = node.x.weights.data
    outer = node.weights.data
    dtype = np.result_type(inner, outer)
    if dtype != node.type.dtype:
        return None
    if inner.shape[0] * outer.shape[1] > inner.size + outer.size:
        return None
    if not (np.isfinite(inner).all() and np.isfinite(outer).all()):
        return None  # zero times infinity is no number
    weights = inner.astype(np.float64) @ outer.astype(np.float64)
    bias = node.x.bias.data.astype(np.float64) @ outer.astype(np.float64) + node.bias.data
    return replace(node, x=node.x.x, weights=Array.of(weights, dtype), bias=Array.of(bias, dtype))
