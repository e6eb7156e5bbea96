"""Bring the inputs of an operator to one shape, as ONNX does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import ConstantRows, Node
from hbconv.parse.onnx.operator import OnnxOperator
from hbconv.parse.onnx.values import KnownTensor, RowTensor, require_few

__all__ = ["Numbers", "Operand", "beside", "broadcast", "constant_node"]

Numbers = npt.NDArray[Any]
Operand = Node | Numbers


def broadcast(op: OnnxOperator, places: Sequence[int]) -> tuple[list[Operand], RowTensor]:
    """Bring inputs to one shape: nodes and vectors of constants, and a tensor of that shape.

    Axes are counted from the last, as in numpy.
    """
    values = [_operand(op, i) for i in places]
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
    found = [_spread(v, s, dims, axis) for v, s in zip(values, shapes, strict=True)]
    node = next(x for x in found if isinstance(x, Node))
    return found, RowTensor(dims, axis, node)


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
    taken: RowTensor = value.taking(np.ascontiguousarray(places), axis)
    return taken.node


def constant_node(op: OnnxOperator, x: Operand) -> Node:
    """Return a node of a vector of constants."""
    return x if isinstance(x, Node) else ConstantRows(op.row, Array(x))


def beside(x: Operand, y: Operand) -> tuple[Node, Numbers]:
    """Return the node and the constant beside it."""
    if isinstance(x, Node) and not isinstance(y, Node):
        return x, y
    if isinstance(y, Node) and not isinstance(x, Node):
        return y, x
    raise TypeError("an operator of constants was not computed")
