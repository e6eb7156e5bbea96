"""Columns of the features of rows to the entries of sparse rows: each column once, with its sum."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Entries", "count_columns", "sum_columns"]

Ints = npt.NDArray[np.int64]
Entries = tuple[Ints, npt.NDArray[np.int32], npt.NDArray[Any]]
"""The number of entries of each row, then their columns and values."""

FEW = 4000
"""Features that are sorted in one go in less time than row by row."""
ROW = np.int64(33)
"""The bit from which on a key holds the row; the lowest is the sign, and the others the column."""
COLUMN = np.int64((1 << 32) - 1)
HALF = np.int64(32)
"""The bit from which on a key without a sign holds the row."""


def count_columns(
    rows: Ints, columns: npt.NDArray[Any], is_negative: npt.NDArray[np.bool_] | None, count: int
) -> Entries:
    """Return the entries of rows of features that count 1 each, or -1.

    Parameters
    ----------
    rows, columns : ndarray of shape (n_features,)
        A feature with a column below 0 is left out.
    is_negative : ndarray of shape (n_features,), or None
        Whether each counts -1; None if none does.
    count : int
        Number of rows.
    """
    rows, columns = _known(columns, rows, columns)
    if len(rows) <= FEW:
        return _count_few(rows, columns, is_negative, count)
    return _count_by_rows(rows, columns, is_negative, count)


def _known(columns: npt.NDArray[Any], *arrays: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
    """Return what arrays hold of the features that have a column."""
    known = columns >= 0
    return arrays if known.all() else [array[known] for array in arrays]


def _count_few(
    rows: Ints, columns: npt.NDArray[Any], is_negative: npt.NDArray[np.bool_] | None, count: int
) -> Entries:
    """Sort row, column and sign as one number."""
    keys = columns.astype(np.int64)
    keys <<= 1
    if is_negative is not None:
        keys |= is_negative
    if count > 1:
        keys |= rows << ROW
    keys.sort()
    places = keys >> 1
    firsts = _firsts(places)
    sums = _sums(keys, firsts, is_negative is not None)
    found = places[firsts]
    sizes = (
        np.array([len(found)]) if count == 1 else np.bincount(found >> (ROW - 1), minlength=count)
    )
    return sizes, (found & COLUMN).astype(np.int32), sums


def _count_by_rows(
    rows: Ints, columns: npt.NDArray[Any], is_negative: npt.NDArray[np.bool_] | None, count: int
) -> Entries:
    """Sort column and sign row by row: rows stay in the cache."""
    keys = columns.astype(np.uint32) << np.uint32(1)
    if is_negative is not None:
        keys |= is_negative
    if np.any(rows[1:] < rows[:-1]):
        order = np.argsort(rows.astype(np.uint16), kind="stable")  # a radix sort; blocks are small
        rows = rows[order]
        keys = keys[order]
    bounds = np.searchsorted(rows, np.arange(count + 1))
    for first, last in pairwise(bounds.tolist()):
        keys[first:last].sort()
    found = keys >> np.uint32(1)
    differs = np.append(True, (found[1:] != found[:-1]) | (rows[1:] != rows[:-1]))[: len(keys)]
    firsts = np.flatnonzero(differs)
    sums = _sums(keys, firsts, is_negative is not None)
    return np.diff(np.searchsorted(firsts, bounds)), found[firsts].astype(np.int32), sums


def _firsts(keys: npt.NDArray[Any]) -> Ints:
    """Return where each of some sorted keys begins."""
    differs = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=differs[1:])
    return differs.nonzero()[0]


def _sums(keys: npt.NDArray[Any], firsts: Ints, are_signed: bool) -> Ints:
    """Return how many features each column has, those whose lowest bit is 1 subtracted."""
    ends = np.empty(len(firsts) + 1, np.int64)
    ends[:-1] = firsts
    ends[-1] = len(keys)
    sums: Ints = ends[1:] - firsts
    if are_signed:
        negative = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(keys & keys.dtype.type(1), out=negative[1:])
        sums -= 2 * np.diff(negative[ends])
    return sums


def sum_columns(
    rows: Ints, columns: npt.NDArray[Any], values: npt.NDArray[Any], count: int
) -> Entries:
    """Return the entries of rows of features with values, which are added one after another.

    Parameters
    ----------
    rows, columns, values : ndarray of shape (n_features,)
        A feature with a column below 0 is left out.
    count : int
        Number of rows.
    """
    rows, columns, values = _known(columns, rows, columns, values)
    keys = rows << HALF
    keys |= columns
    order = keys.argsort(kind="stable")  # the quickest way too: keys nearly ascend
    keys = keys[order]
    values = values[order]
    firsts = _firsts(keys)
    sums = values[firsts]
    if len(firsts) < len(keys):
        are_later = np.ones(len(keys), bool)
        are_later[firsts] = False
        later = are_later.nonzero()[0]
        np.add.at(sums, np.searchsorted(firsts, later) - 1, values[later])
    found = keys[firsts]
    return np.bincount(found >> HALF, minlength=count), (found & COLUMN).astype(np.int32), sums
