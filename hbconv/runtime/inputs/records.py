"""Records: rows as requests have them, from a dict of scalars to JSON text, as a Frame.

Iterables of texts, mappings or sequences, one a row, as a table of one column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.runtime.inputs.dataframes import Frame, plain_column, read_sequence

__all__ = ["are_scalars", "is_nothing", "parse_json", "read_items", "read_records"]

Record = Mapping[Any, Any]
CELL_TYPES = frozenset((str, int, float, bool, NoneType))


def parse_json(x: Any) -> Any:
    """Return what JSON text holds, and everything else as it is.

    Text holds a record, a list of records, a list of lists, columns by name, or a table as pandas
    splits it: ``{"columns": [...], "data": [[...], ...]}``.

    Raises
    ------
    InputError
        Text that is not JSON, or that gives one key twice.

    Examples
    --------
    >>> parse_json('[{"age": 30}]')
    [{'age': 30}]
    >>> parse_json('{"columns": ["age"], "data": [[30], [31]]}')
    [{'age': 30}, {'age': 31}]
    """
    if not isinstance(x, str | bytes | bytearray | memoryview):
        return x
    # ``json`` reads bytes and bytearrays, but no memoryview.
    text = bytes(x) if isinstance(x, memoryview) else x
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats)
    except InputError:
        raise
    # Brackets nested a thousand deep exhaust the parser's recursion.
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"X is text, and not JSON of rows ({str(error).rstrip('.'):.200}). Give one record, "
            'such as {"age": 30}, a list of them, or a table.'
        ) from error
    return _join_split(value) if _is_split(value) else value


def is_nothing(x: Any) -> bool:
    """Whether it is a list without rows, which may be of records or of anything else."""
    return isinstance(x, list | tuple) and not x


def read_records(x: Any) -> Frame | None:
    """Return a record or a sequence of records as a Frame; None for everything else.

    A record is a mapping whose values are scalars, or a row of a pandas frame. Keys may stand in
    any order. A key that some records lack is null there, as pandas has it.

    Raises
    ------
    InputError
        Something else is among the records.

    Examples
    --------
    >>> frame = read_records([{"age": 30, "sex": "f"}, {"sex": "m"}])
    >>> frame.names, frame.rows
    (('age', 'sex'), 2)
    >>> frame.read(0).tolist()
    [30, None]
    """
    if isinstance(x, Mapping):
        return _frame([x]) if _is_record(x) else None
    if _is_row(x):
        return _frame([dict(zip(x.index.tolist(), x.tolist(), strict=True))])
    if isinstance(x, list | tuple) and x and isinstance(x[0], Mapping):
        return _frame(x)
    return None


def _is_record(x: Record) -> bool:
    """Whether a mapping holds scalars, not columns."""
    return not hasattr(x, "tocsr") and bool(x) and all(map(_is_scalar, x.values()))


def _is_scalar(value: Any) -> bool:
    """Whether a value is one cell: an array or a tensor without dimensions is, as numpy has it."""
    is_single = isinstance(value, str | bytes) or not hasattr(value, "__len__")
    return is_single or getattr(value, "ndim", None) == 0


def are_scalars(values: list[Any]) -> bool:
    """Whether all values are cells; most are of few types, each of which is asked once."""
    return CELL_TYPES.issuperset(map(type, values)) or all(map(_is_scalar, values))


def _is_row(x: Any) -> bool:
    """Whether it is a row of a pandas frame: a Series whose index has the columns' names."""
    if not hasattr(x, "iloc") or hasattr(x, "columns"):
        return False
    return bool(len(x)) and all(isinstance(name, str) for name in x.index.tolist())


def _frame(records: Sequence[Record]) -> Frame:
    for number, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError(
                f"Record {number} is {shown(record)} of type {type(record).__name__}, where the "
                "others are mappings of names to values."
            )
    # In the order of first appearance, as pandas has it.
    names = tuple(dict.fromkeys(name for record in records for name in record))

    def read(position: int) -> npt.NDArray[Any]:
        return _column(records, names[position])

    return Frame(names, len(records), read, ordered=False, nullable=True)


def _column(records: Sequence[Record], name: Any) -> npt.NDArray[Any]:
    values = [record.get(name) for record in records]
    if not are_scalars(values):
        odd = next(value for value in values if not _is_scalar(value))
        raise InputError(
            f"Column {shown(name)} holds {shown(odd)} of type {type(odd).__name__}. "
            "A record holds one value for each name."
        )
    return plain_column(name, values)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A dict keeps the last of two equal keys, so that the first would be lost in silence.
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"The JSON text gives {shown(twice)} twice. Rename or drop one of them.")
    return record


def _is_split(value: Any) -> bool:
    """Whether it is a table as pandas splits it: names, and lists of values."""
    if not isinstance(value, dict) or not {"columns", "data"} <= value.keys():
        return False
    return value.keys() <= {"columns", "data", "index"}


def _join_split(split: Mapping[str, Any]) -> list[dict[Any, Any]] | dict[Any, Any]:
    names, rows = split["columns"], split["data"]
    if not isinstance(names, list) or not isinstance(rows, list):
        return dict(split)
    if len(set(map(str, names))) < len(names):
        raise InputError("The JSON table gives a column twice. Rename or drop one of them.")
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(names):
            raise InputError(
                f"Row {number} of the JSON table is {shown(row)}, where {len(names)} values stand "
                "in a row."
            )
    if not rows:
        # Without rows no record would keep the names.
        return {name: [] for name in names}
    return [dict(zip(names, row, strict=True)) for row in rows]


def read_items(x: Any) -> Frame:
    """Return the items of any iterable as a Frame of one column without a name.

    A mapping is one item.

    Raises
    ------
    InputError
        A single text, a table (its items are its names), or what cannot be iterated.

    Examples
    --------
    >>> read_items([{"a": 1}, {"b": 2}]).read(0).tolist()
    [{'a': 1}, {'b': 2}]
    """
    if isinstance(x, str | bytes):
        raise InputError(
            "Iterable over raw text documents expected, string object received. Give a list of one "
            "text."
        )
    if isinstance(x, Mapping):
        return read_items([x])
    if hasattr(x, "columns") or hasattr(x, "column_names"):
        raise InputError(
            f"Expected texts, mappings or sequences, got a {type(x).__name__}, whose items are its "
            "names. Give one of its columns."
        )
    frame = read_sequence(x) if _is_column(x) else None
    if frame is not None:
        return frame
    try:
        rows = list(x)
    except TypeError as error:
        raise InputError(
            f"Expected an iterable of texts, mappings or sequences, got {shown(x)} of type "
            f"{type(x).__name__}."
        ) from error
    column = np.fromiter(rows, object, len(rows))
    return Frame((0,), len(column), lambda _: column, none_is_value=True)


def _is_column(x: Any) -> bool:
    """Whether it is a column of any table library, or an array of one dimension."""
    if isinstance(x, np.ndarray):
        return x.ndim == 1 and x.dtype.names is None
    return hasattr(x, "iloc") or type(x).__module__.partition(".")[0] in ("pyarrow", "polars")
