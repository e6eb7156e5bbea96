"""Nulls: a missing value of records, JSON, Arrow and polars is what the model was fitted on.

These have one word for it, and pandas has three: None, NaN and NA. Columns of pandas and numpy are
read as they lie, and all others come through here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Missing
from hbconv.runtime.inputs.arrow_columns import Data
from hbconv.runtime.inputs.dates import Zoned
from hbconv.runtime.text.categories import NULL, Categories, Text

__all__ = ["filled"]

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
