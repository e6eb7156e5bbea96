"""Operators that move entries: numpy moves the numbers of the columns in their place.

Tables and entries are also read at positions that are computed from each row.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    ArgMax,
    Cast,
    Check,
    Choose,
    Clip,
    Compare,
    Concat,
    ConstantRows,
    EntriesAt,
    IsOutside,
    LookupRows,
    Nearest,
    Node,
    Select,
)
from hbconv.parse.onnx.operator import OnnxOperator, operator, over_flat
from hbconv.parse.onnx.values import (
    MOST_ENTRIES,
    ROWS,
    FlatTensor,
    KnownTensor,
    LabelTensor,
    RowTensor,
    TextTensor,
    TokenTensor,
    Value,
    holds_rows,
)

__all__ = ["join_entries"]


def _tensor(op: OnnxOperator, place: int = 0) -> Any:
    value = op.value(place)
    return value if isinstance(value, LabelTensor | TextTensor) else op.rows(place)


@operator("Identity", "Dropout")
def read_identity(op: OnnxOperator) -> Value:
    """Return the input."""
    return op.value()


@operator("Shape")
def read_shape(op: OnnxOperator) -> KnownTensor:
    """Return the shape, in which ``ROWS`` stands for the number of rows."""
    shape = _tensor(op).shape
    return KnownTensor(shape[slice(op.get("start", 0), op.get("end"))])


@operator("Transpose")
def read_transpose(op: OnnxOperator) -> Any:
    """Permute the axes."""
    x = _tensor(op)
    rank = len(x.dims)
    order = [op.axis(i, rank) for i in op.get("perm", range(rank)[::-1])]
    if sorted(order) != list(range(rank)):
        raise op.damaged(f"has no permutation of {rank} axes")
    return x.take(np.ascontiguousarray(x.places.transpose(order)), order.index(x.axis))


@operator("Reshape")
def read_reshape(op: OnnxOperator) -> Any:
    """Give the entries another shape, in which the rows still have an axis of their own."""
    value = op.value()
    x = value.values if isinstance(value, FlatTensor) else _tensor(op)
    asked = [int(size) for size in op.constant(1).ravel()]
    return reshape(op, x, asked, copies=not op.get("allowzero", 0))


@operator("Flatten")
def read_flatten(op: OnnxOperator) -> Any:
    """Make a matrix of the axes before and after one; 0 puts all rows behind one another."""
    if isinstance(op.value(), TokenTensor) and op.get("axis", 1) == 1:
        return op.value()
    if isinstance(op.value(), FlatTensor):
        return op.value()
    x = _tensor(op)
    axis = op.get("axis", 1)
    if axis == 0 and isinstance(x, RowTensor | LabelTensor):
        return FlatTensor(x)
    axis = axis + len(x.dims) if axis < 0 else axis
    if not x.axis < axis <= len(x.dims):
        raise op.refuse("axis", axis, "The rows must stand first.")
    return reshape(op, x, [ROWS, prod(x.dims[axis:])], copies=False)


def reshape(op: OnnxOperator, x: Any, asked: list[int], *, copies: bool) -> Any:
    """Find the axis of the rows in a new shape: what stands before and behind must be the same."""
    sizes = [int(x.shape[i]) if copies and size == 0 and i < len(x.dims) else size
             for i, size in enumerate(asked)]  # fmt: skip
    for axis in range(len(sizes)):
        dims = _fill_shape(sizes, axis, x.width)
        if dims is None:
            continue
        before = prod(dims[:axis])
        if before == prod(x.dims[: x.axis]) and prod(dims) == x.width:
            return x.take(x.places.reshape(dims), axis)
    shown = ["N" if abs(size) >= ROWS >> 1 else size for size in sizes]
    raise op.refuse("shape", shown, "The rows must keep an axis of their own.")


def _fill_shape(sizes: list[int], axis: int, width: int) -> list[int] | None:
    """Return the shape with rows at an axis, 1 there; None where they cannot be there."""
    # Sizes computed from the number of rows stay above half of it; no size of a file is so large.
    has_rows = [abs(size) >= ROWS >> 1 for size in sizes]
    if any(has_rows) and (has_rows.index(True) != axis or sizes[axis] != ROWS):
        return None
    if not any(has_rows) and sizes[axis] != -1:
        return None
    rest = [*sizes[:axis], 1, *sizes[axis + 1 :]]
    if -1 in rest:
        others = prod(size for size in rest if size != -1)
        rest[rest.index(-1)] = width // others if others else 0
    return None if min(rest) < 0 else rest


@operator("Squeeze")
def read_squeeze(op: OnnxOperator) -> Any:
    """Drop axes of size 1."""
    x = _tensor(op)
    rank = len(x.dims)
    axes = op.ints("axes", 1)
    if axes is None:
        axes = [i for i, size in enumerate(x.dims) if size == 1 and i != x.axis]
    dropped = {op.axis(i, rank) for i in axes}
    if x.axis in dropped or any(x.dims[i] != 1 for i in dropped):
        raise op.refuse("axes", sorted(dropped), "They must have size 1, and not be the rows.")
    kept = [i for i in range(rank) if i not in dropped]
    return x.take(x.places.reshape([x.dims[i] for i in kept]), kept.index(x.axis))


@operator("Unsqueeze")
def read_unsqueeze(op: OnnxOperator) -> Any:
    """Insert axes of size 1."""
    x = _tensor(op)
    axes = op.ints("axes", 1) or []
    rank = len(x.dims) + len(axes)
    added = {op.axis(i, rank) for i in axes}
    old = [i for i in range(rank) if i not in added]
    dims = [1] * rank
    for i, size in zip(old, x.dims, strict=True):
        dims[i] = size
    return x.take(x.places.reshape(dims), old[x.axis])


@operator("Concat")
def read_concat(op: OnnxOperator) -> Any:
    """Put tensors side by side along an axis that is not that of the rows."""
    values = [op.value(i) for i in range(len(op.inputs))]
    if all(isinstance(v, TextTensor) for v in values):
        return join_texts(op, values)
    if any(isinstance(v, TextTensor) for v in values):
        raise op.refuse("inputs", "texts and numbers", "Encode the texts before.")
    labels = [v for v in values if isinstance(v, LabelTensor)]
    if len(labels) == len(values):
        return join_labels(op, labels)
    tensors = [op.rows(i) for i in range(len(op.inputs))]
    if _stacks(op, tensors):
        return _stack(tensors)
    places, axis = _side_by_side(op, tensors)
    return join_entries(tensors).take(places, axis)


def _stacks(op: OnnxOperator, tensors: list[RowTensor]) -> bool:
    """Tell whether tensors of one shape are put behind one another along the rows."""
    first = tensors[0]
    alike = all((x.dims, x.axis) == (first.dims, 0) for x in tensors)
    return alike and len(tensors) > 1 and op.axis(op.get("axis", 0), len(first.dims)) == 0


def _stack(tensors: list[RowTensor]) -> FlatTensor:
    rest = tensors[0].dims[1:]
    node = join_entries(tensors).node
    return FlatTensor(RowTensor((len(tensors), 1, *rest), 1, node))


def join_entries(tensors: list[RowTensor]) -> RowTensor:
    """Return the entries of all tensors as one vector of each row."""
    node = tensors[0].node if len(tensors) == 1 else Concat(tuple(x.node for x in tensors))
    return RowTensor((1, node.type.width), 0, node)


def join_texts(op: OnnxOperator, values: list[Any]) -> TextTensor:
    """Put columns of texts side by side."""
    places, axis = _side_by_side(op, values)
    columns = tuple(column for value in values for column in value.columns)
    edits = tuple(tuple(each.items()) for value in values for each in value.edits_of)
    folded = values[0].folded
    if any(value.folded != folded for value in values):
        raise op.refuse("inputs", "texts of two cases", "Normalize all of them.")
    joined = TextTensor((1, len(columns)), 0, columns, edits if any(edits) else (), folded)
    moved: TextTensor = joined.take(places, axis)
    return moved


def join_labels(op: OnnxOperator, values: list[LabelTensor]) -> LabelTensor:
    """Put entries of tables side by side: they become entries of one table."""
    places, axis = _side_by_side(op, values)
    table, codes = np.unique(
        np.concatenate([value.table.data for value in values]), return_inverse=True
    )
    ends = np.cumsum([len(value.table) for value in values])
    parts = np.split(codes.astype(np.int32), ends[:-1])
    nodes = tuple(value.recode(part) for value, part in zip(values, parts, strict=True))
    node = nodes[0] if len(nodes) == 1 else Concat(nodes)
    moved: LabelTensor = LabelTensor((1, node.type.width), 0, node, Array(table)).take(places, axis)
    return moved


def _side_by_side(op: OnnxOperator, values: list[Any]) -> tuple[npt.NDArray[np.int32], int]:
    rank = len(values[0].dims)
    along = op.axis(op.get("axis", 0), rank)
    rows_axis = next((v.axis for v in values if not _is_repeated(v)), values[0].axis)
    firsts = np.cumsum([0, *(v.width for v in values)])
    parts = [
        v.places + first if v.axis == rows_axis else None
        for v, first in zip(values, firsts, strict=False)
    ]
    if along == rows_axis or any(part is None or part.ndim != rank for part in parts):
        raise op.refuse("axis", along, "Rows cannot be added: answers are computed row by row.")
    places = np.concatenate([p for p in parts if p is not None], axis=along)
    return places.astype(np.int32), rows_axis


def _is_repeated(value: Any) -> bool:
    return isinstance(value, RowTensor) and isinstance(value.node, ConstantRows)


@operator("Slice")
def read_slice(op: OnnxOperator) -> Any:
    """Cut axes that are not that of the rows."""
    x = _tensor(op)
    starts, ends = (op.ints(name, i) or [] for i, name in ((1, "starts"), (2, "ends")))
    axes = op.ints("axes", 3) or list(range(len(starts)))
    steps = op.ints("steps", 4) or [1] * len(starts)
    cuts = [slice(None)] * len(x.dims)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = op.axis(axis, len(x.dims))
        start = max(start, -x.dims[axis])  # onnxruntime starts at the first entry at least
        cut = slice(start, None if step < 0 and end <= -x.dims[axis] - 1 else end, step)
        # Exporters write "to the end" as a huge number.
        if axis == x.axis and not (start == 0 and step == 1 and end > 1 << 30):
            raise op.refuse("axes", axis, "Rows cannot be left out.")
        cuts[axis] = slice(None) if axis == x.axis else cut
    return x.move(lambda places: places[tuple(cuts)])


@operator("Split")
def read_split(op: OnnxOperator) -> tuple[Any, ...]:
    """Cut an axis that is not that of the rows into parts."""
    x = _tensor(op)
    axis = op.axis(op.get("axis", 0), len(x.dims))
    if axis == x.axis:
        raise op.refuse("axis", axis, "Rows cannot be left out.")
    size = x.dims[axis]
    # Rounded up: the last part may be smaller, as in onnxruntime.
    each = -(-size // op.outputs)
    sizes = op.ints("split", 1) or [min(each, size - i * each) for i in range(op.outputs)]
    if sum(sizes) != size or min(sizes) < 0:
        raise op.damaged(f"cuts {size} entries into {sizes}")
    ends = np.cumsum(sizes)[:-1].tolist()
    return tuple(
        x.move(lambda places, i=i: np.split(places, ends, axis)[i]) for i in range(len(sizes))
    )


@operator("Tile")
def read_tile(op: OnnxOperator) -> Any:
    """Repeat axes that are not that of the rows."""
    x = _tensor(op)
    times = [int(i) for i in op.constant(1).ravel()]
    if len(times) != len(x.dims) or times[x.axis] != 1 or not 0 <= prod(times) < MOST_ENTRIES:
        raise op.refuse("repeats", times, "Rows cannot be repeated.")
    return x.move(lambda places: np.tile(places, times))


@operator("Expand")
def read_expand(op: OnnxOperator) -> Any:
    """Broadcast to a shape."""
    x = _tensor(op)
    asked = [int(i) for i in op.constant(1).ravel()]
    rank = max(len(asked), len(x.dims))
    asked = [1] * (rank - len(asked)) + asked
    axis = x.axis + rank - len(x.dims)
    sizes = [1 if i == axis else size for i, size in enumerate(asked)]
    if asked[axis] not in (1, ROWS) or holds_rows(np.array(sizes)) or prod(sizes) > MOST_ENTRIES:
        raise op.refuse("shape", asked, "Rows cannot be repeated.")
    dims = np.broadcast_shapes(tuple([1] * (rank - len(x.dims)) + list(x.dims)), tuple(sizes))
    return x.take(np.ascontiguousarray(np.broadcast_to(x.places, dims)), axis)


@operator("ConstantOfShape")
def read_constant_of_shape(op: OnnxOperator) -> RowTensor:
    """Repeat a number for each row; shapes without rows are computed with the constants."""
    shape = op.constant(0).ravel().tolist()
    value = np.asarray(op.get("value", np.zeros(1, np.float32))).ravel()
    if shape.count(ROWS) != 1:
        raise op.refuse("shape", shape, "It must hold the number of rows once.")
    axis = shape.index(ROWS)
    dims = tuple(1 if size == ROWS else int(size) for size in shape)
    if not 0 <= prod(dims) <= MOST_ENTRIES or min(dims) < 0:
        raise op.damaged(f"makes {dims} entries of each row")
    return RowTensor(dims, axis, ConstantRows(op.row, Array(np.repeat(value, prod(dims)))))


@operator("Gather")
def read_gather(op: OnnxOperator) -> Any:
    """Take entries by constant positions, or entries of a constant by computed positions."""
    table = op.value(0)
    if isinstance(table, KnownTensor):
        return _gather(op, table.data)
    x = _tensor(op)
    rank = len(x.dims)
    axis = op.axis(op.get("axis", 0), rank)
    places = op.constant(1).astype(np.int64)
    if axis == x.axis or np.any((places < -x.dims[axis]) | (places >= x.dims[axis])):
        raise op.refuse("indices", places.ravel().tolist()[:4], "Rows cannot be chosen.")
    moved = np.take(x.places, places, axis)
    return x.take(np.ascontiguousarray(moved), x.axis + (places.ndim - 1) * (axis < x.axis))


def _gather(op: OnnxOperator, table: npt.NDArray[Any]) -> Any:
    """Look a constant up, at the positions of rows behind one another too if it is a vector."""
    if isinstance(op.value(1), FlatTensor) and table.ndim == 1:
        flat = replace(op, inputs=op.inputs[1:])
        return over_flat(flat, lambda inner: look_up(inner, table, inner.rows()))
    return look_up(op, table, op.rows(1))


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def read_extractor(op: OnnxOperator) -> Any:
    """Take columns by constant positions, or entries of a constant by computed positions."""
    table = op.value(0)
    if isinstance(table, KnownTensor):
        return extract_entries(op, table.data)
    x = _tensor(op)
    if not isinstance(op.value(1), KnownTensor):
        hint = "Each row is read at the positions of all rows. Use GatherElements for its own."
        raise op.refuse("Y", "computed from the rows", hint)
    places = op.constant(1).astype(np.int64).ravel()
    last = x.dims[-1]
    if x.axis == len(x.dims) - 1 or np.any((places < 0) | (places >= last)):
        raise op.refuse("Y", places.tolist()[:4], f"The last axis has {last} entries.")
    return x.move(lambda numbers: numbers[..., places])


def extract_entries(
    op: OnnxOperator, table: npt.NDArray[Any]
) -> RowTensor | LabelTensor | FlatTensor:
    """Return the entries of a constant's last axis at all positions, one after another."""
    lead = table.shape[:-1]
    positions = op.rows(1)
    if positions.axis != 0:
        raise op.refuse("Y", list(positions.dims), "The rows must stand first.")
    if prod(lead) == 1:
        codes = require_within(op, positions, table.size)
        entries: Any = LabelTensor(positions.dims, 0, codes, Array(table.ravel()))
    elif table.dtype.kind in "ifb":
        rows = table.reshape(prod(lead), -1).T
        node = LookupRows(require_within(op, positions, len(rows)), Array(rows))
        entries = RowTensor((1, positions.width, prod(lead)), 0, node)
        entries = entries.take(np.ascontiguousarray(entries.places.transpose(2, 0, 1)), 1)
    else:
        raise op.refuse("X", list(table.shape), "A constant of texts must be one row.")
    dims = (*(lead or (1,)), 1, positions.width)
    entries = replace(entries, dims=dims, axis=len(dims) - 2)
    if positions.width == 1:
        entries = entries.take(entries.places.reshape(dims[:-1]), len(dims) - 2)
        single: RowTensor | LabelTensor = entries
        return single
    return FlatTensor(entries)


