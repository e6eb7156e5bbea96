"""Positions computed of each row, by which operators read tables and entries."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    ArgMax,
    Cast,
    Check,
    Choose,
    Clip,
    Compare,
    ConstantRows,
    IsOutside,
    LookupRows,
    Nearest,
    Node,
    Select,
)
from hbconv.parse.onnx.operator import OnnxOperator
from hbconv.parse.onnx.values import RowTensor

__all__ = ["within"]


def within(op: OnnxOperator, positions: RowTensor, size: int, least: int = 0) -> Node:
    """Return int32 positions below a size; those below 0, from ``least`` on, count from the end.

    Rows with others are refused, as onnxruntime refuses them, and nothing outside is read.
    """
    if _is_within(positions.node, size):
        return positions.cast("int32").node
    if size < 1:
        raise op.damaged("reads from a constant without entries")
    told = f"{op.kind} (node {op.name!r:.100}) reads position {least} to {size - 1}, not beyond."
    op.checks.append(Check(IsOutside.of(positions.node, least, size - 1), told, op.name))
    held = Cast(Clip.of(positions.cast("float64").node, least, size - 1), "int32")
    if least == 0:
        return held
    sizes = ConstantRows(op.row, Array(np.full(positions.width, size, np.int32)))
    return Choose(Compare.of(held, "lt", 0), Add((held, sizes)), held)


def _is_within(node: Node, size: int) -> bool:
    """Tell whether positions are those of fewer entries."""
    while isinstance(node, Cast | Select):
        node = node.x
    if isinstance(node, ArgMax):
        return node.x.type.width // node.groups <= size
    if isinstance(node, Nearest):
        return node.x.type.width <= size
    if isinstance(node, LookupRows) and len(node.table):
        return bool(node.table.data.min() >= 0 and node.table.data.max() < size)
    return node.type.dtype == "bool" and size > 1
