"""Numbers: any numpy array as float32, float64 or int64, and nothing lost on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown

__all__ = ["dtype_name", "numeric", "object_numbers", "only_numbers", "refuse_texts"]

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
        narrow = values.itemsize <= 4 and values.dtype.isnative
        return values.astype("float32" if narrow else "float64", copy=False)
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
        odd = next(v for v in values.flat if not _is_number(v))
        if isinstance(odd, str | bytes):
            message = (
                f"{where} holds the text {shown(odd)}, where the model needs numbers. "
                "Convert it to numbers, or pass the columns in their order."
            )
            raise InputError(message) from error
        raise InputError(
            f"{where} holds {shown(odd)} of type {type(odd).__name__}, "
            "where the model needs numbers."
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
        told = f"{where} holds {shown(odd)} among numbers"
        raise InputError(
            f"{told}, and the model reads such objects as they are. "
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
        told = f"{where} holds the text {shown(odd[0])}, which the source may read in its own way."
        raise InputError(f"{told} Convert them to numbers.")


def _objects(values: npt.NDArray[Any]) -> list[Any]:
    return values.tolist() if values.dtype.kind == "O" else []


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return value is None
    return True
