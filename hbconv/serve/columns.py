"""Columns: values that came, as the dtypes that the model is compiled for.

A value is taken where it converts exactly, so that no request makes the model compile. Another one
is refused: the source model might answer it otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.errors import InputError

__all__ = ["as_declared"]

_EXACT_INTS = {"float32": 1 << 24, "float64": MOST_EXACT_INT}
"""Up to here a float holds all ints."""
_INT64 = np.iinfo(np.int64)


def as_declared(where: str, values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Convert values to the dtype of a column.

    Parameters
    ----------
    where : str
        What the message of an error calls the values.
    values : array
    dtype : {"float32", "float64", "int64", "string"}

    Raises
    ------
    InputError
        A value does not convert exactly, or text stands where numbers are read.

    Examples
    --------
    >>> as_declared("column 'a'", np.array([1, 2], np.int32), "float64")
    array([1., 2.])
    """
    if dtype == "string":
        return values if values.dtype == object else values.astype(object)
    if values.dtype.kind == "O":
        raise InputError(f"{where} holds text, where the model reads {dtype}.")
    if values.dtype == dtype:
        return values
    if values.dtype.kind == "b":
        return values.astype(dtype)
    if values.dtype.kind == "f":
        return _floats(where, values, np.dtype(dtype))
    return _ints(where, values, np.dtype(dtype))


def _floats(where: str, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(dtype)
    same = converted == values
    if dtype.kind == "f":
        same |= np.isnan(values)
    _require_all(same, where, values, dtype)
    return converted


def _ints(where: str, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    limit = _EXACT_INTS.get(dtype.name)
    low, high = (_INT64.min, _INT64.max) if limit is None else (-limit, limit)
    if values.dtype.itemsize >= 4:
        _require_all((values >= low) & (values <= high), where, values, dtype)
    return values.astype(dtype)


def _require_all(
    exact: npt.NDArray[np.bool_], where: str, values: npt.NDArray[Any], dtype: np.dtype[Any]
) -> None:
    if not exact.all():
        wrong = values[~exact].flat[0]
        raise InputError(
            f"{where} holds {wrong!s} as {values.dtype}, which {dtype} does not hold exactly. "
            f"Send {dtype}, or convert the model with a sample of {values.dtype}."
        )
