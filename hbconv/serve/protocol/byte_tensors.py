"""Tensors of BYTES in binary form: each element is its length, of four bytes, and its bytes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown

__all__ = ["pack_texts", "text_of", "unpack_texts"]

_LENGTH = struct.Struct("<I")
MOST_TEXT_BYTES = 1 << 20
"""To find the words of a longer text takes too long at once: no other thread works meanwhile."""


def unpack_texts(name: str, data: memoryview, count: int) -> npt.NDArray[np.object_]:
    """Read the texts of a tensor.

    Raises
    ------
    InputError
        The data holds more or fewer elements, or one is cut off or is not UTF-8.
    """
    texts: list[str] = []
    place = 0
    while place < len(data):
        start = place + _LENGTH.size
        if start > len(data):
            raise InputError(f"Input {shown(name)}: the length of element {len(texts)} is cut off.")
        place = start + _LENGTH.unpack_from(data, start - _LENGTH.size)[0]
        if place > len(data) or len(texts) == count:
            raise InputError(
                f"Input {shown(name)}: the data does not hold the {count} elements of its shape; "
                f"element {len(texts)} ends beyond them."
            )
        texts.append(text_of(name, bytes(data[start:place]), len(texts)))
    if len(texts) < count:
        raise InputError(
            f"Input {shown(name)}: the data holds {len(texts)} elements, and its shape {count}."
        )
    return np.fromiter(texts, object, count)


def text_of(name: str, data: bytes, element: int) -> str:
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


def pack_texts(values: npt.NDArray[Any]) -> bytes:
    """Write the elements of an array, row after row."""
    flat = values.ravel()
    encoded = (str(value).encode() for value in flat)
    return b"".join([part for one in encoded for part in (_LENGTH.pack(len(one)), one)])
