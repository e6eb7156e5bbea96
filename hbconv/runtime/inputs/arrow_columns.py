"""Columns of Arrow: texts as they are, numbers as numpy has them.

No library of tables is imported here.

Nulls: a missing value of records, JSON, Arrow and polars is what the model was fitted on.

These have one word for it, and pandas has three: None, NaN and NA. Columns of pandas and numpy are
read as they lie, and all others come through here.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Missing
from hbconv.errors import InputError
from hbconv.runtime.inputs.dates import Zoned
from hbconv.runtime.text.categories import NULL, Categories, Null, Text, addresses

__all__ = [
    "ARROW_NUMBERS",
    "PLAIN",
    "Data",
    "arrow_categories",
    "arrow_numbers",
    "fill_nulls",
    "find_na",
    "read_arrow",
]

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
            arrow_categories(column, null)
            if _is_text(kind.value_type)
            else read_arrow(column.cast(kind.value_type), null, name)
        )
    if types.is_null(kind):
        return np.full(len(column), None) if null == NULL else np.full(len(column), np.nan)
    # No program computes with decimals.
    if types.is_decimal(kind):
        return np.asarray(column.cast("float64"))
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise InputError(
            f"Column {name!r} has Arrow type {kind}, where the model needs numbers or text."
        )
    if types.is_timestamp(kind) and kind.tz is not None:
        return Zoned(np.asarray(column.cast(pa.timestamp(kind.unit)).to_numpy()), kind.tz)
    return arrow_numbers(column)


def arrow_numbers(column: Any) -> npt.NDArray[Any]:
    """Return the numbers of an Arrow column, and its nulls as NaN."""
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
    # A slice of Arrow keeps the buffer of the whole column.
    return np.frombuffer(values, dtype, column.offset + len(column))[column.offset :]


def arrow_categories(column: Any, null: Null = NULL) -> Categories:
    """Return a column of a dictionary of texts: its codes, and the texts."""
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


NUMBERS = (int, float, np.integer, np.floating)
"""Types of which pandas makes a column of numbers."""


class NAType:
    """The missing value of ``pandas.NA``, which is known by the name of its type."""


MISSING: dict[Missing, object] = {"none": None, "nan": np.nan, "na": NAType()}


def fill_nulls(column: Data, missing: Missing) -> Data:
    """Return a column whose nulls are the missing value that the model knows.

    Parameters
    ----------
    column : Data
    missing : {"none", "nan", "na"}

    Examples
    --------
    >>> fill_nulls(np.array(["a", None], object), "nan").tolist()
    ['a', nan]
    >>> fill_nulls(np.array([1, None], object), "nan").dtype
    dtype('float64')
    """
    if isinstance(column, Categories):
        return replace(column, values=_settle_null(column.values, missing))
    if isinstance(column, Text):
        return _settle_null(column, missing)
    # Columns of numbers hold NaN for what is missing already.
    if isinstance(column, Zoned) or column.dtype.kind != "O":
        return column
    values = column.tolist()
    kinds = set(map(type, values))
    if datetime in kinds:
        return _dates(column, values)
    nulls = {kind for kind in kinds if kind is NoneType or kind.__name__ == "NAType"}
    if not nulls:
        return column
    # The user's column must stay as it is.
    objects = column.copy()
    objects[[type(value) in nulls for value in values]] = MISSING[missing]
    return (
        objects.astype(np.float64) if missing == "nan" and _are_numbers(kinds - nulls) else objects
    )


def find_na(column: Data) -> int | None:
    """Return the first row in which a column as it was given holds ``pandas.NA``.

    There is one such object, so its address tells it: one compare for each row.

    Examples
    --------
    >>> import pandas as pd
    >>> find_na(np.array(["a", None, pd.NA], object)), find_na(np.array(["a", None], object))
    (2, None)
    """
    is_na = _are_na(column)
    return int(is_na.argmax()) if is_na.any() else None


def _are_na(column: Data) -> npt.NDArray[np.bool_]:
    if isinstance(column, Categories):
        return (column.codes < 0) & (column.values.null == "na")
    values = column.values if isinstance(column, Text | Zoned) else column
    if isinstance(column, Text) and not isinstance(values, np.ndarray):
        return np.array(values.is_null(), bool) if column.null == "na" else np.zeros(0, bool)
    if values.dtype.kind != "O" or "pandas" not in sys.modules:
        return np.zeros(0, bool)
    # ``pandas.NA`` is a singleton, and a comparison with it gives NA again.
    return np.isin(addresses(values), id(sys.modules["pandas"].NA))


def _settle_null(text: Text, missing: Missing) -> Text:
    return replace(text, null=missing) if text.null == NULL else text


def _dates(column: npt.NDArray[np.object_], values: list[Any]) -> npt.NDArray[Any]:
    """Return dates of no time zone, and what is missing among them, as pandas infers them."""
    dates = [None if _is_missing(value) else value for value in values]
    are_local = all(v is None or (type(v) is datetime and v.tzinfo is None) for v in dates)
    return np.array(dates, "datetime64[us]") if are_local else column


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or value != value


def _are_numbers(kinds: set[type]) -> bool:
    """Whether pandas makes a column of numbers of such values, and not of bools or objects."""
    return all(issubclass(kind, NUMBERS) and kind is not bool for kind in kinds)
