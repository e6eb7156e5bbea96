"""Array: a numpy array that is a value, so that it can stand in a frozen dataclass.

ColumnArrays: a matrix whose columns are arrays of their own.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "ColumnArrays", "number_rows", "numbers"]

FNV_PRIME = np.uint64(0x100000001B3)
"""Factor that mixes the bits of 64-bit words."""


class Array:
    """A read-only numpy array, equal and hashable by dtype, shape and content.

    Parameters
    ----------
    data : array_like
        It is copied, since even a read-only array may be written to through its base. Numbers,
        bools, ``U`` strings, or objects of plain Python type (str, int, float, bool, None).

    Examples
    --------
    >>> Array([1.0, 2.0]) == Array([1.0, 2.0]), Array([1]) == Array([1.0])
    (True, False)
    """

    __slots__ = ("__dict__", "data")

    def __init__(self, data: npt.ArrayLike) -> None:
        # C order, so that equal content gives equal bytes.
        array = np.array(data, order="C")
        array.setflags(write=False)
        self.data: npt.NDArray[Any] = array

    @cached_property
    def key(self) -> str:
        """Digest of dtype, shape and content."""
        body = (
            # Bytes of objects are addresses, so their values are written out.
            repr(self.data.tolist()).encode() if self.data.dtype.hasobject else self.data.tobytes()
        )
        return hashlib.sha256(f"{self.data.dtype.str}{self.data.shape}".encode() + body).hexdigest()

    @cached_property
    def is_count(self) -> bool:
        """Whether it holds the ints 0, 1, 2...: each is its own position."""
        return self.data.dtype.kind == "i" and np.array_equal(self.data, np.arange(self.data.size))

    def are_places(self, size: int, least: int = 0) -> bool:
        """Whether it is a vector of ints from the least to below size."""
        if self.data.ndim != 1 or self.data.dtype.kind not in "iu":
            return False
        return not self.data.size or bool(self.data.min() >= least and self.data.max() < size)

    @property
    def ascends(self) -> bool:
        """Whether no entry is below the one before it in its row."""
        return not bool((self.data[..., 1:] < self.data[..., :-1]).any())

    @property
    def dtype(self) -> str:
        """Name of the numpy dtype."""
        return self.data.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.data.shape

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return np.array(self.data, dtype=dtype) if copy else np.asarray(self.data, dtype=dtype)

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[type["Array"], tuple[npt.NDArray[Any]]]:
        # Not the cached key: an unpickled array is judged by its own content.
        return Array, (self.data,)

    def __repr__(self) -> str:
        if self.data.size > 6:
            return f"{self.dtype}{list(self.shape)}"
        return np.array2string(
            self.data, separator=", ", precision=6, max_line_width=10_000
        ).replace("\n", "")

    @staticmethod
    def of(
        values: "Iterable[Any] | npt.ArrayLike | Array", dtype: npt.DTypeLike | None = None
    ) -> "Array":
        """Wrap values, converting to dtype when one is given."""
        if isinstance(values, Array) and (dtype is None or values.data.dtype == dtype):
            return values
        return Array(np.asarray(values) if dtype is None else numbers(values, dtype))


@dataclass(frozen=True, eq=False)
class ColumnArrays:
    """The columns of a matrix as arrays of their own, as tables hold them.

    Parameters
    ----------
    columns : tuple of ndarray, each of shape (n_rows,)
    dtype : dtype
        Of the matrix. Columns are converted to it when they become one.

    Examples
    --------
    >>> x = ColumnArrays((np.array([1, 2, 3]), np.array([0.5, 1.5, 2.5])), np.dtype("float64"))
    >>> x.shape, np.asarray(x[1:])
    ((3, 2), array([[2. , 1.5],
           [3. , 2.5]]))
    """

    columns: tuple[npt.NDArray[Any], ...]
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self.columns)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows: slice) -> "ColumnArrays":
        return ColumnArrays(tuple(column[rows] for column in self.columns), self.dtype)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, *, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        # Columns stay columns in memory, so that each is written side by side.
        out = np.empty(self.shape, self.dtype if dtype is None else dtype, order="F")
        for place, column in enumerate(self.columns):
            out[:, place] = column
        return out


def number_rows(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Give rows of floats one number where they are the same, to the last bit.

    Leaves of a deep forest are mostly pure: 944,110 leaves of a classifier had two rows of values.

    1. The bits of a row are mixed to one key (FNV of Fowler, Noll and Vo, 1991, over words).
    2. Each key has a number. Where rows of one key differ, each row has a number of its own.

    Examples
    --------
    >>> number_rows(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    array([1, 0, 1])
    """
    bits = values.view(f"u{values.itemsize}").astype(np.uint64)
    mixed = np.zeros(len(values), np.uint64)
    for column in bits.T:  # 1
        mixed = (mixed ^ column) * FNV_PRIME
        # What the factor carries up would else never reach the low bits.
        mixed ^= mixed >> np.uint64(32)
    _, first, numbers = np.unique(mixed, return_index=True, return_inverse=True)  # 2
    alike = (bits == bits[first[numbers]]).all()
    return numbers if alike else np.arange(len(values))


def numbers(values: Any, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
    """Return values as an array of numbers (or bools) of a dtype.

    Objects and texts raise TypeError, though numpy makes NaN of None.

    Examples
    --------
    >>> numbers([1, 2], np.float32)
    array([1., 2.], dtype=float32)
    >>> numbers(None, np.float64)
    Traceback (most recent call last):
    TypeError: None is no array of numbers
    """
    array = np.asarray(values)
    wanted = array.dtype if dtype is None else np.dtype(dtype)
    # ``astype`` would read texts as numbers, and None as NaN.
    if wanted.kind in "biuf" and array.size and array.dtype.kind not in "biuf":
        raise TypeError(f"{str(values)[:40]} is no array of numbers")
    return array.astype(wanted, copy=False)
