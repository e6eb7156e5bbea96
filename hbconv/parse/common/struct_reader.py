"""Read files that are structs one after another, as C++ wrote them; numbers are little-endian."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import ConversionError

__all__ = ["StructReader"]


class StructReader:
    """The bytes and a position in them.

    Parameters
    ----------
    data : bytes
    name : str
        What messages call the file.

    Examples
    --------
    >>> reader = StructReader(bytes([7, 0, 2, 0, 0, 0, 0, 0, 0, 0, 104, 105]), "The file")
    >>> reader.number("<i2"), reader.text()
    (7, 'hi')
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.at = 0

    def numbers(self, kind: str | np.dtype[Any], count: int) -> npt.NDArray[Any]:
        """Read so many values of one dtype, records of fields too."""
        size = np.dtype(kind).itemsize * count
        if count < 0 or self.at + size > len(self.data):
            raise ConversionError(f"{self.name} is damaged: it ends before its last value.")
        self.at += size
        return np.frombuffer(self.data, kind, count, self.at - size)

    def record(self, kind: np.dtype[Any]) -> Any:
        """Read a record of fields."""
        return self.numbers(kind, 1)[0]

    def number(self, kind: str) -> Any:
        """Read a number, as Python's."""
        return self.numbers(kind, 1)[0].item()

    def array(self, kind: str | np.dtype[Any]) -> npt.NDArray[Any]:
        """Read a number of values, then these."""
        return self.numbers(kind, self.number("<u8"))

    def text(self) -> str:
        """Read a number of bytes, then these, as a text."""
        return self.array("u1").tobytes().decode()
