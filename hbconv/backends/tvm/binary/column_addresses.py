"""Addresses of columns: what a kernel is given in place of a matrix, if its columns lie apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import ColumnArrays
from hbconv.backends.tvm.machine.calling_convention import COLUMN_DTYPES, column_dtypes

__all__ = ["ColumnAddresses"]

CODES = {np.dtype(dtype): code for code, dtype in enumerate(COLUMN_DTYPES)}
"""The number of each dtype; that of another byte order equals none of them."""


@dataclass(frozen=True, eq=False)
class ColumnAddresses:
    """Where the columns of an input lie, each of them without gaps.

    Parameters
    ----------
    columns : iterable of arrays of shape (n_rows,)
        They keep the memory alive.
    words : ndarray of int64, shape (n_columns, 2)
        Addresses and numbers of dtypes, as ``hbconv_column`` has them.
    """

    columns: Iterable[npt.NDArray[Any]]
    words: npt.NDArray[np.int64]

    @classmethod
    def find(cls, x: npt.NDArray[Any] | ColumnArrays) -> ColumnAddresses | None:
        """Return the addresses of the columns of an input; None where no kernel reads them.

        Examples
        --------
        >>> rows = np.zeros((2, 3))
        >>> ColumnAddresses.find(rows) is None
        True
        >>> np.diff(ColumnAddresses.find(rows.T).words, axis=0).tolist()
        [[24, 0]]
        """
        if isinstance(x, ColumnArrays):
            return cls._of_arrays(x.columns, column_dtypes(x.dtype.name))
        if x.ndim != 2 or x.strides[0] != x.itemsize or not x.flags.aligned:
            return None
        words = np.full((x.shape[1], 2), CODES[x.dtype], np.int64)
        words[:, 0] = np.arange(x.shape[1]) * x.strides[1] + x.ctypes.data
        return cls(x.T, words)

    @classmethod
    def _of_arrays(
        cls, columns: Sequence[npt.NDArray[Any]], readable: tuple[str, ...]
    ) -> ColumnAddresses | None:
        codes = [CODES.get(column.dtype, -1) for column in columns]
        if any(code < 0 or COLUMN_DTYPES[code] not in readable for code in codes):
            return None
        # A column with gaps alone is copied: those of others stay where they are.
        columns = [
            c if c.flags.c_contiguous and c.flags.aligned else np.require(c, None, ["C", "A"])
            for c in columns
        ]
        addresses = [c.__array_interface__["data"][0] for c in columns]
        return cls(columns, np.column_stack([addresses, codes]).astype(np.int64))