def look_up(op: OnnxOperator, table: npt.NDArray[Any], positions: RowTensor) -> Any:
    """Return entries of a constant at positions computed of each row."""
    axis = op.axis(op.get("axis", 0), max(table.ndim, 1))
    codes = require_within(op, positions, len(table), -len(table))
    if table.ndim == 1:
        return LabelTensor(positions.dims, positions.axis, codes, Array(table))
    if axis != 0 or table.dtype.kind not in "ifb":
        raise op.refuse("axis", axis, "A table is read row by row.")
    flat = table.reshape(len(table), -1)
    dims = (*positions.dims, *table.shape[1:])
    return RowTensor(dims, positions.axis, LookupRows(codes, Array(flat)))


@operator("FeatureVectorizer", domain="ai.onnx.ml")
def read_vectorizer(op: OnnxOperator) -> RowTensor:
    """Put matrices side by side as floats; each is cut, or filled with zeros, to its size."""
    tensors = [op.matrix(i) for i in range(len(op.inputs))]
    sizes = op.get("inputdimensions", [x.width for x in tensors])
    if len(sizes) != len(tensors) or any(n < x.width for n, x in zip(sizes, tensors, strict=False)):
        raise op.refuse("inputdimensions", list(sizes), "They must be those of the inputs.")
    padded = []
    for size, x in zip(sizes, tensors, strict=True):
        padded.append(x.cast("float32"))
        if size > x.width:
            # The number of zeros comes from the file, so it is bounded before memory is asked for.
            padded.append(op.repeat(np.zeros(min(size - x.width, MOST_ENTRIES), np.float32)))
    return join_entries(padded)


@operator("GatherElements")
def read_gather_elements(op: OnnxOperator) -> RowTensor:
    """Take entries of each row at its own positions."""
    x, positions = op.matrix(0), op.matrix(1)
    if op.axis(op.get("axis", 0), 2) != 1:
        raise op.refuse("axis", op.get("axis", 0), "Rows cannot be chosen.")
    return positions.of(EntriesAt(x.node, require_within(op, positions, x.width, -x.width)))


def require_within(op: OnnxOperator, positions: RowTensor, size: int, least: int = 0) -> Node:
    """Return int32 positions below a size; those below 0, from ``least`` on, count from the end.

    Rows with others are refused, as onnxruntime refuses them, and nothing outside is read.
    """
    if _is_within(positions.node, size):
        return positions.cast("int32").node
    if size < 1:
        raise op.damaged("reads from a constant without entries")
    message = f"{op.kind} (node {op.name!r:.100}) reads position {least} to {size - 1}, not beyond."
    op.checks.append(Check(IsOutside.of(positions.node, least, size - 1), message, op.name))
    # Clipped all the same: a compiled program reads the table before the check answers.
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
