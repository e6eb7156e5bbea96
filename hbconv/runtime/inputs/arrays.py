"""Numbers: any numpy array as float32, float64 or int64, and nothing lost on the way.

Matrices of every kind, dense and sparse, as numbers that programs take.

Reading: what goes wrong while rows are read is wrong with the rows, and is reported so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from hbconv.containers import Schema
from hbconv.errors import HbconvError, InputError, shown

__all__ = [
    "as_numbers",
    "dtype_name",
    "numeric",
    "object_numbers",
    "only_numbers",
    "read_matrix",
    "reads_rows",
    "refuse_texts",
    "write_dense",
]

_REFUSED = {
    "c": "complex numbers",
    "M": "dates",
    "m": "time spans",
    "S": "bytes",
    "V": "records",
    "U": "text",
    "T": "text",
}
_HINTS = {
    "c": "Pass real numbers.",
    "M": "Convert dates to numbers first, as was done before fitting.",
    "m": "Convert time spans to numbers first, as was done before fitting.",
    "S": "Decode bytes to text, or convert them to numbers.",
    "V": "Pass a plain two-dimensional array.",
    "U": "The model was fitted on numbers here.",
    "T": "The model was fitted on numbers here.",
}


# dtypes of native byte order alone: others are equal to none of these.
_NAMES = {np.dtype(name): name for name in ("float32", "float64", "int64")}


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of one of the three dtypes; numpy's own ``name`` is slow."""
    return _NAMES[dtype]


