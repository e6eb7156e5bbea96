"""Fold a scaler into the linear model after it."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Affine, Concat, Linear, Node

__all__ = ["fold_affine_into_linear"]

MAX_OFFSET = 100.0
"""Most scales that an offset may be from zero: beyond, cancellation would cost two digits."""


def fold_affine_into_linear(node: Node) -> Node | None:
    """Scale the weights and shift the bias, instead of scaling and shifting the columns.

    The scaled columns may be one part of several. Rounds differently from the source model, within
    the tolerance of its dtype, so it is never done before a threshold. Weights narrower than the
    output stay: rounding the scaled weights would cost half of its digits.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> scaled = Affine.of(x, sub=[1.0, 2.0], div=[2.0, 4.0])
    >>> show_rule(fold_affine_into_linear, Linear.of(scaled, [6.0, 8.0]))
    linear(affine(columns(a, b), sub [1., 2.], div [2., 4.]), [[6.], [8.]] + [0.])
    -> linear(columns(a, b), [[3.], [2.]] + [-7.])
    """
    if not isinstance(node, Linear) or node.weights.dtype != node.type.dtype:
        return None
    parts = node.x.xs if isinstance(node.x, Concat) else (node.x,)
    if not any(_folds(part) for part in parts):
        return None
    scales, offsets = zip(*(_scale_and_offset(part) for part in parts), strict=True)
    weights = node.weights.data.astype(np.float64)
    if not np.isfinite(weights).all():
        return None  # zero times infinity is no number, and which entries are zero changes
    scaled = weights * np.concatenate(scales)[:, None]
    shift = np.concatenate(offsets) @ weights
    inner = tuple(part.x if isinstance(part, Affine) and _folds(part) else part for part in parts)
    x = replace(node.x, xs=inner) if isinstance(node.x, Concat) else inner[0]
    return replace(
        node,
        x=x,
        weights=Array.of(scaled, node.weights.dtype),
        bias=Array.of(node.bias.data + shift, node.type.dtype),
    )


def _folds(part: Node) -> bool:
    if not isinstance(part, Affine):
        return False
    scale, offset = part.scale_and_offset
    return bool(np.all(np.isfinite(scale)) and np.all(np.abs(offset) <= MAX_OFFSET))


def _scale_and_offset(part: Node) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if isinstance(part, Affine) and _folds(part):
        return part.scale_and_offset
    return np.ones(part.type.width), np.zeros(part.type.width)
