"""Tensors as JSON: lists of values, flat or nested as the shape is; long ones go by pieces.

JSON has no word for NaN and the infinities. As in the JSON of Protocol Buffers, the strings "NaN",
"Infinity" and "-Infinity" stand for them, in requests and in answers. A null is a missing value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from hbconv.errors import InputError, shown
from hbconv.serve.protocol.json_documents import LongList

__all__ = [
    "HOLE",
    "NON_FINITE",
    "PIECE_VALUES",
    "fill_holes",
    "list_values",
    "read_numbers",
    "read_tensor",
    "write_by_pieces",
]

NON_FINITE = {
    None: float("nan"),
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_KINDS: dict[str, frozenset[type]] = {
    "b": frozenset({bool}),
    "u": frozenset({int}),
    "i": frozenset({int}),
    "f": frozenset({int, float}),
    "O": frozenset({str, type(None)}),
}
"""Types of the values of each kind of dtype."""
_WORDS = frozenset({str, type(None)})

PIECE_VALUES = 1 << 14
"""Values that are written by one call."""
_MARK = b"\0"
HOLE = orjson.Fragment(_MARK)
"""Stands in a document for a list that is written by pieces. JSON holds no such byte."""


def read_tensor(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], data: Any, first: int = 0
) -> npt.NDArray[Any]:
    """Read the values of a tensor: a list, read or not, or an array for a dtype of floats.

    The data of a part of a tensor begin at its element ``first``, as errors number them.

    Raises
    ------
    InputError
        They are not of the shape, or not of the datatype.
    """
    if isinstance(data, np.ndarray):
        _require_count(name, shape, len(data), math.prod(shape))
        return _narrow(f"Input {shown(name)}", data, dtype).reshape(shape)
    if isinstance(data, LongList):
        return _read_pieces(name, dtype, shape, data)
    values = _flatten(name, shape, data)
    if dtype.kind == "O":
        _require_types(name, values, _KINDS["O"], "texts", first)
        return np.fromiter(values, object, len(values)).reshape(shape)
    return read_numbers(f"Input {shown(name)}", values, dtype, first).reshape(shape)


def _read_pieces(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], data: LongList
) -> npt.NDArray[Any]:
    """Read a list of values, or of lists that have the shape of a row."""
    count, filled = math.prod(shape), 0
    if count > len(data.text) // 2:  # a value and its comma
        raise InputError(f"Input {shown(name)}: the data is too short for its shape {list(shape)}.")
    values = np.empty(count, dtype)
    forms = set()
    for piece in data.pieces():
        forms.add(bool(piece) and isinstance(piece[0], list))
        own = (len(piece), *shape[1:]) if True in forms else (len(piece),)
        part = read_tensor(name, dtype, own, piece, filled).ravel()
        if len(forms) > 1:
            raise InputError(f"Input {shown(name)}: the lists of its data do not have its shape.")
        if filled + len(part) > count:
            raise InputError(
                f"Input {shown(name)}: the data holds {filled + len(part)} values or more, and its "
                f"shape {list(shape)} {count}."
            )
        values[filled : filled + len(part)] = part
        filled += len(part)
    _require_count(name, shape, filled, count)
    return values.reshape(shape)


def read_numbers(
    where: str, values: Sequence[Any], dtype: np.dtype[Any], first: int = 0
) -> npt.NDArray[Any]:
    """Read a flat list, whose elements count from ``first``, as an array of numbers or bools.

    Raises
    ------
    InputError
        A value is of another kind, or exceeds the dtype.
    """
    kinds = set(map(type, values))
    if dtype.kind == "f" and not kinds.isdisjoint(_WORDS):
        values = [_parse_word(value) for value in values]
        kinds = set(map(type, values))
    if not kinds <= _KINDS[dtype.kind]:
        _require_types(where, values, _KINDS[dtype.kind], f"values of {dtype.name}", first)
    try:
        array = np.array(values, np.float64 if dtype.kind == "f" else dtype)
    except OverflowError as error:
        raise InputError(f"{where} holds a number that exceeds {dtype.name}.") from error
    return _narrow(where, array, dtype)


def _narrow(where: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(dtype)
    if (np.isinf(narrow) != np.isinf(array)).any():
        raise InputError(f"{where} holds a number that exceeds {dtype.name}.")
    return narrow


def _parse_word(value: Any) -> Any:
    return NON_FINITE.get(value, value) if value is None or type(value) is str else value


def _require_types(
    where: str, values: Sequence[Any], kinds: frozenset[type], what: str, first: int
) -> None:
    for place, value in enumerate(values, first):
        if type(value) not in kinds:
            raise InputError(
                f"{where}: element {place} is {shown(value)}, where {what} are expected."
            )


def _flatten(name: str, shape: tuple[int, ...], data: Any) -> Sequence[Any]:
    """Return nested lists as one, once they have the shape."""
    if not isinstance(data, list):
        raise InputError(f"Input {shown(name)} has no list of data.")
    values = data
    nested = bool(values) and isinstance(values[0], list)
    for size in shape[1:] if nested else ():
        if not all(isinstance(v, list) and len(v) == size for v in values):
            raise InputError(f"Input {shown(name)}: the lists of its data do not have its shape.")
        values = list(chain.from_iterable(values))
    rows = data if nested else values
    _require_count(name, shape, len(rows), shape[0] if nested else math.prod(shape))
    return values


def _require_count(name: str, shape: tuple[int, ...], count: int, expected: int) -> None:
    if count != expected:
        raise InputError(
            f"Input {shown(name)}: the data holds {count} values, and its shape {list(shape)} "
            f"{expected}."
        )


def list_values(array: npt.NDArray[Any]) -> list[Any]:
    """Return an array as nested lists that JSON holds without loss.

    Examples
    --------
    >>> list_values(np.array([0.5, np.inf, np.nan]))
    [0.5, 'Infinity', 'NaN']
    """
    if array.dtype.kind != "f" or np.isfinite(array).all():
        values: list[Any] = array.tolist()
        return values
    named = array.astype(object)
    named[np.isnan(array)] = "NaN"
    named[np.isposinf(array)] = "Infinity"
    named[np.isneginf(array)] = "-Infinity"
    found: list[Any] = named.tolist()
    return found


def write_by_pieces(
    count: int, width: int, values: Callable[[slice], Sequence[Any]]
) -> Iterator[bytes]:
    """Write the values of some rows, each of so many values, as a list."""
    step = max(PIECE_VALUES // max(width, 1), 1)
    comma = b"["
    for start in range(0, count, step):
        yield comma + orjson.dumps(values(slice(start, start + step)), default=str)[1:-1]
        comma = b","
    yield b"]" if count else b"[]"


def fill_holes(document: Any, lists: Sequence[Iterable[bytes]]) -> list[bytes]:
    """Return a document in parts, with lists in the place of its holes."""
    if not lists:
        return [orjson.dumps(document, default=str)]
    first, *others = orjson.dumps(document, default=str).split(_MARK)
    parts = [first]
    for found, after in zip(lists, others, strict=True):
        parts.extend(found)
        parts.append(after)
    return parts