def numeric(values: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Return numbers as float32, float64 or int64: the array itself if it has such a dtype.

    float16 becomes float32; bools and ints become int64; longdouble is rounded to float64. float32
    of the other byte order becomes float64, since to the source its dtype is not float32.

    Parameters
    ----------
    values : ndarray of any shape
    where : str
        What the values are called in messages, such as ``"Column 'age'"``.

    Raises
    ------
    InputError
        Complex numbers, dates, bytes, text, or unsigned ints beyond int64.
    """
    if values.dtype in _NAMES:
        return values
    kind = values.dtype.kind
    if kind == "O":
        return object_numbers(values, where)
    if kind in _REFUSED:
        shown = f" such as {values.flat[0]!s:.40}" if values.size and kind in "UT" else ""
        raise InputError(
            f"{where} holds {_REFUSED[kind]} (dtype {values.dtype}{shown}), where the model needs "
            f"numbers. {_HINTS[kind]}"
        )
    if kind == "f":
        # float16 and float32 become float32; float32 of the other byte order counts as wide.
        narrow = values.itemsize <= 4 and values.dtype.isnative
        return values.astype("float32" if narrow else "float64", copy=False)
    # Larger ints would become negative.
    if values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max:
        raise InputError(
            f"{where} holds {values.max()}, which is beyond int64. Convert it to float64."
        )
    return values.astype("int64", copy=False)


def object_numbers(values: npt.NDArray[Any], where: str) -> npt.NDArray[np.float64]:
    """Return an object array of numbers, or of texts that are numbers, as float64.

    None becomes NaN. Raise InputError, with the value, for everything else.
    """
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        # numpy says what failed, and not which value.
        place, odd = next((i, v) for i, v in enumerate(values.flat) if not _is_number(v))
        row = place // (values.size // len(values))
        if isinstance(odd, str | bytes):
            message = (
                f"{where} holds the text {shown(odd)}, where the model needs numbers, "
                f"in row {row}. Convert it to numbers, or pass the columns in their order."
            )
            raise InputError(message) from error
        raise InputError(
            f"{where} holds {shown(odd)} of type {type(odd).__name__}, "
            f"where the model needs numbers, in row {row}."
        ) from error


def only_numbers(values: npt.NDArray[Any], stranger: float | None, where: str) -> npt.NDArray[Any]:
    """Return a column of objects with a number for each of those that are none.

    The source model reads them as objects, where "15.0" is not 15.0, and None is not NaN.

    Parameters
    ----------
    values : ndarray
        Other dtypes are returned as they are.
    stranger : float, optional
        A number that the model does not know either.
    where : str

    Raises
    ------
    InputError
        There is an object that is no number, and no stranger.
    """
    objects = _objects(values)
    is_odd = [_is_no_number(value) for value in objects]
    if not any(is_odd):
        return values
    if stranger is None:
        odd = objects[is_odd.index(True)]
        sentence = f"{where} holds {shown(odd)} among numbers"
        raise InputError(
            f"{sentence}, and the model reads such objects as they are. "
            "Give numbers, and NaN for what is missing."
        )
    numbers = values.copy()
    numbers[is_odd] = stranger
    return numbers


def _is_no_number(value: object) -> bool:
    return value is None or isinstance(value, str | bytes) or type(value).__name__ == "NAType"


def refuse_texts(values: npt.NDArray[Any], where: str) -> None:
    """Refuse texts in a column of objects, whose numbers the source model reads in its own way."""
    odd = [v for v in _objects(values) if isinstance(v, str | bytes)]
    if odd:
        sentence = (
            f"{where} holds the text {shown(odd[0])}, which the source may read in its own way."
        )
        raise InputError(f"{sentence} Convert them to numbers.")


def _objects(values: npt.NDArray[Any]) -> list[Any]:
    return values.tolist() if values.dtype.kind == "O" else []


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return value is None
    return True


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
    # Some sources convert all arrays but floats to one dtype.
    if not schema.conventions.other_arrays or matrix.dtype in (np.float32, np.float64):
        return values
    with np.errstate(over="ignore"):
        return matrix.astype(schema.conventions.other_arrays)


def write_dense(matrix: Any, schema: Schema) -> npt.NDArray[Any]:
    """Return a sparse matrix as an array, zero or NaN where it has no entry."""
    if not schema.conventions.absent_missing:
        return np.asarray(matrix.toarray())
    # Absent entries count as missing, and zeros that are stored as zeros.
    entries, out = matrix.tocoo(), np.full(matrix.shape, np.nan, matrix.dtype)
    out[entries.row, entries.col] = entries.data
    return out


def _as_array(x: Any) -> npt.NDArray[Any]:
    if hasattr(x, "detach"):
        return _from_tensor(x)
    # ``asarray`` would drop the mask, and give what is under it.
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise InputError("X is a masked array with masked values. Pass X.filled(np.nan).")
    try:
        array = np.asarray(x)
        return (
            array
            # Lists of numbers and texts become text in numpy, so that 1 would be "1".
            if array.dtype.kind not in "US" or isinstance(x, np.ndarray)
            else np.array(x, dtype=object)
        )
    except ValueError as error:
        raise InputError(
            f"The rows of X differ in length, or hold other things than numbers and text: {error}"
        ) from error


def _from_tensor(x: Any) -> npt.NDArray[Any]:
    # numpy has no lazy conjugate, and no lazy sign.
    x = x.detach().cpu().resolve_conj().resolve_neg()
    # numpy has no bfloat16; float32 holds all of its values.
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


P = ParamSpec("P")
T = TypeVar("T")


def reads_rows(read: Callable[P, T]) -> Callable[P, T]:
    """Make a function raise InputError for whatever the library of the rows raises.

    The function only reads rows. It must not compute anything, whose errors would be hidden.

    Examples
    --------
    >>> @reads_rows
    ... def read(x):
    ...     return x.__array__()
    >>> read(0)
    Traceback (most recent call last):
        ...
    hbconv.errors.InputError: The rows cannot be read
    (AttributeError: 'int' object has no attribute '__array__').
    Give a numpy array or a DataFrame.
    """

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (HbconvError, MemoryError, Warning):  # a warning that the user made an error
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error!s:.200}".rstrip(": .")
            raise InputError(
                f"The rows cannot be read ({reason}). Give a numpy array or a DataFrame."
            ) from error

    return reading
