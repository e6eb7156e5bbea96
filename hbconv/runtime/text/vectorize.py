"""Columns of texts, mappings and sequences to sparse rows, as an Extractor says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Buckets, Extractor, Terms
from hbconv.errors import InputError
from hbconv.runtime.text.ascii_words import Words
from hbconv.runtime.text.categories import Categories, Text
from hbconv.runtime.text.features import INVALID, read_features
from hbconv.runtime.text.murmur_hash import murmur_hash

__all__ = ["extract"]

Entries = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[Any]]
"""The parts of a CSR matrix: where each row begins, then columns and values of its entries."""

BLOCK = 1000
"""Rows cut into features at a time, so that these need little memory."""


def extract(
    column: Text | Categories | npt.NDArray[Any], extractor: Extractor, where: str
) -> Entries:
    """Return sparse rows: ``indptr``, ``indices`` and ``values``, with ascending columns.

    Parameters
    ----------
    column : Text, Categories or ndarray
        An array holds what the rows are: texts, bytes, mappings, sequences.
    extractor : Extractor
    where : str
        What the column is called in messages.

    Raises
    ------
    InputError
        The source model refuses rows: of another kind, missing, or of bytes that are not text.

    Examples
    --------
    >>> from hbconv.containers.extractors import Texts
    >>> words = Extractor(Texts(), Terms(("cat", "sat")), "int64")
    >>> documents = np.array(["The cat: a cat", "", "It sat"], dtype=object)
    >>> [part.tolist() for part in extract(documents, words, "Column 0")]
    [[0, 1, 1, 2], [0, 1], [2, 1]]
    """
    rows = _rows(column, where)
    blocks = [
        _extract_block(rows[first : first + BLOCK], extractor, where)
        for first in range(0, max(1, len(rows)), BLOCK)
    ]
    counts, indices, values = (
        blocks[0]
        if len(blocks) == 1
        else (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    )
    return np.append(0, np.cumsum(counts)), indices, values


def _rows(column: Text | Categories | npt.NDArray[Any], where: str) -> list[Any]:
    if isinstance(column, Categories):
        _require_all(not np.any(column.codes < 0), where)
        return list(map(_rows(column.values, where).__getitem__, column.codes.tolist()))
    values = column.values if isinstance(column, Text) else column
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "OUS":
            raise InputError(
                f"{where} holds numbers (dtype {values.dtype}), where the model was fitted on "
                "texts, mappings or sequences."
            )
        return list(values.tolist())
    _require_all(values.null_count == 0, where)
    return list(values.to_pylist())


def _require_all(there: bool, where: str) -> None:
    if not there:
        raise InputError(f"{where}: {INVALID}")


def _extract_block(rows: Sequence[Any], extractor: Extractor, where: str) -> Entries:
    """Return the number of entries of each row, then their columns and values."""
    width, features = extractor.width, read_features(extractor.rows, rows, extractor.dtype, where)
    columns, signs = _place(features.names, extractor.columns, where)
    values = (
        signs
        if features.values is None
        else _converted(
            features.values if signs is None else features.values * signs, extractor.dtype, where
        )
    )
    known, keys = columns >= 0, np.repeat(np.arange(len(rows)) * width, features.counts) + columns
    keys, sums = _summed(keys[known], None if values is None else values[known])
    ends = np.searchsorted(keys, np.arange(len(rows) + 1) * width)
    sums = np.ones_like(sums) if extractor.binary else sums
    return (
        np.diff(ends),
        (keys % max(1, width)).astype(np.int32),
        sums.astype(extractor.dtype, copy=False),
    )


def _place(
    names: Sequence[Any] | Words, columns: Terms | Buckets, where: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """Return the column of each name, -1 for unknown ones, and the sign of its value.

    The signs are None if all are positive.
    """
    try:
        if isinstance(columns, Terms):
            return names.places(columns) if isinstance(names, Words) else _looked_up(
                names, columns
            ), None
        hashes = (names.hashes() if isinstance(names, Words) else murmur_hash(names)).astype(
            np.int64
        )
    except (TypeError, UnicodeError) as error:
        raise InputError(f"{where}: feature names must be strings. {error}") from error
    return np.abs(hashes) % columns.width, np.where(hashes < 0, -1, 1) if columns.signed else None


def _looked_up(names: Sequence[Any], terms: Terms) -> npt.NDArray[np.int64]:
    found: map[int] = map(terms.places.get, names, repeat(-1))
    return np.fromiter(found, np.int64, len(names))


def _converted(values: npt.NDArray[Any], dtype: str, where: str) -> npt.NDArray[Any]:
    """Return values in the dtype of the sums: towards zero where that is an int."""
    if np.dtype(dtype).kind == "i" and values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(
            f"{where} holds a value that is no finite number, which {dtype} cannot hold."
        )
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def _summed(
    keys: npt.NDArray[np.int64], values: npt.NDArray[Any] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return each key once, ascending, and the sum of its values, of floats in their order."""
    order = (
        None
        if values is None
        else np.argsort(keys, kind="stable" if values.dtype.kind == "f" else None)
    )
    keys = np.sort(keys) if order is None else keys[order]
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    if values is None or order is None:
        return keys[firsts], np.diff(np.append(firsts, len(keys)))
    return keys[firsts], np.add.reduceat(values[order], firsts) if len(firsts) else values
