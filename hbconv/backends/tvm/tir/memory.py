"""Places of values: constants in tables, other values in scratch for one tile, which is reused."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import VerificationError

__all__ = [
    "ColumnsApart",
    "ConstantTables",
    "InBuffer",
    "InRegister",
    "InScratch",
    "InTable",
    "Place",
    "RowMajor",
    "RowVector",
    "Scratch",
    "in_memory",
    "storage",
]

STORAGE = {
    "float32": "float32",
    "float64": "float64",
    "int32": "int32",
    "int64": "int64",
    "bool": "uint8",
    "uint8": "uint8",
    "uint16": "uint16",
}
"""The dtype in memory of a value's dtype: a bool is a byte of 0 or 1."""
LINE = 64
"""Bytes of a cache line."""


def storage(dtype: str) -> str:
    """Return the dtype in memory of a value's dtype."""
    return STORAGE[dtype]


@dataclass(frozen=True, eq=False)
class Place:
    """A value of the program, and where its entries are: each subclass is one kind of place.

    Parameters
    ----------
    dtype : str
    shape : tuple of int
        Static shape: without the rows.
    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape))

    def numpy(self) -> npt.NDArray[Any]:
        """Return the data of a constant."""
        raise VerificationError("a value stands where a constant must")

    def view(self, shape: tuple[int, ...], skip: int = 0) -> Place:  # noqa: ARG002
        """Return the same memory under another shape, ``skip`` entries on."""
        raise VerificationError(f"a value of {type(self).__name__} has no view")


@dataclass(frozen=True, eq=False)
class InScratch(Place):
    """Entries of scratch from ``offset`` on, each of one number for every row of the tile."""

    offset: int

    def view(self, shape: tuple[int, ...], skip: int = 0) -> InScratch:
        """Return the same memory under another shape, ``skip`` entries on."""
        return InScratch(self.dtype, shape, self.offset + skip)


@dataclass(frozen=True, eq=False)
class InBuffer(Place):
    """Entries of a buffer of their own from ``offset`` on, each of one number for every row."""

    buffer: Any
    offset: int = 0

    def view(self, shape: tuple[int, ...], skip: int = 0) -> InBuffer:
        """Return the same memory under another shape, ``skip`` entries on."""
        return InBuffer(self.dtype, shape, self.buffer, self.offset + skip)


@dataclass(frozen=True, eq=False)
class InTable(Place):
    """A constant."""

    data: npt.NDArray[Any]

    def numpy(self) -> npt.NDArray[Any]:
        """Return the data."""
        return self.data

    def view(self, shape: tuple[int, ...], skip: int = 0) -> InTable:
        """Return the same data under another shape, ``skip`` entries on."""
        data = self.data.reshape(-1)[skip : skip + int(np.prod(shape))].reshape(shape)
        return InTable(self.dtype, shape, data)


@dataclass(frozen=True, eq=False)
class RowVector(InTable):
    """A constant with a number of its own for every row of the tile."""


@dataclass(frozen=True, eq=False)
class InRegister(Place):
    """A value without memory: one register at a time, inside the loop that computes it."""


@dataclass(frozen=True, eq=False)
class RowMajor(Place):
    """An input left in the caller's row-major matrix, and what is done to its entries.

    Parameters
    ----------
    matrix : Matrix
    first : int expression
        The tile's first row.
    scaling : tuple of (str, Place)
        Primitives with a number for each column, in the order in which they are done.
    apart : ColumnsApart, optional
        Where the entries are if the caller gives the input column by column.
    """

    matrix: Any
    first: Any
    scaling: tuple[tuple[str, Place], ...] = ()
    apart: ColumnsApart | None = None


@dataclass(frozen=True, eq=False)
class ColumnsApart:
    """Columns of the tile that were given one by one.

    Parameters
    ----------
    given : bool expression
        Whether the caller gave them so.
    place : Place
        Holds them if it did.
    """

    given: Any
    place: Place


def in_memory(place: Place) -> InScratch | InBuffer:
    """Return a place that entries can be loaded from and stored to."""
    if not isinstance(place, InScratch | InBuffer):
        raise VerificationError(f"a value of {type(place).__name__} has no memory of its own")
    return place


@dataclass
class Scratch:
    """Entries of one dtype, allocated by first fit; ``size`` is the most ever in use."""

    size: int = 0
    free: list[tuple[int, int]] = field(default_factory=list)

    def take(self, count: int) -> int:
        """Allocate entries: the first gap that is wide enough, or new ones."""
        # Gaps are ascending, so values gather at low addresses, which are in the cache.
        for position, (start, width) in enumerate(self.free):
            if width >= count:
                self.free[position : position + 1] = (
                    [(start + count, width - count)] if width > count else []
                )
                return start
        self.size += count
        return self.size - count

    def give(self, start: int, count: int) -> None:
        """Free entries, and join neighbouring gaps."""
        gaps: list[tuple[int, int]] = []
        for begin, width in sorted([*self.free, (start, count)]):
            if gaps and sum(gaps[-1]) == begin:
                gaps[-1] = (gaps[-1][0], gaps[-1][1] + width)
            elif width:
                gaps.append((begin, width))
        self.free = gaps


class ConstantTables:
    """The constants of a program: one table for each dtype, aligned to cache lines."""

    def __init__(self) -> None:
        self._parts: dict[str, list[npt.NDArray[Any]]] = {}
        self._offset: dict[str, int] = {}
        self._seen: dict[int, tuple[int, npt.NDArray[Any]]] = {}

    def offset(self, data: npt.NDArray[Any]) -> int:
        """Return the position of data in the table of its dtype; equal data share one place."""
        # Emitters request one array many times, and hashing a large one takes milliseconds.
        if id(data) not in self._seen:
            self._seen[id(data)] = self._place(data), data
        return self._seen[id(data)][0]

    def _place(self, data: npt.NDArray[Any]) -> int:
        name = storage(data.dtype.name)
        # A bool is viewed as the byte that it is in memory.
        flat = np.ascontiguousarray(data).reshape(-1).view(name)
        # By content, since each operator makes its own arrays: a forest of two methods had tables
        # half as long again.
        key = f"{name} {hashlib.sha256(flat.data).hexdigest()}"
        if key not in self._offset:
            parts = self._parts.setdefault(name, [])
            self._offset[key] = sum(len(p) for p in parts)
            # Each constant begins on a cache line, so its aligned vectors never straddle two.
            gap = np.zeros(-len(flat) % (LINE // flat.itemsize), flat.dtype)
            parts.append(np.concatenate([flat, gap]))
        return self._offset[key]

    def sizes(self, dtype: str) -> tuple[int, ...]:
        """Return how many entries of the table of one dtype each constant has, with its gap."""
        return tuple(len(part) for part in self._parts.get(dtype, []))

    def pack(self, dtype: str) -> npt.NDArray[Any]:
        """Return the table of one dtype; never empty, since an argument of a kernel may not be."""
        return np.concatenate([*self._parts.get(dtype, []), np.zeros(1, dtype)])
