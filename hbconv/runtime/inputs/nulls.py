"""Nulls: a missing value of records, JSON, Arrow and polars is what the model was fitted on.

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
from hbconv.runtime.inputs.arrow_columns import Data
from hbconv.runtime.inputs.dates import Zoned
from hbconv.runtime.text.categories import NULL, Categories, Text, addresses

__all__ = ["filled", "find_na"]

NUMBERS = (int, float, np.integer, np.floating)
"""Types of which pandas makes a column of numbers."""


class NAType:
    """The missing value of ``pandas.NA``, which is known by the name of its type."""


MISSING: dict[Missing, object] = {"none": None, "nan": np.nan, "na": NAType()}


def filled(column: Data, missing: Missing) -> Data:
    """Return a column whose nulls are the missing value that the model knows.

    Parameters
    ----------
    column : Data
    missing : {"none", "nan", "na"}

    Examples
    --------
    >>> filled(np.array(["a", None], object), "nan").tolist()
    ['a', nan]
    >>> filled(np.array([1, None], object), "nan").dtype
    dtype('float64')
    """
    if isinstance(column, Categories):
        return replace(column, values=_settled(column.values, missing))
    if isinstance(column, Text):
        return _settled(column, missing)
    if isinstance(column, Zoned) or column.dtype.kind != "O":
        return column
    values = column.tolist()
    kinds = set(map(type, values))
    if datetime in kinds:
        return _dates(column, values)
    nulls = {kind for kind in kinds if kind is NoneType or kind.__name__ == "NAType"}
    if not nulls:
        return column
    found = column.copy()
    found[[type(value) in nulls for value in values]] = MISSING[missing]
    return found.astype(np.float64) if missing == "nan" and _are_numbers(kinds - nulls) else found


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
    return np.isin(addresses(values), id(sys.modules["pandas"].NA))


def _settled(text: Text, missing: Missing) -> Text:
    return replace(text, null=missing) if text.null == NULL else text


def _dates(column: npt.NDArray[np.object_], values: list[Any]) -> npt.NDArray[Any]:
    """Return dates of no time zone, and what is missing among them, as pandas infers them."""
    known = [None if _is_missing(value) else value for value in values]
    are_local = all(v is None or (type(v) is datetime and v.tzinfo is None) for v in known)
    return np.array(known, "datetime64[us]") if are_local else column


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or value != value


def _are_numbers(kinds: set[type]) -> bool:
    """Whether pandas makes a column of numbers of such values, and not of bools or objects."""
    return all(issubclass(kind, NUMBERS) and kind is not bool for kind in kinds)
