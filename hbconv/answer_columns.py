"""Name the columns of a model's answers, and give them as Arrow arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hbconv.array import Array

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = ["arrow_columns", "column_names"]


def arrow_columns(model: Model, method: str, rows: Any, n_rows: int) -> list[Any]:
    """Answer rows with an Arrow array for each column, in the order of ``column_names``.

    Labels have the type of all classes, whichever of them the rows have.
    """
    found = getattr(model, method)(rows)
    columns = _columns(found, n_rows) if n_rows else _no_rows(model, method, found)
    labels = _labels(model, method)
    if len(labels) != len(columns):
        labels = [None] * len(columns)
    return [_arrow(column, known) for column, known in zip(columns, labels, strict=True)]


def column_names(model: Model, method: str) -> list[str]:
    """Name the columns of the answers after classes, features or their places.

    Columns of several targets have the name of the target first.
    """
    output = model.parsed.outputs[method]
    if method == "transform":
        return [str(name) for name in model.get_feature_names_out()]
    if output.is_vector:
        return [method]
    widths = output.widths or (output.node.type.width,)
    classes = getattr(model, "classes_", None)
    if len(widths) > 1:
        return [
            f"{method}_{target}_{c}"
            for target, labels in enumerate(classes or map(range, widths))
            for c in labels
        ]
    own = (
        classes
        if classes is not None and not isinstance(classes, list) and len(classes) == widths[0]
        else range(widths[0])
    )
    return [f"{method}_{c}" for c in own]


def _labels(model: Model, method: str) -> list[Any]:
    """Return the classes of each column of labels."""
    classes = model.parsed.outputs[method].classes
    if classes is None:
        return []
    return [table.data for table in ([classes] if isinstance(classes, Array) else classes)]


def _arrow(column: Any, labels: Any) -> Any:
    """Return a column as Arrow holds it; objects become text if they are all text.

    Numbers are handed over as they lie: pyarrow.array would import pandas first.
    """
    import pyarrow as pa

    if column.dtype.kind in "iuf" and column.dtype.isnative:
        values = np.ascontiguousarray(column)
        kind = pa.from_numpy_dtype(values.dtype)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    if column.dtype != object:
        return pa.array(column)
    values = column.tolist()
    if labels is not None:
        return pa.array(values, pa.array(labels.tolist()).type)
    return pa.array(values, pa.string() if all(isinstance(one, str) for one in values) else None)


def _no_rows(model: Model, method: str, values: Any) -> list[Any]:
    """Return the columns of an answer to no rows, in the types that rows have."""
    output = model.parsed.outputs[method]
    block = values[0] if isinstance(values, list) else values
    dtype = block.dtype if hasattr(block, "dtype") else np.asarray(block).dtype
    if output.of_no_rows is not None:
        labels = _labels(model, method)
        dtype = labels[0].dtype if labels else np.dtype(output.dtype or output.node.type.dtype)
    return [np.empty(0, dtype) for _ in column_names(model, method)]


def _columns(values: Any, rows: int) -> list[Any]:
    """Return the columns of an answer; those of a list or a cube one block after another.

    One dimension is a column, or all columns of a single row.
    """
    if isinstance(values, list):
        return [column for block in values for column in _columns(block, rows)]
    values = np.asarray(values.todense() if hasattr(values, "todense") else values)
    if values.ndim == 1 and rows != 1:
        return [values]
    width = math.prod(values.shape[1:]) if values.ndim > 1 else values.size
    return list(values.reshape(rows, width).T)
