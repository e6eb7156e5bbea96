"""Iterables of texts, mappings or sequences, one a row, as a table of one column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hbconv.errors import InputError, shown
from hbconv.runtime.inputs.dataframes import Frame, read_sequence

__all__ = ["read_items"]


def read_items(x: Any) -> Frame:
    """Return the items of any iterable as a Frame of one column without a name.

    A mapping is one item.

    Raises
    ------
    InputError
        A single text, a table (its items are its names), or what cannot be iterated.

    Examples
    --------
    >>> read_items([{"a": 1}, {"b": 2}]).read(0).tolist()
    [{'a': 1}, {'b': 2}]
    """
    if isinstance(x, str | bytes):
        raise InputError(
            "Iterable over raw text documents expected, string object received. Give a list of one "
            "text."
        )
    if isinstance(x, Mapping):
        return read_items([x])
    if hasattr(x, "columns") or hasattr(x, "column_names"):
        raise InputError(
            f"Expected texts, mappings or sequences, got a {type(x).__name__}, whose items are its "
            "names. Give one of its columns."
        )
    frame = read_sequence(x) if _is_column(x) else None
    if frame is not None:
        return frame
    try:
        rows = list(x)
    except TypeError as error:
        raise InputError(
            f"Expected an iterable of texts, mappings or sequences, got {shown(x)} of type "
            f"{type(x).__name__}."
        ) from error
    column = np.fromiter(rows, object, len(rows))
    return Frame((0,), len(column), lambda _: column, none_is_value=True)


def _is_column(x: Any) -> bool:
    """Whether it is a column of any table library, or an array of one dimension."""
    if isinstance(x, np.ndarray):
        return x.ndim == 1 and x.dtype.names is None
    return hasattr(x, "iloc") or type(x).__module__.partition(".")[0] in ("pyarrow", "polars")
