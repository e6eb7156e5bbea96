"""Operators that reduce axes other than that of the rows, and those of ``ai.onnx.ml`` on numbers.

Distances to constant points are reductions too: CDist, and the Scan that skl2onnx writes for it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
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
    Distances,
    EntriesAt,
    GroupSums,
    Impute,
    IsMissing,
    Map,
    Multiply,
    Nearest,
    Node,
    Pool,
    Quotient,
    RunningSums,
    Select,
    Softmax,
)
from hbconv.parse.onnx.linear import find_largest
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.texts import normalize_rows
from hbconv.parse.onnx.values import KnownTensor, RowTensor, TextTensor, Value

__all__: list[str] = []


def _pool(x: Node, groups: int, function: str) -> Node:
    each = x.type.width // groups
    members = np.arange(x.type.width).reshape(groups, each)
    return Pool(x, tuple(tuple(group) for group in members.tolist()), function)


def _finite(x: Node) -> tuple[float, float]:
    ends = np.finfo(x.type.dtype if x.type.dtype.startswith("float") else "float64")
    return float(ends.min), float(ends.max)


def _log_sum_exp(x: Node, groups: int) -> Node:
    each = x.type.width // groups
    # An infinite maximum minus itself would be NaN.
    top = Clip.of(_pool(x, groups, "max"), *_finite(x))
    wide = Select(top, Array(np.repeat(np.arange(groups, dtype=np.int32), each)))
    exponentials = Map(Add((x, Map(wide, "neg"))), "exp")
    return Add((Map(GroupSums(exponentials, groups), "log"), top))


def _product(x: Node, groups: int) -> Node:
    each = x.type.width // groups
    first = np.arange(groups, dtype=np.int32) * each
    return Multiply(tuple(Select(x, Array(first + np.int32(i))) for i in range(each)))


REDUCTIONS: dict[str, Callable[[Node, int], Node]] = {
    "ReduceSum": GroupSums,
    "ReduceMean": lambda x, n: Affine.of(GroupSums(x, n), div=float(x.type.width // n)),
    "ReduceMax": lambda x, n: _pool(x, n, "max"),
    "ReduceMin": lambda x, n: _pool(x, n, "min"),
    "ReduceProd": _product,
    "ReduceL1": lambda x, n: GroupSums(Map(x, "abs"), n),
    "ReduceL2": lambda x, n: Map(GroupSums(Map(x, "square"), n), "sqrt"),
    "ReduceSumSquare": lambda x, n: GroupSums(Map(x, "square"), n),
    "ReduceLogSum": lambda x, n: Map(GroupSums(x, n), "log"),
    "ReduceLogSumExp": _log_sum_exp,
}


@operator(*REDUCTIONS)
def read_reduction(op: OnnxOperator) -> RowTensor:
    """Reduce the given axes."""
    x = op.rows()
    axes = op.ints("axes", 1)
    if not axes:
        # Without axes and without this flag the rows are reduced too.
        if op.get("noop_with_empty_axes", 0):
            return x
        raise op.refuse("axes", axes, "A reduction of the rows is no answer of each row.")
    return _reduce(op, x, axes, REDUCTIONS[op.kind])


def _reduce(
    op: OnnxOperator, x: RowTensor, axes: list[int], function: Callable[[Node, int], Node]
) -> RowTensor:
    """Bring the axes behind all others, and reduce equal groups of columns."""
    over = {op.axis(i, len(x.dims)) for i in axes}
    if x.axis in over:
        raise op.refuse("axes", sorted(over), "A reduction of the rows is no answer of each row.")
    grouped, kept = _group_axes(x, over)
    if not x.width:
        raise op.damaged("reduces no entries")
    result = function(grouped, prod(x.dims[i] for i in kept))
    node = result if result.type.dtype == x.dtype else Cast(result, x.dtype)
    # onnxruntime takes every value other than 1 for 0, as a damaged file showed.
    if op.get("keepdims", 1) == 1:
        return RowTensor(tuple(1 if i in over else n for i, n in enumerate(x.dims)), x.axis, node)
    return RowTensor(tuple(x.dims[i] for i in kept), kept.index(x.axis), node)


def _group_axes(x: RowTensor, over: set[int]) -> tuple[Node, list[int]]:
    kept = [i for i in range(len(x.dims)) if i not in over]
    order = [*kept, *sorted(over)]
    moved: RowTensor = x.take(np.ascontiguousarray(x.places.transpose(order)), 0)
    return moved.node, kept


@operator("ArgMax", "ArgMin")
def read_arg_max(op: OnnxOperator) -> RowTensor:
    """Find the first of the largest (or least) entries along an axis."""
    op.one_of("select_last_index", 0, 0)
    x = op.rows()
    sign = x.node if op.kind == "ArgMax" else Map(x.node, "neg")
    return _reduce_to_places(op, x.of(sign))


def _reduce_to_places(op: OnnxOperator, x: RowTensor) -> RowTensor:
    axis = op.get("axis", 0)
    reduced = _reduce(op, x, [axis], lambda node, groups: Cast(find_largest(node, groups), "int64"))
    node = reduced.node
    # Positions are int64, whatever the dtype of the entries.
    if isinstance(node, Cast) and node.dtype != "int64":
        node = node.x
    return reduced.of(node)


@operator("TopK")
def read_top_k(op: OnnxOperator) -> tuple[RowTensor, RowTensor]:
    """Find the largest (or least) entries of each row and their positions, ties by position."""
    x = op.rows()
    axis = op.axis(op.get("axis", -1), len(x.dims))
    k = op.get("k") if op.get("k") is not None else int(op.constant(1).ravel()[0])
    if x.axis == axis or x.dims[axis] != x.width or not 0 < k <= x.width:
        raise op.refuse("k", k, "hbconv ranks the entries of a row.")
    if not _measures(x.node):
        message = f"TopK (node {op.name!r:.100}) ranks NaN, and onnxruntime tells no order of that."
        op.checks.append(Check(IsMissing(x.node), message, op.name))
    key = x.node if op.get("largest", 1) == 0 else Map(x.node, "neg")
    places = Nearest(key, int(k))
    dims = tuple(int(k) if i == axis else n for i, n in enumerate(x.dims))
    positions = RowTensor(dims, x.axis, Cast(places, "int64"))
    return positions.of(EntriesAt(x.node, places)), positions


def _measures(node: Node) -> bool:
    """Tell whether entries are distances to points, which are NaN only in rows that hold NaN."""
    while isinstance(node, Cast | Map):
        node = node.x
    return isinstance(node, Distances)


@operator("CumSum")
def read_cumulative_sum(op: OnnxOperator) -> RowTensor:
    """Add up along an axis."""
    op.one_of("exclusive", 0, 0)
    op.one_of("reverse", 0, 0)
    x = op.rows()
    axis = op.axis(int(op.constant(1).ravel()[0]), len(x.dims))
    if axis == x.axis:
        raise op.refuse("axis", axis, "A sum over the rows is no answer of each row.")
    places = np.ascontiguousarray(np.moveaxis(x.places, axis, 0))
    node = RunningSums(x.take(places, 0).node, max(x.dims[axis], 1))
    back = np.argsort(places.ravel()).astype(np.int32)
    restored: RowTensor = x.of(node).move(lambda numbers: back.reshape(numbers.shape))
    return restored


def _log_softmax(x: Node, groups: int) -> Node:
    """Subtract the logarithm of the sum: the logarithm of a softmax would be that of 0."""
    wide = Array(np.repeat(np.arange(groups, dtype=np.int32), x.type.width // groups))
    # The largest is taken off first, so that no exponential overflows.
    below = Add((x, Map(Select(_pool(x, groups, "max"), wide), "neg")))
    total = Map(GroupSums(Map(below, "exp"), groups), "log")
    return Add((below, Map(Select(total, wide), "neg")))


@operator("Softmax", "LogSoftmax")
def read_softmax(op: OnnxOperator) -> RowTensor:
    """Normalize exponentials along an axis; before opset 13, along all axes from it on."""
    x = op.rows()
    rank = len(x.dims)
    axis = op.axis(op.get("axis", -1 if op.opset >= 13 else 1), rank)
    over = set(range(axis, rank)) if op.opset < 13 else {axis}
    if x.axis in over:
        raise op.refuse("axis", axis, "A reduction of the rows is no answer of each row.")
    order = [*(i for i in range(rank) if i not in over), *sorted(over)]
    places = np.ascontiguousarray(x.places.transpose(order))
    groups = prod(n for i, n in enumerate(x.dims) if i not in over)
    taken = x.take(places, 0).node
    node = _log_softmax(taken, groups) if op.kind == "LogSoftmax" else Softmax(taken, groups=groups)
    back = np.argsort(places.ravel()).astype(np.int32)
    restored: RowTensor = x.of(node).move(lambda numbers: back.reshape(numbers.shape))
    return restored


ML = "ai.onnx.ml"


@operator("Scaler", domain=ML)
def read_scaler(op: OnnxOperator) -> RowTensor:
    """``(x - offset) * scale`` in float32."""
    x = op.matrix().cast("float32")
    steps = {
        name: op.numbers(attribute) for name, attribute in (("sub", "offset"), ("mul", "scale"))
    }
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
    return x.of(_divide_rows(x.node, NORMS[norm](x.node)))


def _without_nan(x: Node) -> Node:
    """Hide NaN, which onnxruntime passes over when it looks for the largest entry."""
    return Impute(x, Array(np.full(x.type.width, np.finfo(x.type.dtype).min, x.type.dtype)))


NORMS: dict[str, Callable[[Node], Node]] = {
    "MAX": lambda x: Pool(_without_nan(x), (tuple(range(x.type.width)),), "max"),
    "L1": lambda x: GroupSums(Map(x, "abs"), 1),
    "L2": lambda x: Map(GroupSums(Map(x, "square"), 1), "sqrt"),
}


def _divide_rows(x: Node, size: Node) -> Node:
    """Divide a row by its size, where that is not 0."""
    zero = Compare(size, "eq", Array(np.zeros(1, size.type.dtype)))
    ones = ConstantRows(size, Array(np.ones(1, size.type.dtype)))
    return Quotient((x, Choose(zero, ones, size)))


@operator("LpNormalization")
def read_lp_normalization(op: OnnxOperator) -> RowTensor:
    """Divide each row by its norm of order 1 or 2; a row of zeros stays."""
    x = op.matrix()
    if op.axis(op.get("axis", -1), 2) != 1:
        raise op.refuse("axis", op.get("axis", -1), "A reduction of the rows is no answer.")
    return x.of(_divide_rows(x.node, NORMS[f"L{op.one_of('p', 2, 1, 2)}"](x.node)))


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
    sums = Distances(x.node, Array(table.astype(x.dtype)), kind, power)
    node = Map(sums, "sqrt") if root else sums
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
        return (normalize_rows(op),)
    kind, root = _measure(op)
    points, rows = (0, 1) if isinstance(op.value(0), KnownTensor) else (1, 0)
    power = _power(op) if kind == "power" else 2.0
    distances = _distances(op, rows, points, kind, root=root, power=power)
    if rows == 1:
        return None, distances
    return None, distances.take(np.ascontiguousarray(distances.places.T), 1)


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

    attributes = {a.name: list(a.ints) or a.i for a in node.attribute}
    constants = {t.name: numpy_helper.to_array(t).ravel().tolist() for t in body.initializer}
    axes = constants.get(node.input[1]) if len(node.input) > 1 else attributes.get("axes")
    return axes == [1] and attributes.get("keepdims", 1) in (0, [])


BODIES = {
    ("Sub", "ReduceSumSquare"): ("square", False),
    ("Sub", "Abs", "ReduceSum"): ("absolute", False),
    ("Sub", "ReduceL1"): ("absolute", False),
    ("Sub", "Abs", "Pow", "ReduceSum"): ("power", False),
    ("Sub", "ReduceSumSquare", "Sqrt"): ("square", True),
    ("Sub", "ReduceL2"): ("square", True),
}
"""What bodies of loops compute: the kind of the terms, and whether the sum's root is taken."""
