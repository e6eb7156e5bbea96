"""Answers of ``inverse_transform`` that are no numbers: categories, and the names of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import NameArrays, NamedValues, NameTuples
from hbconv.runtime.outputs.tensors import on_host

__all__ = ["look_up_categories", "name_rows"]


def look_up_categories(tables: tuple[Array, ...], codes: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
    """Return the category of each code, and None, in an array of objects, for codes beyond.

    Examples
    --------
    >>> tables = Array(["a", "b"]), Array(["x", "y"])
    >>> look_up_categories(tables, np.array([[0, 1]], np.int32)).tolist()
    [['a', 'y']]
    >>> look_up_categories(tables, np.array([[0, 2]], np.int32)).tolist()
    [['a', None]]
    """
    sizes = np.array([len(table) for table in tables])
    known = codes < sizes
    columns = [table.data[np.where(known[:, j], codes[:, j], 0)] for j, table in enumerate(tables)]
    values = np.stack(columns, axis=1)
    if known.all():
        return values
    found = values.astype(object)
    found[~known] = None
    return found


def name_rows(form: NameArrays | NameTuples | NamedValues, values: Any) -> npt.NDArray[np.object_]:
    """Return an item for each row, made of the names of its columns that are not 0.

    They stand in an array of shape (n_rows,), so that parts can be joined.

    Examples
    --------
    >>> name_rows(NamedValues(("a", "b")), np.array([[0.0, 2.0]])).tolist()
    [{'b': np.float64(2.0)}]
    """
    items = np.empty(values.shape[0], dtype=object)
    for row in range(len(items)):
        items[row] = _item(form, *_nonzeros(values, row))
    return items


def _item(
    form: NameArrays | NameTuples | NamedValues, columns: npt.NDArray[Any], held: npt.NDArray[Any]
) -> Any:
    if isinstance(form, NamedValues):
        return dict(zip((form.names[j] for j in columns), held, strict=True))
    if isinstance(form, NameArrays):
        return np.array([form.names[j] for j in columns.tolist()], form.dtype)
    return tuple(form.names.data[columns])


def _nonzeros(values: Any, row: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[Any]]:
    """Return the columns of a row that are not 0, in order, and their values."""
    if not hasattr(values, "tocsr"):
        held = on_host(values[row])
        columns = np.flatnonzero(held)
        return columns, held[columns]
    part = slice(values.indptr[row], values.indptr[row + 1])
    order = np.argsort(values.indices[part], kind="stable")
    columns, held = values.indices[part][order], values.data[part][order]
    return columns[held != 0], held[held != 0]
