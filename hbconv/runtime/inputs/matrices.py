"""Matrices of every kind, dense and sparse, as numbers that programs take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Schema
from hbconv.errors import InputError
from hbconv.runtime.inputs.arrays import numeric

__all__ = ["as_numbers", "read_matrix", "written_out"]


def read_matrix(x: Any) -> Any:
    """Return a two-dimensional array of any dtype, or a sparse matrix by rows.

    Raises
    ------
    InputError
        Other dimensions, rows of several lengths, masked values.
    """
    matrix = x.tocsr() if hasattr(x, "tocsr") else _as_array(x)
    if matrix.ndim != 2:
        raise InputError(_not_two_dimensional(matrix))
    return matrix


def as_numbers(matrix: Any, schema: Schema) -> Any:
    """Return the matrix as float32, float64 or int64, as the source model reads it."""
    values = (
        numeric(matrix, "X")
        if isinstance(matrix, np.ndarray)
        else matrix.astype(numeric(matrix.data[:0], "X").dtype, copy=False)
    )
    if (
        schema.conventions.absent_missing
        and values.dtype.kind != "f"
        and not isinstance(matrix, np.ndarray)
    ):
        return values.astype(np.float64)
    if not schema.conventions.other_arrays or matrix.dtype in (np.float32, np.float64):
        return values
    with np.errstate(over="ignore"):
        return matrix.astype(schema.conventions.other_arrays)


def written_out(matrix: Any, schema: Schema) -> npt.NDArray[Any]:
    """Return a sparse matrix as an array, zero or NaN where it has no entry."""
    if not schema.conventions.absent_missing:
        return np.asarray(matrix.toarray())
    entries, out = matrix.tocoo(), np.full(matrix.shape, np.nan, matrix.dtype)
    out[entries.row, entries.col] = entries.data
    return out


def _as_array(x: Any) -> npt.NDArray[Any]:
    if hasattr(x, "detach"):
        return _from_tensor(x)
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise InputError("X is a masked array with masked values. Pass X.filled(np.nan).")
    try:
        array = np.asarray(x)
        return (
            array
            if array.dtype.kind not in "US" or isinstance(x, np.ndarray)
            else np.array(x, dtype=object)
        )
    except ValueError as error:
        raise InputError(
            f"The rows of X differ in length, or hold other things than numbers and text: {error}"
        ) from error


def _from_tensor(x: Any) -> npt.NDArray[Any]:
    x = x.detach().cpu().resolve_conj().resolve_neg()
    if str(x.dtype) == "torch.bfloat16":
        x = x.float()
    return np.asarray((x.to_dense() if str(x.layout) != "torch.strided" else x).numpy())


def _not_two_dimensional(array: npt.NDArray[Any]) -> str:
    if array.ndim == 0:
        kind = type(array.item() if array.size else array)
        hint = (
            "" if kind.__module__ == "builtins" else " Give the table or array that it was made of."
        )
        return f"Expected a table or a two-dimensional array, got {kind.__name__}.{hint}"
    hint = (
        " Use X.reshape(1, -1) for one row, X.reshape(-1, 1) for one column."
        if array.ndim == 1
        else ""
    )
    return (
        f"Expected a two-dimensional array, got {array.ndim} dimensions (shape "
        f"{array.shape}).{hint}"
    )
