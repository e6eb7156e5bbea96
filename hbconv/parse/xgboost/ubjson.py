"""UBJSON (universal binary JSON), the format of XGBoost's ``.ubj`` files.

Numbers are big-endian; typed arrays become numpy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.errors import ConversionError

__all__ = ["decode_ubjson"]

_NUMBERS = {
    b"i": ">i1",
    b"U": ">u1",
    b"I": ">i2",
    b"l": ">i4",
    b"L": ">i8",
    b"d": ">f4",
    b"D": ">f8",
}
_CONSTANTS = {b"T": True, b"F": False, b"Z": None}
_DEEPEST = 64


def decode_ubjson(data: bytes) -> Any:
    r"""Decode one value: dict, list, numpy array, str, int, float, bool or None.

    Raises
    ------
    ConversionError
        The bytes are not UBJSON, or they are cut short.

    Examples
    --------
    >>> decode_ubjson(b"{U\x01x[$d#U\x01\x3f\x80\x00\x00}")
    {'x': array([1.], dtype=float32)}
    """
    try:
        return _Reader(data).value(0)
    except (IndexError, ValueError, KeyError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"The file is damaged: it is not valid UBJSON ({error}).") from error


class _Reader:
    """The bytes and a position in them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise ConversionError("The file is damaged: it ends before its last value.")
        self.at += size
        return self.data[self.at - size : self.at]

    def skip(self, marker: bytes) -> bool:
        """Step over a marker if it comes next."""
        found = self.data[self.at : self.at + 1] == marker
        self.at += found
        return found

    def value(self, depth: int) -> Any:
        return self.of_type(self.take(1), depth)

    def of_type(self, marker: bytes, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ConversionError("The file is damaged: its values are nested too deeply.")
        if marker in _NUMBERS:
            return self.numbers(marker, 1)[0].item()
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker in (b"S", b"H"):
            return self.text()
        if marker == b"[":
            return self.array(depth + 1)
        if marker == b"{":
            return self.object(depth + 1)
        raise ConversionError(f"The file is damaged: {marker!r} marks no UBJSON value.")

    def numbers(self, marker: bytes, count: int) -> Any:
        kind = np.dtype(_NUMBERS[marker])
        return np.frombuffer(self.take(kind.itemsize * count), kind).astype(kind.newbyteorder("="))

    def length(self) -> int:
        return int(self.numbers(self.take(1), 1)[0])

    def count(self) -> int:
        """Read how many values follow, at most as many as there are bytes.

        Constants take no bytes, and are held to that number too.
        """
        count = self.length()
        if not 0 <= count <= len(self.data) - self.at:
            raise ConversionError("The file is damaged: it ends before its last value.")
        return count

    def text(self) -> str:
        return self.take(self.length()).decode()

    def array(self, depth: int) -> Any:
        kind = self.take(1) if self.skip(b"$") else b""
        if not self.skip(b"#"):
            values = []
            while not self.skip(b"]"):
                values.append(self.value(depth))
            return values
        count = self.count()
        if kind in _NUMBERS:
            return self.numbers(kind, count)
        return [self.of_type(kind, depth) if kind else self.value(depth) for _ in range(count)]

    def object(self, depth: int) -> dict[str, Any]:
        count = self.count() if self.skip(b"#") else -1
        values: dict[str, Any] = {}
        while len(values) != count and not (count < 0 and self.skip(b"}")):
            key = self.text()
            if key in values:
                raise ConversionError(f"The file is damaged: {key!r} stands twice in one object.")
            values[key] = self.value(depth)
        return values
