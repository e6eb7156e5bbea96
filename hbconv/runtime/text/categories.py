"""Values of categories to codes, through a vocabulary: exact, never truncated, never hashed."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hbconv.containers import EditedVocabulary, Missing, Vocabulary, missing_of
from hbconv.errors import InputError, shown

__all__ = ["FEW", "NULL", "Categories", "Null", "Text", "addresses", "encode", "has_arrow"]

Null = Missing | Literal["null"]
NULL: Null = "null"
"""The missing value of a table that knows but one."""
UNKNOWN = -1
MANY = 1000
"""Rows from which finding the distinct values first pays."""
# 64 rows of Arrow take 9 us one by one, and 54 us as a join with 800 texts, or 17 ms with 100,000.
FEW = 256
"""Rows up to which a look-up of each value is faster than a join by Arrow."""


@dataclass(frozen=True)
class Text:
    """A column of text.

    Parameters
    ----------
    values : ndarray of object, or pyarrow Array or ChunkedArray of strings
    null : {"null", "none", "nan", "na"}
        What an Arrow null stands for: what the model was fitted on, None, NaN, or ``pandas.NA``.
    """

    values: Any
    null: Null = NULL

    def objects(self) -> npt.NDArray[np.object_]:
        """Return the values, nulls as None."""
        values = self.values if isinstance(self.values, np.ndarray) else self.values.to_pylist()
        # Nulls of pandas may be None, NaN or NA.
        return np.array([v if isinstance(v, str) else None for v in values], dtype=object)

    def part(self, rows: slice | npt.NDArray[np.integer[Any]]) -> Text:
        """Return some of the rows."""
        return replace(
            self,
            values=self.values[rows]
            if isinstance(rows, slice) or isinstance(self.values, np.ndarray)
            else self.values.take(rows),
        )


@dataclass(frozen=True)
class Categories:
    """A column of codes into text values; a negative code is a null."""

    codes: npt.NDArray[Any]
    values: Text

    def objects(self) -> npt.NDArray[np.object_]:
        """Return the values, nulls as None."""
        return np.take(np.array([*self.values.objects(), None], dtype=object), self.codes)

    def part(self, rows: slice | npt.NDArray[np.integer[Any]]) -> Categories:
        """Return some of the rows."""
        return replace(self, codes=self.codes[rows])


def has_arrow() -> bool:
    """Whether pyarrow is installed: text is then encoded some five times as fast."""
    return importlib.util.find_spec("pyarrow") is not None


def encode(
    column: Text | Categories | npt.NDArray[Any], vocabulary: Vocabulary, where: str
) -> npt.NDArray[np.int32]:
    """Return the code of each value: its position in the vocabulary, -1 for unknown values.

    Parameters
    ----------
    column : Text, Categories or ndarray
        Numbers are refused where only texts are known. A column of NaN alone is allowed: files give
        it for text that is missing in each row.
    vocabulary : Vocabulary
    where : str
        What the column is called in messages.

    Examples
    --------
    >>> column = np.array(["b", "bb", None], dtype=object)
    >>> encode(column, Vocabulary(("a", "b"), none=2), "Column 'c'").tolist()
    [1, -1, 2]
    """
    if isinstance(column, Categories):
        return _encode_categories(column, vocabulary, where)
    values = column.values if isinstance(column, Text) else column
    if not isinstance(values, np.ndarray):
        return _encode_arrow(
            values,
            vocabulary,
            _null_code(column.null, vocabulary) if isinstance(column, Text) else UNKNOWN,
        )
    if (
        values.dtype.kind == "U"
        and values.dtype.itemsize
        and has_arrow()
        and vocabulary.blank == UNKNOWN
        and not isinstance(vocabulary, EditedVocabulary)
    ):
        return _encode_fixed(values, vocabulary)
    # Without Arrow, or where blanks count, texts are looked up one by one.
    if values.dtype.kind in "OUST":
        return _encode_objects(values.astype(object, copy=False), vocabulary, where)
    return _encode_numbers(values, vocabulary, where)


def _encode_categories(
    column: Categories, vocabulary: Vocabulary, where: str
) -> npt.NDArray[np.int32]:
    null = np.int32(_null_code(column.values.null, vocabulary))
    # Which categories are refused does not depend on the rows, so that all of them count there.
    if len(column.codes) < len(column.values.values) and vocabulary.blank == UNKNOWN:
        occurring = encode(column.values.part(np.maximum(column.codes, 0)), vocabulary, where)
        return np.where(column.codes < 0, null, occurring)
    codes = encode(column.values, vocabulary, where)
    _refuse_blank(column.values, codes, vocabulary, where)
    # The null's code is last, where code -1 finds it.
    return np.take(np.append(codes, null), column.codes)


def _refuse_blank(
    categories: Text, codes: npt.NDArray[np.int32], vocabulary: Vocabulary, where: str
) -> None:
    """Refuse categories that count as missing where they are texts, but not as categories."""
    if vocabulary.blank == UNKNOWN:
        return
    odd = [text for text in categories.objects()[codes == vocabulary.blank] if text is not None]
    if odd:
        raise InputError(
            f"{where} has the category {shown(odd[0])}, which the source model takes for missing "
            "in a column of texts alone. Convert the column to texts."
        )


def _null_code(null: Null, vocabulary: Vocabulary) -> int:
    """Return the code of a null; one that is not settled for its column by this vocabulary."""
    missing = missing_of([vocabulary]) if null == NULL else null
    return {"none": vocabulary.none, "nan": vocabulary.nan, "na": vocabulary.na}[missing]


def _encode_objects(
    values: npt.NDArray[Any], vocabulary: Vocabulary, where: str
) -> npt.NDArray[np.int32]:
    try:
        # pandas is used where the caller has imported it, and never imported for this.
        if len(values) >= MANY and "pandas" in sys.modules:
            return _encode_distinct(values, vocabulary)
        return _look_up(values.tolist(), vocabulary)
    except TypeError as error:
        odd = next(v for v in values.tolist() if _is_refused(v, vocabulary))
        raise InputError(
            f"{where} holds {shown(odd)} of type {type(odd).__name__}, where the model needs text."
        ) from error


def _is_refused(value: object, vocabulary: Vocabulary) -> bool:
    """Tell whether a look-up of the value raises an error."""
    try:
        vocabulary.codes[value]
    except TypeError:
        return True
    return False


def _look_up(values: list[Any], vocabulary: Vocabulary) -> npt.NDArray[np.int32]:
    return np.fromiter(map(vocabulary.codes.__getitem__, values), np.int32, len(values))


def _encode_distinct(values: npt.NDArray[Any], vocabulary: Vocabulary) -> npt.NDArray[np.int32]:
    """Look each distinct object up once: pandas finds them quickly, by their addresses."""
    # Equal texts at two addresses are looked up twice, which is right all the same.
    places, distinct = sys.modules["pandas"].factorize(addresses(values))
    one_of = np.empty(len(distinct), np.intp)
    one_of[places] = np.arange(len(values))
    codes: npt.NDArray[np.int32] = _look_up(values[one_of].tolist(), vocabulary)[places]
    return codes


def addresses(values: npt.NDArray[np.object_]) -> npt.NDArray[np.intp]:
    """Return the address of each object: comparing these is quick."""
    lying = np.ascontiguousarray(values)
    # numpy lets nobody view objects as numbers, so ctypes reads the pointers.
    held = (ctypes.c_ssize_t * len(lying)).from_address(lying.ctypes.data)
    # A copy, as the memory belongs to an array that may die.
    return np.ctypeslib.as_array(held).copy()


def _encode_fixed(values: npt.NDArray[Any], vocabulary: Vocabulary) -> npt.NDArray[np.int32]:
    """Compare numpy's text of one width as the bytes it is; such text ends in no null character."""
    texts, codes = vocabulary.texts
    # numpy holds a character of text in four bytes.
    width = values.dtype.itemsize // 4
    # A longer text equals no value, and numpy would cut it to one that may.
    fits = np.array([len(text) <= width and not text.endswith("\0") for text in texts], bool)
    terms = np.array(texts, object)[fits].astype(f"U{width}")
    return _find_codes(
        _as_bytes(values.astype(terms.dtype, copy=False)), _as_bytes(terms), codes[fits]
    )


