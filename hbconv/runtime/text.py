"""Text to codes: exact, through a vocabulary; never truncated, never hashed."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.columns import Vocabulary
from hbconv.errors import InputError

__all__ = ["Categories", "Text", "encode", "has_arrow"]

UNKNOWN = -1


@dataclass(frozen=True)
class Text:
    """A column of text.

    Parameters
    ----------
    values : ndarray of object, or pyarrow Array or ChunkedArray of strings
    null : {"none", "nan", "unknown"}
        What an Arrow null stands for: None (or NaN, where the model knows only that), NaN, or no known value (``pandas.NA``).
    """

    values: Any
    null: str = "none"

    def part(self, rows: slice) -> Text:
        """Return some of the rows."""
        return replace(self, values=self.values[rows])


@dataclass(frozen=True)
class Categories:
    """A column of codes into text values; a negative code is a null."""

    codes: npt.NDArray[Any]
    values: Text

    def part(self, rows: slice) -> Categories:
        """Return some of the rows."""
        return replace(self, codes=self.codes[rows])


class _Lookup(dict[Any, int]):
    """Codes by value: those not in it are NaN, or unknown."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(zip(vocabulary.values, range(len(vocabulary.values)), strict=True))
        self[None] = vocabulary.none
        self._nan = vocabulary.nan

    def __missing__(self, value: object) -> int:
        return self._nan if isinstance(value, float) and value != value else UNKNOWN


def has_arrow() -> bool:
    """Whether pyarrow is installed: text is then encoded some five times as fast."""
    return importlib.util.find_spec("pyarrow") is not None


def encode(column: Text | Categories | npt.NDArray[Any], vocabulary: Vocabulary, where: str) -> npt.NDArray[np.int32]:
    """Return the code of each value: its position in the vocabulary, -1 where it is not there.

    Parameters
    ----------
    column : Text, Categories or ndarray
        Numbers are refused, but for a column of nothing but NaN: text of which all is missing is read so from files.
    vocabulary : Vocabulary
    where : str
        What the column is called in messages.

    Examples
    --------
    >>> encode(np.array(["b", "bb", None], dtype=object), Vocabulary(("a", "b"), none=2), "Column 'c'").tolist()
    [1, -1, 2]
    """
    if isinstance(column, Categories):
        table = np.append(encode(column.values, vocabulary, where), np.int32(_null_code(column.values.null, vocabulary)))
        return np.take(table, np.where(column.codes < 0, len(table) - 1, column.codes)).astype(np.int32, copy=False)
    values = column.values if isinstance(column, Text) else column
    if not isinstance(values, np.ndarray):
        return _encode_arrow(values, vocabulary, _null_code(column.null, vocabulary) if isinstance(column, Text) else UNKNOWN)
    if values.dtype.kind not in "OU":
        return _encode_missing(values, vocabulary, where)
    return _encode_objects(values, vocabulary, where)


def _null_code(null: str, vocabulary: Vocabulary) -> int:
    if null == "unknown":
        return UNKNOWN
    if null == "nan" or vocabulary.none == UNKNOWN:
        return vocabulary.nan
    return vocabulary.none


def _encode_objects(values: npt.NDArray[Any], vocabulary: Vocabulary, where: str) -> npt.NDArray[np.int32]:
    try:
        return np.fromiter(map(_Lookup(vocabulary).__getitem__, values.tolist()), np.int32, len(values))
    except TypeError as error:
        odd = next(v for v in values.tolist() if type(v).__hash__ is None)
        raise InputError(f"{where} holds {odd!r} of type {type(odd).__name__}, where the model needs text.") from error


def _encode_arrow(values: Any, vocabulary: Vocabulary, null: int) -> npt.NDArray[np.int32]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    codes = pc.index_in(values, value_set=pa.array(vocabulary.values, values.type))
    codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
    found = np.asarray(pc.fill_null(codes, UNKNOWN), dtype=np.int32)
    if values.null_count == 0 or null == UNKNOWN:
        return found
    return np.where(np.asarray(pc.is_null(values)), np.int32(null), found)


def _encode_missing(values: npt.NDArray[Any], vocabulary: Vocabulary, where: str) -> npt.NDArray[np.int32]:
    if values.dtype.kind == "f" and np.isnan(values).all():
        return np.full(len(values), vocabulary.nan, np.int32)
    raise InputError(f"{where} holds numbers (dtype {values.dtype}), where the model was fitted on text. Pass text, as in fitting.")
