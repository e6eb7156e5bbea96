"""Tensors of requests and responses: in JSON, in binary data, and in lists of Protocol Buffers.

A request declares the name, datatype and shape of a tensor before its data. What the data may hold
is decided here alone, for v1, v2 and gRPC. Which values a model takes is decided next, in
``hbconv.serve.inference``.

JSON has no word for NaN and the infinities. As in the JSON of Protocol Buffers, the strings "NaN",
"Infinity" and "-Infinity" stand for them, in requests and in responses. A null is a missing value.
In binary data each element of BYTES is its length, of four bytes, and its bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Container, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.serve.protocol.json_documents import LongList
from hbconv.serve.signature import BYTES, DTYPES, find_datatype, find_dtype

__all__ = [
    "MOST_TEXT_BYTES",
    "NON_FINITE",
    "TensorForm",
    "declare_tensor",
    "decode_text",
    "list_values",
    "pack_texts",
    "pack_values",
    "read_binary",
    "read_numbers",
    "read_pieces",
    "read_values",
    "require_count",
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

_LENGTH = struct.Struct("<I")
MOST_TEXT_BYTES = 1 << 20
"""To find the words of a longer text takes too long at once: no other thread works meanwhile."""

MOST_DIMENSIONS = 8
MOST_ELEMENTS = 1 << 40


class PlacedValues(Protocol):
    """Values as messages name them: by its text all of them."""

    def element(self, position: int) -> str:
        """Return what messages call one of them."""


class TensorForm(NamedTuple):
    """A tensor as a request declares it, before its data is read.

    Parameters
    ----------
    name : str
    dtype : dtype
    shape : tuple of int
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"Input {shown(self.name)}"

    def element(self, position: int) -> str:
        """Return what messages call an element."""
        return f"{self}: element {position}"

    @property
    def size(self) -> int:
        """Number of its elements."""
        return math.prod(self.shape)


def declare_tensor(
    name: str, datatype: Any, shape: Any, most_rows: int, others: Container[str]
) -> TensorForm:
    """Return the form of a tensor, whose name none of the others has.

    Raises
    ------
    InputError
        It cannot be, or it is declared twice, or it has too many rows, or texts.
    """
    if name in others:
        raise InputError(f"Input {shown(name)} is there twice.")
    dtype = find_dtype(name, datatype)
    if not _is_shape(shape):
        raise InputError(
            f"Input {shown(name)} has shape {shown(shape)}, which is no shape of a tensor."
        )
    # Each text is an object of its own, so texts are counted one by one, and numbers by rows.
    count = math.prod(shape) if dtype.kind == "O" else shape[0]
    if count > most_rows:
        raise InputError(f"The request has {count} rows, and the server takes {most_rows} at once.")
    return TensorForm(name, dtype, tuple(shape))


def _is_shape(shape: Any) -> bool:
    if type(shape) is not list or not 1 <= len(shape) <= MOST_DIMENSIONS:
        return False
    for size in shape:
        if type(size) is not int or not 0 <= size <= MOST_ELEMENTS:
            return False
    # Python's ints do not overflow, so the product of eight sizes is compared as it is.
    return math.prod(shape) <= MOST_ELEMENTS


def read_values(form: TensorForm, data: Any, first: int = 0) -> npt.NDArray[Any]:
    """Read the values of a tensor: a list, read or not, or an array for a dtype of floats.

    The data of a part of a tensor begin at its element ``first``, as errors number them.

    Raises
    ------
    InputError
        They are not of the shape, or not of the datatype.
    """
    if isinstance(data, np.ndarray):
        require_count(form, len(data), form.size)
        return _narrow(form, data, form.dtype).reshape(form.shape)
    if isinstance(data, LongList):
        # A value takes a byte and its comma another one: no memory for more than can be there.
        if form.size > len(data.text) // 2:
            raise InputError(f"{form}: the data is too short for its shape {list(form.shape)}.")
        return read_pieces(form, data.pieces())
    values = _flatten(form, data)
    if form.dtype.kind == "O":
        _require_types(form, values, _KINDS["O"], "texts", first)
        return np.fromiter(values, object, len(values)).reshape(form.shape)
    return read_numbers(form, values, form.dtype, first).reshape(form.shape)


def read_pieces(form: TensorForm, pieces: Iterable[list[Any]]) -> npt.NDArray[Any]:
    """Read lists of values one after another, or of lists that have the shape of a row."""
    count, filled = form.size, 0
    values = np.empty(count, form.dtype)
    nestings = set()
    for piece in pieces:
        nestings.add(bool(piece) and isinstance(piece[0], list))
        shape = (len(piece), *form.shape[1:]) if True in nestings else (len(piece),)
        part = read_values(form._replace(shape=shape), piece, filled).ravel()
        if len(nestings) > 1:
            raise _wrong_lists(form)
        if filled + len(part) > count:
            raise InputError(
                f"{form}: the data holds {filled + len(part)} values or more, and its "
                f"shape {list(form.shape)} {count}."
            )
        values[filled : filled + len(part)] = part
        filled += len(part)
    require_count(form, filled, count)
    return values.reshape(form.shape)


