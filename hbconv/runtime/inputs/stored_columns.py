"""Stored columns: the columns of a frame as its library holds them, and how each kind is read.

``read_frame`` finds out anew what a column is each time. Here the form of a column says it: columns
of one form are read by one function, which is chosen once. Records and lists are arrays first, as
they are there. No library of tables is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from hbconv.errors import InputError
from hbconv.runtime.inputs.arrow_columns import (
    ARROW_NUMBERS,
    Data,
    arrow_categories,
    arrow_numbers,
    read_arrow,
)
from hbconv.runtime.inputs.dataframes import (
    arrays_of_block,
    pandas_blocks,
    pandas_categories,
    pandas_names,
    pandas_text,
    plain_column,
    polars_categories,
)
from hbconv.runtime.inputs.records import are_scalars
from hbconv.runtime.text.categories import Text

__all__ = ["Form", "Read", "StoredColumns", "find_reader", "stored_columns"]

Words = tuple[Any, ...]
Form = np.dtype[Any] | Words
"""How a column is stored: a dtype of numpy, or the words of its library."""
Read = Callable[[Any], Data]
POLARS_NUMBERS = frozenset(
    ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Boolean")
)
POLARS_FLOATS = frozenset(("Float32", "Float64"))
MOST_CELLS = 1 << 17
"""Cells up to which a column at a time is faster.