def _as_bytes(values: npt.NDArray[Any]) -> Any:
    import pyarrow as pa

    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(values.dtype.itemsize),
        len(values),
        [None, pa.py_buffer(np.ascontiguousarray(values))],
    )


def _encode_arrow(values: Any, vocabulary: Vocabulary, null: int) -> npt.NDArray[np.int32]:
    # Bytes that are no UTF-8 make no text of Python: they are joined as they lie.
    with suppress(UnicodeDecodeError):
        if len(values) <= FEW:
            return _look_up_texts(values, vocabulary, null)
        if isinstance(vocabulary, EditedVocabulary) or len(vocabulary.values) > len(values):
            return _look_up_distinct(values, vocabulary, null)
    return _join_texts(values, vocabulary, null)


def _look_up_texts(values: Any, vocabulary: Vocabulary, null: int) -> npt.NDArray[np.int32]:
    codes = vocabulary.codes
    texts = values.to_pylist()
    if not values.null_count:
        return _look_up(texts, vocabulary)
    return np.array([null if text is None else codes[text] for text in texts], np.int32)


def _look_up_distinct(values: Any, vocabulary: Vocabulary, null: int) -> npt.NDArray[np.int32]:
    """Look each distinct text up once: it is edited, or many more are known than there are rows."""
    import pyarrow as pa

    encoded = values.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    codes = _look_up(encoded.dictionary.to_pylist(), vocabulary)
    places = encoded.indices
    positions = np.asarray(places.fill_null(UNKNOWN) if places.null_count else places)
    # The null's code is last, where position -1 finds it.
    return np.take(np.append(codes, np.int32(null)), positions)


