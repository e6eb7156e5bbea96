"""Columns of texts, mappings and sequences to sparse rows, as an Extractor says.

Columns of the features of rows to the entries of sparse rows: each column once, with its sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Buckets, Extractor, Terms, Texts
from hbconv.errors import InputError, shown
from hbconv.runtime.text.categories import Categories, Text
from hbconv.runtime.text.counters import Counted, Counter, Documents, counter_of
from hbconv.runtime.text.features import INVALID, read_documents, read_features
from hbconv.runtime.text.runs import Grams
from hbconv.runtime.text.text_hash import murmur_hash

__all__ = ["Entries", "count_columns", "extract", "sum_columns"]

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
    rows, counter = _rows_and_counter(column, extractor, where)
    size = _block_size(extractor)
    # One block, as of nearly all calls, needs no copy.
    if len(rows) <= size:
        return _extract_block(rows, counter, extractor, where)
    blocks = [
        _extract_block(rows[first : first + size], counter, extractor, where)
        for first in range(0, len(rows), size)
    ]
    starts, indices, values = zip(*blocks, strict=True)
    counts = np.concatenate(list(map(np.diff, starts)))
    return _starts_of(counts), np.concatenate(indices), np.concatenate(values)


def _rows_and_counter(
    column: Text | Categories | npt.NDArray[Any], extractor: Extractor, where: str
) -> tuple[Any, Counter | None]:
    """Return the rows, a list or texts of Arrow, and the kernel that reads them, if one does."""
    texts = extractor.rows
    if isinstance(texts, Texts) and texts.missing_is_empty:
        rows = _filled_rows(column, texts, where)
    else:
        rows = _rows(column, where)
    counter = counter_of(extractor, len(rows))
    # Texts of Arrow stay where they lie for a kernel alone.
    stay = isinstance(texts, Texts) and not texts.folded and counter is not None and len(rows)
    return rows if isinstance(rows, list) or stay else rows.to_pylist(), counter


def _starts_of(counts: Ints) -> Ints:
    """Return where the entries of each row begin, and where the last ones end."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _block_size(extractor: Extractor) -> int:
    """Return how many rows are cut at a time: fewer where each has thousands of bytes of names."""
    texts = extractor.rows
    if not isinstance(texts, Texts):
        return BLOCK
    # Hashed n-grams are cut as names, which take more bytes than the numbers of terms.
    are_hashed = isinstance(extractor.columns, Buckets) and texts.longest > 1
    return SMALL_BLOCK if texts.unit != "word" or are_hashed else BLOCK


def _filled_rows(
    column: Text | Categories | npt.NDArray[Any], texts: Texts, where: str
) -> list[Any]:
    """Return the documents, with the empty one for each that is missing or counts as empty."""
    if isinstance(column, Categories):
        categories = _filled_rows(
            column.values, replace(texts, empty=(), blank_is_empty=False), where
        )
        _refuse_emptied(categories, texts, where)
        # The empty document is last, where code -1 finds it.
        distinct = [*categories, ""]
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


def _rows(column: Text | Categories | npt.NDArray[Any], where: str) -> Any:
    """Return the rows as a list, or as texts of Arrow."""
    if isinstance(column, Categories):
        # A negative code is a null, which the source refuses.
        _require_all(not np.any(column.codes < 0), where)
        values = _rows(column.values, where)
        listed = values if isinstance(values, list) else values.to_pylist()
        return list(map(listed.__getitem__, column.codes.tolist()))
    values = column.values if isinstance(column, Text) else column
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "OUST" and values.size:
            raise InputError(
                f"{where} holds numbers (dtype {values.dtype}), where the model was fitted on "
                "texts, mappings or sequences."
            )
        return list(values.tolist())
    _require_all(values.null_count == 0, where)
    return values


def _require_all(there: bool, where: str) -> None:
    if not there:
        raise InputError(f"{where}: {INVALID}")


def _extract_block(rows: Any, counter: Counter | None, extractor: Extractor, where: str) -> Entries:
    """Return where the entries of each row begin, their columns and values."""
    if counter is None or not isinstance(extractor.rows, Texts):
        return _cut_block(rows, extractor, where)
    documents = rows
    if isinstance(rows, list):
        documents = read_documents(rows, extractor.rows, where)
    # Half of a surrogate pair is no UTF-8.
    with suppress(UnicodeEncodeError):
        counted = counter.count(_side_by_side(documents))
        if counted is not None:
            return _completed(counted, documents, extractor, where)
    return _cut_block(_at(documents, range(len(documents))), extractor, where)


def _side_by_side(documents: Any) -> Documents:
    if not hasattr(documents, "type"):
        return Documents.of_texts(documents)
    if not hasattr(documents, "chunks"):
        return Documents.of_arrow(documents)
    single = documents.num_chunks == 1
    return Documents.of_arrow(documents.chunk(0) if single else documents.combine_chunks())


def _at(documents: Any, places: Sequence[int]) -> list[str]:
    """Return some of the documents, a list or texts of Arrow, as a list."""
    if hasattr(documents, "take"):
        return list(documents.take(list(places)).to_pylist())
    return [documents[place] for place in places]


def _completed(counted: Counted, documents: Any, extractor: Extractor, where: str) -> Entries:
    """Return the entries, with those of documents that the kernel did not read."""
    starts, columns, sums, unread = counted
    values = (np.ones_like(sums) if extractor.binary else sums).astype(extractor.dtype)
    if not unread:
        return starts, columns, values
    others = _cut_block(_at(documents, unread), extractor, where)
    counts = np.diff(starts)
    counts[unread] = np.diff(others[0])
    is_unread = np.zeros(len(counts), bool)
    is_unread[unread] = True
    is_other = np.repeat(is_unread, counts)
    every = np.empty(len(is_other), np.int32), np.empty(len(is_other), values.dtype)
    for joined, read, other in zip(every, (columns, values), others[1:], strict=True):
        joined[is_other], joined[~is_other] = other, read
    return _starts_of(counts), *every