By the ordinary reading 1,000 rows of 100 columns take 2 to 4 times as long, and of 300 four fifths.
"""
MASKED = frozenset(("IntegerArray", "FloatingArray", "BooleanArray"))
"""Arrays of pandas that hold numbers and a mask of those that are missing."""


class StoredColumns(NamedTuple):
    """The columns of a frame.

    Parameters
    ----------
    library : str
        Or "records" for a list of them, and "columns" for a dict of lists or arrays.
    names : tuple
    forms : tuple of Form
        Of columns of one form the ordinary reading makes the same, but for their values.
    rows : int
    columns : tuple
        As the library holds them.
    """

    library: str
    names: tuple[Any, ...]
    forms: tuple[Form, ...]
    rows: int
    columns: tuple[Any, ...]


def stored_columns(x: Any, rows: range) -> StoredColumns | None:
    """Return the columns of a frame of as many rows as are asked for; None of everything else."""
    read = _LIBRARIES.get(type(x).__module__.partition(".")[0])
    return None if read is None else read(x, rows)


def _of_pandas(x: Any, rows: range) -> StoredColumns | None:
    if not hasattr(x, "columns") or not _are_few(len(x), x.shape[1], rows):
        return None
    columns = pandas_blocks(x, arrays_of_block)
    if columns is None:
        return None
    forms = tuple(map(_pandas_form, columns))
    return StoredColumns("pandas", pandas_names(x), forms, len(x), tuple(columns))


def _are_few(rows: int, columns: int, asked: range) -> bool:
    return rows in asked and rows * columns <= MOST_CELLS


def _pandas_form(array: Any) -> Form:
    if type(array) is np.ndarray:
        return array.dtype  # type: ignore[no-any-return]
    kind = type(array)  # dtypes of pandas hash slowly
    if kind.__name__ == "Categorical":
        return kind, str(array.categories.dtype)
    if kind.__name__ == "ArrowExtensionArray":
        arrow = array.__arrow_array__()
        return kind, str(arrow.type), arrow.null_count > 0
    if kind.__name__ in MASKED:
        return (kind,)
    dtype = array.dtype
    if type(dtype).__name__ == "StringDtype":
        return kind, dtype.storage, isinstance(dtype.na_value, float)
    return kind, "unknown"


def _of_polars(x: Any, rows: range) -> StoredColumns | None:
    if not hasattr(x, "get_columns") or not _are_few(x.height, x.width, rows):
        return None
    columns = tuple(x.get_columns())
    forms = tuple([(type(c.dtype).__name__, c.null_count() > 0) for c in columns])
    return StoredColumns("polars", tuple(x.columns), forms, x.height, columns)


def _of_arrow(x: Any, rows: range) -> StoredColumns | None:
    if not hasattr(x, "num_rows") or not _are_few(x.num_rows, x.num_columns, rows):
        return None
    schema = x.schema
    columns = tuple(x.columns)
    types = map(str, schema.types)
    forms = tuple([(t, c.null_count > 0) for t, c in zip(types, columns, strict=True)])
    return StoredColumns("pyarrow", tuple(schema.names), forms, x.num_rows, columns)


def _of_builtins(x: Any, rows: range) -> StoredColumns | None:
    """Read a list of records, or a dict of columns.

    Each value is looked at once, by numpy: 64 records of 20 numbers take 0.1 ms so. One by one, in
    search of what is no scalar, they take 0.8 ms.
    """
    if type(x) is list and len(x) in rows:
        return _of_records(x)
    if type(x) is not dict or not x or not set(map(type, x.values())) <= {list, np.ndarray}:
        return None
    first = next(iter(x.values()))
    # Long lists are made arrays once, by the ordinary reading.
    if not getattr(first, "ndim", 1) or not _are_few(len(first), len(x), rows):
        return None
    return _of_arrays("columns", tuple(x), x.values())


def _of_records(x: list[Any]) -> StoredColumns | None:
    # What is no cell, as a list, is refused where it is read, and takes long where it is not.
    if set(map(type, x)) != {dict} or not are_scalars([*x[0].values()]):
        return None
    names = tuple(x[0])
    if len(names) * len(x) > MOST_CELLS:
        return None
    columns = _columns_alike(x, names)
    if columns is None:
        # In the order of first appearance, and with null where a record lacks a name.
        names = tuple(dict.fromkeys(chain.from_iterable(x)))
        # Names of their own in each record would make as many columns, nearly all of them null.
        if len(names) * len(x) > min(MOST_CELLS, 2 * sum(map(len, x))):
            return None
        columns = [[record.get(name) for record in x] for name in names]
    stored = _of_arrays("records", names, columns) if names else None
    objects = () if stored is None else (c for c in stored.columns if c.dtype.kind == "O")
    return stored if all(are_scalars(column.tolist()) for column in objects) else None


def _columns_alike(x: list[Any], names: tuple[Any, ...]) -> list[list[Any]] | None:
    """Return the columns of records of the same names, in whatever order; None of others."""
    # Of one name, itemgetter gives no tuple.
    if len(names) < 2 or set(map(len, x)) != {len(names)}:
        return None
    try:
        return [list(column) for column in zip(*map(itemgetter(*names), x), strict=True)]
    except KeyError:
        return None


def _of_arrays(
    library: str, names: tuple[Any, ...], columns: Iterable[Any]
) -> StoredColumns | None:
    """Return columns as arrays, whose dtypes are their forms; None where lengths differ."""
    try:
        arrays = tuple([plain_column(n, c) for n, c in zip(names, columns, strict=True)])
    except InputError:  # the ordinary reading says what is wrong
        return None
    if len(set(map(len, arrays))) > 1:
        return None
    forms = tuple([array.dtype for array in arrays])
    return StoredColumns(library, names, forms, len(arrays[0]), arrays)


_LIBRARIES = {
    "pandas": _of_pandas,
    "polars": _of_polars,
    "pyarrow": _of_arrow,
    "builtins": _of_builtins,
}


def find_reader(library: str, form: Form) -> Read | None:
    """Return what reads columns of a form, as ``read_frame`` does; None where no form says how."""
    return _READERS[library](form)


def _pandas_reader(form: Form) -> Read | None:
    if isinstance(form, np.dtype):
        return _itself
    kind = form[0].__name__
    if kind == "Categorical":
        return pandas_categories
    if kind == "ArrowExtensionArray":
        return lambda array: read_arrow(array.__arrow_array__(), "na")
    if kind in MASKED:
        return lambda array: np.asarray(array.to_numpy(dtype=np.float64, na_value=np.nan))
    return None if form[1] == "unknown" else pandas_text


def _itself(array: Any) -> Data:
    return array  # type: ignore[no-any-return]


def _polars_reader(form: Any) -> Read | None:
    kind, has_nulls = form
    if kind in POLARS_FLOATS or (kind in POLARS_NUMBERS and not has_nulls):
        return lambda series: np.asarray(series.to_numpy())
    if kind == "String":
        return lambda series: np.array(series.to_list(), object)
    return polars_categories if kind in ("Categorical", "Enum") else None


def _arrow_reader(form: Any) -> Read | None:
    kind, has_nulls = form
    if kind in ARROW_NUMBERS or (kind == "bool" and not has_nulls):
        return arrow_numbers
    if kind in ("string", "large_string"):
        return Text
    return arrow_categories if kind.startswith(_DICTIONARIES) else None


_DICTIONARIES = ("dictionary<values=string,", "dictionary<values=large_string,")
_READERS: dict[str, Callable[[Any], Read | None]] = {
    "pandas": _pandas_reader,
    "polars": _polars_reader,
    "pyarrow": _arrow_reader,
    "records": lambda _: _itself,
    "columns": lambda _: _itself,
}
