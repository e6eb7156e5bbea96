"""Columns of texts, mappings and sequences to sparse rows, as an Extractor says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Buckets, Extractor, Terms, Texts
from hbconv.errors import InputError, shown
from hbconv.runtime.text.categories import Categories, Text
from hbconv.runtime.text.counting import Entries, count_columns, sum_columns
from hbconv.runtime.text.features import INVALID, read_features
from hbconv.runtime.text.murmur_hash import murmur_hash
from hbconv.runtime.text.runs import Grams

__all__ = ["extract"]

BLOCK, SMALL_BLOCK = 1000, 250
"""Rows cut into features at a time, so that these stay in the cache: words, or more and longer."""


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
    rows = (
        _filled_rows(column, extractor.rows, where)
        if isinstance(extractor.rows, Texts) and extractor.rows.missing_is_empty
        else _rows(column, where)
    )
    size = _block_size(extractor)
    blocks = [
        _extract_block(rows[first : first + size], extractor, where)
        for first in range(0, max(1, len(rows)), size)
    ]
    counts, indices, values = (
        blocks[0]
        if len(blocks) == 1
        else (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    )
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts, indices, values


def _block_size(extractor: Extractor) -> int:
    """Return how many rows are cut at a time: fewer where each has thousands of bytes of names."""
    texts = extractor.rows
    if not isinstance(texts, Texts):
        return BLOCK
    are_hashed = isinstance(extractor.columns, Buckets) and texts.longest > 1
    return SMALL_BLOCK if texts.unit != "word" or are_hashed else BLOCK


def _filled_rows(
    column: Text | Categories | npt.NDArray[Any], texts: Texts, where: str
) -> list[Any]:
    """Return the documents, with the empty one for each that is missing or counts as empty."""
    if isinstance(column, Categories):
        given = _filled_rows(column.values, replace(texts, empty=(), blank_is_empty=False), where)
        _refuse_emptied(given, texts, where)
        distinct = [*given, ""]
        return [distinct[code] for code in column.codes.tolist()]
    values = column.values if isinstance(column, Text) else column
    if isinstance(values, np.ndarray):
        is_missing = values.dtype.kind == "f" and bool(np.isnan(values).all())
        rows = [""] * len(values) if is_missing else _rows(column, where)
    else:
        rows = values.to_pylist()
    empty = {*texts.empty}
    return ["" if _is_empty(row, empty, texts) else row for row in rows]


def _refuse_emptied(categories: list[Any], texts: Texts, where: str) -> None:
    """Refuse categories that count as empty where they are texts, but not as categories."""
    empty = {*texts.empty}
    odd = [row for row in categories if row != "" and _is_empty(row, empty, texts)]
    if odd:
        raise InputError(
            f"{where} has the category {shown(odd[0])}, which the source model takes for missing "
            "in a column of texts alone. Convert the column to texts."
        )


def _is_empty(row: Any, empty: set[str], texts: Texts) -> bool:
    if isinstance(row, str):
        return row in empty or (texts.blank_is_empty and not row.strip())
    return row is None or type(row).__name__ == "NAType" or (isinstance(row, float) and row != row)


def _rows(column: Text | Categories | npt.NDArray[Any], where: str) -> list[Any]:
    if isinstance(column, Categories):
        _require_all(not np.any(column.codes < 0), where)
        return list(map(_rows(column.values, where).__getitem__, column.codes.tolist()))
    values = column.values if isinstance(column, Text) else column
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "OUS" and values.size:
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
    features = read_features(extractor.rows, rows, extractor, where)
    columns, is_negative = _place(features.names, extractor.columns, where)
    if features.values is None:
        counts, places, sums = count_columns(features.rows, columns, is_negative, len(rows))
    else:
        values = features.values
        if is_negative is not None:
            np.negative(values, out=values, where=is_negative)
        values = _converted(values, extractor.dtype, where)
        counts, places, sums = sum_columns(features.rows, columns, values, len(rows))
    sums = np.ones_like(sums) if extractor.binary else sums
    return counts, places, sums.astype(extractor.dtype, copy=False)


def _place(
    names: Sequence[Any] | Grams | npt.NDArray[np.int64], columns: Terms | Buckets, where: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Return the column of each name, -1 for unknown ones, and whether it counts against it.

    None if none does.
    """
    if isinstance(names, np.ndarray):
        return names, None
    try:
        if isinstance(columns, Terms):
            return names.places(columns) if isinstance(names, Grams) else _looked_up(
                names, columns
            ), None
        hashes = names.hashes() if isinstance(names, Grams) else murmur_hash(names)
    except (TypeError, UnicodeError) as error:
        raise InputError(f"{where}: feature names must be strings. {error}") from error
    is_negative = hashes < 0 if columns.signed else None
    return _remainders(np.abs(hashes).view(np.uint32), columns.width), is_negative


def _remainders(sizes: npt.NDArray[np.uint32], width: int) -> npt.NDArray[np.uint32]:
    """Divide; a power of two is quickest."""
    return sizes & np.uint32(width - 1) if width & (width - 1) == 0 else sizes % np.uint32(width)


def _looked_up(names: Sequence[Any], terms: Terms) -> npt.NDArray[np.int64]:
    found: map[int] = map(terms.places.get, names, repeat(-1))
    return np.fromiter(found, np.int64, len(names))


def _converted(values: npt.NDArray[Any], dtype: str, where: str) -> npt.NDArray[Any]:
    """Return values in the dtype of the sums: towards zero where that is an int."""
    if values.dtype == dtype:
        return values
    if np.dtype(dtype).kind == "i" and values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(
            f"{where} holds a value that is no finite number, which {dtype} cannot hold."
        )
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)
