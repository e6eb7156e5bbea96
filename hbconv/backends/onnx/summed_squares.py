"""Squared distances that are only added up, by the two products of ``tensor.summed_squares``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.backends.onnx.distances import measure_others, pairwise
from hbconv.backends.onnx.shapes import write_expand
from hbconv.backends.onnx.writer import Tensor
from hbconv.tensor import TensorType
from hbconv.tensor.summed_squares import SplitPoints, split_points

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter

__all__ = ["summed_squares"]


def summed_squares(w: GraphWriter, x: Tensor, points: Tensor, kind: str, p: float) -> str:
    """Write squared distances that are only added up.

    Rows that are too near to a point, or too far from all, are measured feature by feature.
    """
    split = split_points(np.asarray(points.value), "onnx")
    if split is None:
        return pairwise(w, x, points, kind, p)
    squares, settled = _add_products(w, x, split)

    def measure(inner: GraphWriter, others: Tensor) -> str:
        return pairwise(inner, others, points, kind, p)

    result = TensorType(x.dtype, points.shape[:1])
    return measure_others(w, x, settled, Tensor(squares, result), measure)


def _add_products(w: GraphWriter, x: Tensor, split: SplitPoints) -> tuple[str, str]:
    """Return the squares, and which rows have all of them.

    1. ``x = centre + head + rest``.
    2. The heads' squared distance: ``|h|^2 - 2 h heads + |heads|^2``.
    3. What the rests r add: ``2 (h - heads) (r - rests) + |r - rests|^2``.
    """
    one, grid = w.constant([1], "int64"), w.constant(split.grid, x.dtype)
    scaled = w.node("Mul", x.name, w.constant(1 / split.grid, x.dtype))  # 1
    on_grid = w.node("Mul", w.node("Round", scaled), grid)
    head = w.node("Sub", on_grid, w.constant(split.centre))
    rest = w.node("Sub", x.name, on_grid)
    ones = write_expand(w, x.name, w.constant([1.0], x.dtype), (1,))
    norm = w.node("ReduceSumSquare", head, one, keepdims=1)  # 2
    of_heads = w.node("Concat", head, ones, norm, axis=1)
    squares = w.node("MatMul", of_heads, w.constant(split.of_heads()))
    twice = w.node("Add", w.node("Add", head, head), rest)  # 3
    norm = w.node("ReduceSum", w.node("Mul", rest, twice), one, keepdims=1)
    of_rests = w.node("Concat", head, rest, ones, norm, axis=1)
    squares = w.node("Add", squares, w.node("MatMul", of_rests, w.constant(split.of_rests())))
    within = w.node("LessOrEqual", w.node("Abs", head), w.constant(split.reach, x.dtype))
    all_within = w.cast(w.node("ReduceMin", w.cast(within, "int32"), one, keepdims=1), "bool")
    nearest = w.node("ReduceMin", squares, one, keepdims=1)
    is_apart = w.node("GreaterOrEqual", nearest, w.constant(split.least, x.dtype))
    return squares, w.node("And", is_apart, all_within)