def _flatten(form: TensorForm, data: Any) -> Sequence[Any]:
    """Return nested lists as one, once they have the shape."""
    if not isinstance(data, list):
        raise InputError(f"{form} has no list of data.")
    values = data
    is_nested = bool(values) and isinstance(values[0], list)
    for size in form.shape[1:] if is_nested else ():
        if not all(isinstance(v, list) and len(v) == size for v in values):
            raise _wrong_lists(form)
        values = list(chain.from_iterable(values))
    rows = data if is_nested else values
    require_count(form, len(rows), form.shape[0] if is_nested else form.size)
    return values


def _wrong_lists(form: TensorForm) -> InputError:
    return InputError(f"{form}: the lists of its data do not have its shape.")


def require_count(form: TensorForm, count: int, expected: int) -> None:
    """Refuse data of more or fewer values than the shape has.

    Raises
    ------
    InputError
    """
    if count != expected:
        raise InputError(
            f"{form}: the data holds {count} values, and its shape {list(form.shape)} {expected}."
        )


def read_numbers(
    where: PlacedValues, values: Sequence[Any], dtype: np.dtype[Any], first: int = 0
) -> npt.NDArray[Any]:
    """Read a flat list, whose elements count from ``first``, as an array of numbers or bools.

    What messages call the values is asked for an error alone: to quote a name takes longer than to
    read a number.

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


def _narrow(where: object, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Round to a narrower float: 0.1 has no exact form, so a decimal text means the nearest one."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(dtype)
    # Only an overflow is refused: it alone makes an infinity of a finite number.
    if (np.isinf(narrow) != np.isinf(array)).any():
        raise InputError(f"{where} holds a number that exceeds {dtype.name}.")
    return narrow


def _parse_word(value: Any) -> Any:
    # A list or an object of JSON cannot be hashed, so only what may be a word is looked up.
    return NON_FINITE.get(value, value) if value is None or type(value) is str else value


def _require_types(
    where: PlacedValues, values: Sequence[Any], kinds: frozenset[type], what: str, first: int
) -> None:
    for position, value in enumerate(values, first):
        if type(value) not in kinds:
            raise InputError(
                f"{where.element(position)} is {shown(value)}, where {what} are expected."
            )


def read_binary(form: TensorForm, data: memoryview) -> npt.NDArray[Any]:
    """Read a tensor of binary data, in place where it can be.

    Raises
    ------
    InputError
        The data is not of the size of the shape.
    """
    if form.dtype.kind == "O":
        return _unpack_texts(form, data).reshape(form.shape)
    if len(data) != form.size * form.dtype.itemsize:
        raise InputError(
            f"{form} has {len(data)} bytes of data; its shape {list(form.shape)} of "
            f"{form.dtype.name} takes {form.size * form.dtype.itemsize}."
        )
    if form.dtype.kind == "b":
        return _read_bools(form, data).reshape(form.shape)
    return np.frombuffer(data, form.dtype).reshape(form.shape)


def _read_bools(form: TensorForm, data: memoryview) -> npt.NDArray[np.bool_]:
    values = np.frombuffer(data, np.uint8)
    # A bool of numpy is a byte of 0 or 1; a view would let other bytes pass unchecked.
    if values.size and values.max() > 1:
        raise InputError(f"{form} holds a byte that is no bool.")
    return values.view(np.bool_)


def _unpack_texts(form: TensorForm, data: memoryview) -> npt.NDArray[np.object_]:
    """Read the texts of a tensor, which hold as many elements as its shape."""
    texts: list[str] = []
    position = 0
    while position < len(data):
        start = position + _LENGTH.size
        if start > len(data):
            raise InputError(f"{form}: the length of element {len(texts)} is cut off.")
        position = start + _LENGTH.unpack_from(data, start - _LENGTH.size)[0]
        if position > len(data) or len(texts) == form.size:
            raise InputError(
                f"{form}: the data does not hold the {form.size} elements of its shape; "
                f"element {len(texts)} ends beyond them."
            )
        texts.append(decode_text(form.name, bytes(data[start:position]), len(texts)))
    if len(texts) < form.size:
        raise InputError(
            f"{form}: the data holds {len(texts)} elements, and its shape {form.size}."
        )
    return np.fromiter(texts, object, form.size)


def decode_text(name: str, data: bytes, element: int) -> str:
    """Decode one element, which must be UTF-8 and not too long."""
    if len(data) > MOST_TEXT_BYTES:
        raise InputError(
            f"Input {shown(name)}: element {element} has {len(data):,} bytes, and the server takes "
            f"texts of {MOST_TEXT_BYTES:,}."
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"Input {shown(name)}: element {element} is not UTF-8: {error}."
        ) from error


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
    objects = array.astype(object)
    objects[np.isnan(array)] = "NaN"
    objects[np.isposinf(array)] = "Infinity"
    objects[np.isneginf(array)] = "-Infinity"
    named: list[Any] = objects.tolist()
    return named


def pack_values(array: npt.NDArray[Any]) -> bytes | memoryview:
    """Return the bytes of a tensor, as its datatype is in binary data."""
    datatype = find_datatype(array.dtype)
    if datatype == BYTES:
        return pack_texts(array)
    return np.ascontiguousarray(array, DTYPES[datatype]).reshape(-1).view(np.uint8).data


def pack_texts(values: npt.NDArray[Any]) -> bytes:
    """Write the elements of an array, row after row."""
    flat = values.ravel()
    encoded = (str(value).encode() for value in flat)
    return b"".join([part for text in encoded for part in (_LENGTH.pack(len(text)), text)])
