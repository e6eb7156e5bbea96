"""Distances to constant points: CDist, and the Scan that skl2onnx writes for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Cast, Distances, Map
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.texts import normalized_rows
from hbconv.parse.onnx.values import KnownTensor, RowTensor, TextTensor, Value

__all__: list[str] = []

METRICS = {"euclidean": ("square", True), "sqeuclidean": ("square", False),
           "cityblock": ("absolute", False), "manhattan": ("absolute", False)}  # fmt: skip


@operator("CDist", domain="com.microsoft")
def read_cdist(op: OnnxOperator) -> RowTensor:
    """Return the distance of each row to each constant point."""
    metric = op.one_of("metric", "sqeuclidean", *METRICS)
    kind, root = METRICS[metric]
    return _distances(op, 0, 1, kind, root=root)


def _distances(
    op: OnnxOperator, rows: int, points: int, kind: str, *, root: bool, power: float = 2.0
) -> RowTensor:
    x = op.matrix(rows)
    table = op.constant(points)
    if table.ndim != 2 or table.shape[1] != x.width:
        raise op.damaged(f"measures {x.width} columns against points of {table.shape[-1]}")
    found = Distances(x.node, Array(table.astype(x.dtype)), kind, power)
    node = Map(found, "sqrt") if root else found
    return RowTensor(
        (1, len(table)), 0, node if node.type.dtype == x.dtype else Cast(node, x.dtype)
    )


@operator("Scan")
def read_scan(op: OnnxOperator) -> tuple[Value | None, ...]:
    """Read a loop whose body measures the distances between rows and constant points.

    Another loop normalizes the text of each row, which keeps those that become empty.
    The body subtracts what the loop runs over from the other, and reduces the columns. The first
    axis of the result is that of the loop.
    """
    if isinstance(op.value(0), TextTensor):
        return (normalized_rows(op),)
    kind, root = _measure(op)
    points, rows = (0, 1) if isinstance(op.value(0), KnownTensor) else (1, 0)
    power = _power(op) if kind == "power" else 2.0
    found = _distances(op, rows, points, kind, root=root, power=power)
    if rows == 1:
        return None, found
    return None, found.taking(np.ascontiguousarray(found.places.T), 1)


def _measure(op: OnnxOperator) -> tuple[str, bool]:
    """Return what the body computes; refuse any other body."""
    body = op.get("body")
    loop = op.get("num_scan_inputs", 1) == 1 and len(op.inputs) == len(body.input) == 2
    plain = [op.get(f"scan_{name}", [0]) == [0] for name in (
        "input_axes", "input_directions", "output_axes", "output_directions")]  # fmt: skip
    names = {i.name: i.name for i in body.input}
    kinds: list[str] = []
    last = ""
    for node in body.node:
        if node.op_type == "Identity":
            names[node.output[0]] = names.get(node.input[0], node.input[0])
            continue
        read = {names.get(name, name) for name in node.input[: 2 if node.op_type == "Sub" else 1]}
        loop = loop and read == ({i.name for i in body.input} if not kinds else {last})
        each = node.op_type in ("Sub", "Abs", "Pow", "Sqrt")
        loop = loop and (each or _reduces_columns(body, node))
        kinds.append(node.op_type)
        last = node.output[0]
    measures_last = names.get(body.output[-1].name, body.output[-1].name) == last
    if not loop or not all(plain) or not measures_last or tuple(kinds) not in BODIES:
        raise op.refuse(
            "body", " ".join(kinds)[:60], "hbconv reads the loops of distances to points."
        )
    return BODIES[tuple(kinds)]


def _power(op: OnnxOperator) -> float:
    """Return the constant power of the body."""
    from onnx import numpy_helper

    body = op.get("body")
    constants = {t.name: numpy_helper.to_array(t).ravel().tolist() for t in body.initializer}
    (name,) = (node.input[1] for node in body.node if node.op_type == "Pow")
    power = constants.get(name, [])
    if len(power) != 1 or not 0 < power[0] < 1000:
        raise op.refuse("body", f"Pow by {power[:3]}", "hbconv reads constant powers above 0.")
    return float(power[0])


def _reduces_columns(body: Any, node: Any) -> bool:
    """Tell whether a reduction is over the columns; its axes are an attribute or a constant."""
    from onnx import numpy_helper

    found = {a.name: list(a.ints) or a.i for a in node.attribute}
    constants = {t.name: numpy_helper.to_array(t).ravel().tolist() for t in body.initializer}
    axes = constants.get(node.input[1]) if len(node.input) > 1 else found.get("axes")
    return axes == [1] and found.get("keepdims", 1) in (0, [])


BODIES = {
    ("Sub", "ReduceSumSquare"): ("square", False),
    ("Sub", "Abs", "ReduceSum"): ("absolute", False),
    ("Sub", "ReduceL1"): ("absolute", False),
    ("Sub", "Abs", "Pow", "ReduceSum"): ("power", False),
    ("Sub", "ReduceSumSquare", "Sqrt"): ("square", True),
    ("Sub", "ReduceL2"): ("square", True),
}
"""What bodies of loops compute: the kind of the terms, and whether the sum's root is taken."""