def _join_texts(values: Any, vocabulary: Vocabulary, null: int) -> npt.NDArray[np.int32]:
    import pyarrow.compute as pc

    _, codes = vocabulary.texts
    known = _known_texts(vocabulary, values.type)
    found_codes = _find_codes(values, known, codes)
    if vocabulary.blank != UNKNOWN:
        found_codes = _with_blank(values, vocabulary, found_codes)
    # Null characters at the end of a spelled text do not count.
    if vocabulary.spelled and (found_codes == UNKNOWN).any():
        found_codes = _find_codes(pc.utf8_rtrim(values, characters="\0"), known, codes)
    if values.null_count == 0 or null == UNKNOWN:
        return found_codes
    return np.where(np.asarray(pc.is_null(values)), np.int32(null), found_codes)


def _known_texts(vocabulary: Vocabulary, kind: Any) -> Any:
    """Return the known texts as an Arrow array, made once: of 100,000 that takes 20 ms."""
    import pyarrow as pa

    if kind not in vocabulary.kept:
        vocabulary.kept[kind] = pa.array(map(_valid, vocabulary.texts[0]), kind)
    return vocabulary.kept[kind]


def _with_blank(
    values: Any, vocabulary: Vocabulary, found: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """Give texts that count as blank their code; each distinct text is looked at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    unknown = pc.unique(values.filter(pa.array(found == UNKNOWN))).drop_null()
    blank = [text for text in unknown.to_pylist() if vocabulary.code_of_unknown(text) != UNKNOWN]
    if not blank:
        return found
    is_blank = pc.is_in(values, value_set=pa.array(blank, values.type), skip_nulls=True)
    fresh = np.asarray(is_blank.fill_null(False)) & (found == UNKNOWN)
    return np.where(fresh, np.int32(vocabulary.blank), found)


def _valid(text: str) -> str | None:
    """Return the text itself, or None for half of a surrogate pair, which Arrow cannot hold."""
    return (
        text
        if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
        else None
    )


def _find_codes(values: Any, known: Any, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the code of each value of an Arrow array, given those of the known ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places = pc.index_in(values, value_set=known, skip_nulls=True)
    places = places.combine_chunks() if isinstance(places, pa.ChunkedArray) else places
    places = places.fill_null(UNKNOWN) if places.null_count else places
    positions = np.asarray(places, dtype=np.int32)
    return (
        positions
        # Positions are the codes of most vocabularies: no second look-up.
        if np.array_equal(codes, np.arange(len(codes)))
        else np.append(codes, np.int32(UNKNOWN))[positions]
    )


def _encode_numbers(
    values: npt.NDArray[Any], vocabulary: Vocabulary, where: str
) -> npt.NDArray[np.int32]:
    """Look numbers up by their value; refuse them where only texts are known, but for NaN alone."""
    is_missing = values.dtype.kind == "f" and bool(np.isnan(values).all())
    takes_numbers = vocabulary.spelled or not vocabulary.is_text
    if not is_missing and not (values.dtype.kind in "biuf" and takes_numbers):
        held = {"M": "dates", "m": "time spans"}.get(values.dtype.kind, "numbers")
        raise InputError(
            f"{where} holds {held} (dtype {values.dtype}), where the model was fitted on text. "
            "Pass text, as in fitting."
        )
    # Each distinct number is looked up once.
    distinct, places = np.unique(values, return_inverse=True)
    return _look_up(distinct.tolist(), vocabulary)[places]
