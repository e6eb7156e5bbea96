"""Columns of Arrow: texts as they are, numbers as numpy has them.

No library of tables is imported here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError
from hbconv.runtime.inputs.dates import Zoned
from hbconv.runtime.text.categories import NULL, Categories, Null, Text

__all__ = ["PLAIN", "Data", "read_arrow"]

Data = npt.NDArray[Any] | Text | Categories | Zoned
PLAIN = frozenset(
    np.dtype(name)
    for name in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "float16",
        "float32",
        "float64",
    )
)
"""Dtypes of which every value is a number that programs take."""

ARROW_NUMBERS = {
    {"float16": "halffloat", "float32": "float", "float64": "double"}.get(
        str(dtype), str(dtype)
    ): dtype
    for dtype in PLAIN
    if dtype.kind in "iuf"
}
"""Dtypes of which Arrow holds the values as numpy does, by the name of its type."""


def read_arrow(column: Any, null: Null = NULL, name: str = "") -> Data:
    """Read an Arrow column.

    Parameters
    ----------
    column : pyarrow Array or ChunkedArray
    null : {"null", "none", "nan", "na"}
        What a null among texts stands for.
    name : str
        What messages call the column.

    Raises
    ------
    InputError
        It holds neither numbers nor texts nor dates.
    """
    import pyarrow as pa
    import pyarrow.types as types

    kind = column.type
    if _is_text(kind):
        return Text(_without_views(column), null)
    if types.is_dictionary(kind):
        return (
            _arrow_categories(column, null)
            if _is_text(kind.value_type)
            else read_arrow(column.cast(kind.value_type), null, name)
        )
    if types.is_null(kind):
        return np.full(len(column), None) if null == NULL else np.full(len(column), np.nan)
    if types.is_decimal(kind):
        return np.asarray(column.cast("float64"))
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise InputError(
            f"Column {name!r} has Arrow type {kind}, where the model needs numbers or text."
        )
    if types.is_timestamp(kind) and kind.tz is not None:
        return Zoned(np.asarray(column.cast(pa.timestamp(kind.unit)).to_numpy()), kind.tz)
    if not hasattr(column, "offset"):
        return np.asarray(column.to_numpy())
    plain = _as_they_lie(column)
    return np.asarray(column.to_numpy(zero_copy_only=False)) if plain is None else plain


def _as_they_lie(column: Any) -> npt.NDArray[Any] | None:
    """Return the numbers of an Arrow array without nulls in place; None for other arrays.

    ``to_numpy`` imports pandas first.
    """
    dtype = ARROW_NUMBERS.get(str(column.type))
    values = column.buffers()[1] if dtype is not None and not column.null_count else None
    if values is None:
        return None
    return np.frombuffer(values, dtype, column.offset + len(column))[column.offset :]


def _arrow_categories(column: Any, null: Null) -> Categories:
    import pyarrow as pa

    array = (
        column.unify_dictionaries().combine_chunks()
        if isinstance(column, pa.ChunkedArray)
        else column
    )
    indices = (
        array.indices.cast("int64").fill_null(-1) if array.indices.null_count else array.indices
    )
    return Categories(np.asarray(indices), Text(_without_views(array.dictionary), null))


def _without_views(texts: Any) -> Any:
    """Return texts in the type for which Arrow has all functions; polars hands out views."""
    import pyarrow as pa

    return texts.cast(pa.large_string()) if pa.types.is_string_view(texts.type) else texts


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
