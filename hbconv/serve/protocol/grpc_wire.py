"""The bytes of gRPC messages, before any object is made of them.

Two bytes are an empty tensor, which takes 90 in memory. So what a long request holds is counted
first, in the wire format of Protocol Buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hbconv.errors import InputError

__all__ = ["length_delimited", "require_bounded"]

MOST_LISTED = 1 << 22
"""Values that a request lists. More come as raw contents, of which no object is made."""
LEAST_A_FIELD = 4
"""A list of fewer values counts as so many: each field takes about 1.5 us to count."""
SHORT_BYTES = 64
"""In a list of so many bytes each one counts as a value: to tell them apart takes longer."""
MOST_NAME_BYTES = 64 << 10
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_RAW, _CONTENTS = "raw", "contents"
_ENTRY: Mapping[int, Any] = {2: {}}
_REQUEST: Mapping[int, Any] = {
    4: _ENTRY,
    5: {4: _ENTRY, 5: _CONTENTS},
    6: {2: _ENTRY},
    7: _RAW,
}
"""The fields of a ModelInferRequest that are no names, and those of its messages."""
_TEXTS = 8
_BYTES_A_VALUE = {6: 4, 7: 8}
"""In the lists of an InferTensorContents; those of other numbers take as many as they need."""


def require_bounded(data: bytes, most_fields: int) -> None:
    """Refuse a ModelInferRequest of too many fields or values, or with long names.

    Raises
    ------
    InputError
        It has, or is no message.
    """
    _Count(most_fields).add(memoryview(data), _REQUEST)


class _Count:
    """What a message holds.

    Parameters
    ----------
    most : int
        Fields, but those of lists of values.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._fields = 0
        self._listed = 0

    def add(self, data: memoryview, known: Mapping[int, Any]) -> None:
        """Count the fields of a message."""
        for number, found in _fields(data):
            self._fields += 1
            if self._fields > self._most:
                raise InputError(f"The message has more than {self._most:,} fields.")
            kind = known.get(number)
            if found is None or kind == _RAW:
                continue
            if kind == _CONTENTS:
                self._add_values(found)
            elif kind is not None:
                self.add(found, kind)
            elif len(found) > MOST_NAME_BYTES:
                raise InputError(f"A name or shape in the message takes {len(found):,} bytes.")

    def _add_values(self, data: memoryview) -> None:
        """Count the values of contents: packed into a field, or each one a field."""
        for number, found in _fields(data):
            self._listed += max(LEAST_A_FIELD, 0 if found is None else _packed(number, found))
            if self._listed > MOST_LISTED:
                raise InputError(
                    f"The message lists more than {MOST_LISTED:,} values. Send raw contents."
                )


def _packed(number: int, data: memoryview) -> int:
    size = len(data)
    if number == _TEXTS:
        return 1
    if number in _BYTES_A_VALUE:
        return size // _BYTES_A_VALUE[number]
    return size if size <= SHORT_BYTES else int(np.count_nonzero(np.frombuffer(data, np.int8) >= 0))


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Return the number of each field, and its bytes where it has a length.

    Raises
    ------
    InputError
        The bytes are no message.
    """
    place, end = 0, len(data)
    while place < end:
        tag, place = _varint(data, place)
        kind = tag & 7
        size = _SIZES.get(kind, 0)
        if kind in (_VARINT, _LENGTH):
            size, place = _varint(data, place)
        start, place = place, place + (0 if kind == _VARINT else size)
        if place > end or kind not in (_VARINT, _LENGTH, *_SIZES):
            raise _no_message()
        yield tag >> 3, data[start:place] if kind == _LENGTH else None


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, and return the place behind it."""
    value = 0
    for shift, byte in zip(range(0, 70, 7), data[place : place + 10], strict=False):
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
    raise _no_message()


def _no_message() -> InputError:
    return InputError("The bytes are no message of the Open Inference Protocol.")


def length_delimited(number: int, data: bytes | memoryview) -> list[bytes | memoryview]:
    r"""Return a field of some bytes, in parts.

    Examples
    --------
    >>> length_delimited(6, b"ab")
    [b'2', b'\x02', b'ab']
    """
    size, length = len(data), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return [bytes([number << 3 | _LENGTH]), bytes(length), data]