def _cut_block(rows: Sequence[Any], extractor: Extractor, where: str) -> Entries:
    """Return the same of rows that are cut into features first."""
    features = read_features(extractor.rows, rows, extractor, where)
    columns, is_negative = _place(features.names, extractor.columns, where)
    if features.values is None:
        counts, places, sums = count_columns(features.rows, columns, is_negative, len(rows))
    else:
        values = features.values
        if is_negative is not None:
            # ``values`` is an array of this block alone, so it may be written over.
            np.negative(values, out=values, where=is_negative)
        values = _convert(values, extractor.dtype, where)
        counts, places, sums = sum_columns(features.rows, columns, values, len(rows))
    sums = np.ones_like(sums) if extractor.binary else sums
    return _starts_of(counts), places, sums.astype(extractor.dtype, copy=False)


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
            return names.places(columns) if isinstance(names, Grams) else _look_up(
                names, columns
            ), None
        hashes = names.hashes() if isinstance(names, Grams) else murmur_hash(names)
    except (TypeError, UnicodeError) as error:
        raise InputError(f"{where}: feature names must be strings. {error}") from error
    is_negative = hashes < 0 if columns.signed else None
    # The absolute value of -2**31 wraps around to itself, which is 2**31 without a sign.
    return _remainders(np.abs(hashes).view(np.uint32), columns.width), is_negative


def _remainders(sizes: npt.NDArray[np.uint32], width: int) -> npt.NDArray[np.uint32]:
    """Divide; a power of two is quickest."""
    return sizes & np.uint32(width - 1) if width & (width - 1) == 0 else sizes % np.uint32(width)


def _look_up(names: Sequence[Any], terms: Terms) -> npt.NDArray[np.int64]:
    columns: map[int] = map(terms.places.get, names, repeat(-1))
    return np.fromiter(columns, np.int64, len(names))


def _convert(values: npt.NDArray[Any], dtype: str, where: str) -> npt.NDArray[Any]:
    """Return values in the dtype of the sums: towards zero where that is an int."""
    if values.dtype == dtype:
        return values
    if np.dtype(dtype).kind == "i" and values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(
            f"{where} holds a value that is no finite number, which {dtype} cannot hold."
        )
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


Ints = npt.NDArray[np.int64]
Entries = tuple[Ints, npt.NDArray[np.int32], npt.NDArray[Any]]
"""Where the entries of each row begin, or how many there are, then their columns and values."""

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
    # A term that the model does not know is no entry.
    rows, columns = _keep_known(columns, rows, columns)
    if len(rows) <= FEW:
        return _count_few(rows, columns, is_negative, count)
    return _count_by_rows(rows, columns, is_negative, count)


def _keep_known(columns: npt.NDArray[Any], *arrays: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
    """Return what arrays hold of the features that have a column."""
    has_column = columns >= 0
    return arrays if has_column.all() else [array[has_column] for array in arrays]


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
    entries = places[firsts]
    sizes = (
        np.array([len(entries)])
        if count == 1
        else np.bincount(entries >> (ROW - 1), minlength=count)
    )
    return sizes, (entries & COLUMN).astype(np.int32), sums


def _count_by_rows(
    rows: Ints, columns: npt.NDArray[Any], is_negative: npt.NDArray[np.bool_] | None, count: int
) -> Entries:
    """Sort column and sign row by row: rows stay in the cache."""
    keys = columns.astype(np.uint32) << np.uint32(1)
    if is_negative is not None:
        keys |= is_negative
    # N-grams of several sizes come size by size, so that rows do not ascend.
    if np.any(rows[1:] < rows[:-1]):
        order = np.argsort(rows.astype(np.uint16), kind="stable")  # a radix sort; blocks are small
        rows = rows[order]
        keys = keys[order]
    # Rows ascend now, so a search finds where each begins.
    bounds = np.searchsorted(rows, np.arange(count + 1))
    for first, last in pairwise(bounds.tolist()):
        keys[first:last].sort()
    entries = keys >> np.uint32(1)
    # Cut to the number of keys, which may be none.
    differs = np.append(True, (entries[1:] != entries[:-1]) | (rows[1:] != rows[:-1]))[: len(keys)]
    firsts = np.flatnonzero(differs)
    sums = _sums(keys, firsts, is_negative is not None)
    return np.diff(np.searchsorted(firsts, bounds)), entries[firsts].astype(np.int32), sums


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
        # A feature that counts -1 was counted as 1, so each takes 2 off.
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
    rows, columns, values = _keep_known(columns, rows, columns, values)
    keys = rows << HALF
    keys |= columns
    # Stable, because floats are added in the order in which the source adds them.
    order = keys.argsort(kind="stable")  # the quickest way too: keys nearly ascend
    keys = keys[order]
    values = values[order]
    firsts = _firsts(keys)
    sums = values[firsts]
    if len(firsts) < len(keys):
        are_later = np.ones(len(keys), bool)
        are_later[firsts] = False
        later = are_later.nonzero()[0]
        # ``add.at`` adds one after another, as the source does.
        np.add.at(sums, np.searchsorted(firsts, later) - 1, values[later])
    entries = keys[firsts]
    return np.bincount(entries >> HALF, minlength=count), (entries & COLUMN).astype(np.int32), sums
