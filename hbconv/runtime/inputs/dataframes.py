"""Tables of every kind as named columns: pandas, polars, Arrow, dicts, structured arrays.

No library of tables is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, MissingPackageError
from hbconv.runtime.inputs.arrow_columns import PLAIN, Data, read_arrow
from hbconv.runtime.inputs.dates import Zoned
from hbconv.runtime.text.categories import Categories, Null, Text, has_arrow

__all__ = [
    "Frame",
    "arrays_of_block",
    "is_nullable",
    "pandas_blocks",
    "pandas_categories",
    "pandas_dtypes",
    "pandas_names",
    "pandas_text",
    "plain_column",
    "polars_categories",
    "read_frame",
    "read_sequence",
]

MANY = 4
"""Columns from which reading them together is faster than one by one."""
FEW_VALUES = 20_000
"""Values up to which copying them takes less than pandas does to choose their columns."""


@dataclass(frozen=True)
class Frame:
    """A table: names, number of rows, and a function that reads one column by its position.

    ``is_category`` marks the columns that pandas holds as categories; None for other tables.
    ``read_values`` reads a column of categories, if bools or nulls are to be told from numbers.
    ``read_alike`` reads several columns of one plain dtype at once, if that is faster.
    ``ordered`` is False for mappings, whose items have names but no order.
    ``none_is_value`` is True for tables that tell None from other missing values, as pandas does.
    ``nullable`` is True for records and for tables of Arrow and polars, whose bools may be null.
    """

    names: tuple[Any, ...]
    rows: int
    read: Callable[[int], Data]
    matrix: npt.NDArray[Any] | None = None
    is_category: Callable[[int], bool] | None = None
    read_alike: Callable[[list[int]], npt.NDArray[Any]] | None = None
    dtypes: Sequence[Any] = ()
    ordered: bool = True
    read_values: Callable[[int], Data] | None = None
    none_is_value: bool = False
    nullable: bool = False

    def has_bools(self, position: int, values: npt.NDArray[Any]) -> bool:
        """Whether the values of a column are bools, none of which can be null."""
        dtype = self.dtypes[position] if len(self.dtypes) else values.dtype
        return not self.nullable and dtype == np.bool_

    def alike(self, positions: Sequence[int]) -> list[tuple[list[int], npt.NDArray[Any]]]:
        """Read many columns of one plain dtype together: their positions, and their values."""
        groups: dict[Any, list[int]] = {}
        for i in positions if self.read_alike else ():
            if self.dtypes[i] in PLAIN:
                groups.setdefault(self.dtypes[i], []).append(i)
        return [
            (group, self.read_alike(group))
            for group in groups.values()
            if self.read_alike and len(group) >= MANY
        ]


def read_frame(x: Any) -> Frame | None:
    """Return x as a Frame, or None where it is no table of named columns."""
    if isinstance(x, Mapping) and not hasattr(x, "tocsr"):  # scipy's matrices by keys are dicts
        return _from_mapping(x)
    if isinstance(x, np.ndarray):
        return (
            None
            if x.dtype.names is None or x.ndim != 1
            else _from_mapping({name: x[name] for name in x.dtype.names})
        )
    if hasattr(x, "collect") and hasattr(x, "lazy"):
        raise InputError(f"Expected a table, got a {type(x).__name__}. Call .collect() first.")
    if not _is_table(x):
        return None
    if hasattr(x, "iloc"):
        dtypes = pandas_dtypes(x)
        return Frame(
            pandas_names(x),
            len(x),
            lambda i: _pandas_column_at(x, i),
            _pandas_matrix(x, dtypes),
            lambda i: _is_category(dtypes[i]),
            lambda group: _pandas_columns(x, group),
            dtypes,
            read_values=lambda i: _pandas_values_at(x, i),
            none_is_value=True,
        )
    if type(x).__module__.partition(".")[0] == "polars":
        return Frame(
            tuple(x.columns),
            x.height,
            lambda i: _polars_column(x.to_series(i)),
            read_values=lambda i: _with_nulls(x.to_series(i), _polars_column),
            nullable=True,
        )
    return _from_arrow(x) if hasattr(x, "__arrow_c_stream__") else None


def _is_table(x: Any) -> bool:
    """Whether it has columns; a stream of Arrow has, but for the columns that are arrays too."""
    if hasattr(x, "columns") or hasattr(x, "column_names"):
        return True
    return hasattr(x, "__arrow_c_stream__") and not hasattr(x, "__array__")


def read_sequence(x: Any) -> Frame | None:
    """Return a sequence as a Frame of one column without a name, and others as tables.

    A sequence is an array of one dimension, a list, or a column of any table.
    """
    if hasattr(x, "iloc") and not hasattr(x, "columns"):
        return Frame(
            (0,),
            len(x),
            lambda _: _pandas_column(x),
            is_category=lambda _: _is_category(x.dtype),
            none_is_value=True,
        )
    if type(x).__module__.partition(".")[0] in ("pyarrow", "polars") and not hasattr(x, "columns"):
        return Frame(
            (0,),
            len(x),
            lambda _: _polars_column(x) if hasattr(x, "to_arrow") else read_arrow(x),
        )
    if isinstance(x, Mapping) or np.ndim(x) != 1:
        return read_frame(x)
    column = plain_column(0, x)
    return Frame((0,), len(column), lambda _: column, none_is_value=True)


def _from_mapping(x: Mapping[Any, Any]) -> Frame:
    _refuse_values_among_columns(x)
    columns = {name: plain_column(name, values) for name, values in x.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            f"Columns differ in length: {', '.join(f'{n!r} has {k}' for n, k in lengths.items())}."
        )
    arrays = list(columns.values())
    return Frame(
        tuple(columns), max(lengths.values(), default=0), arrays.__getitem__, ordered=False
    )


def _refuse_values_among_columns(x: Mapping[Any, Any]) -> None:
    """Refuse a record of which some values are lists, as no table has columns of one value."""
    single = next((name for name, value in x.items() if np.isscalar(value)), None)
    several = next((name for name, value in x.items() if isinstance(value, list | tuple)), None)
    if single is not None and several is not None:
        raise InputError(
            f"Column {several!r} holds a {type(x[several]).__name__}, and column {single!r} one "
            "value. Give a list for each column, or one value for each as a record."
        )


def plain_column(name: Any, values: Any) -> npt.NDArray[Any]:
    """Return a list or an array as a column, with texts as objects.

    Raises
    ------
    InputError
        It has not one dimension, or numpy cannot read it.
    """
    starts_with_text = isinstance(values, list) and bool(values) and isinstance(values[0], str)
    try:
        # numpy would pad all texts to the longest, and write numbers among them as text.
        array = np.array(values, dtype=object) if starts_with_text else np.asarray(values)
    except (RuntimeError, TypeError, ValueError) as error:  # torch's of gradients, or of numpy
        raise InputError(f"Column {name!r} cannot be read as an array: {error}") from error
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
        array = np.array(values, dtype=object)
    if array.ndim != 1:
        raise InputError(
            f"Column {name!r} must be one-dimensional, and has {array.ndim} dimensions. Give each "
            "column as a list or a vector."
        )
    return array


def pandas_names(x: Any) -> tuple[Any, ...]:
    """Return the names of the columns: ``tolist`` takes 12 us for 13 texts, which Arrow holds."""
    # Names of several levels have no single array.
    names: Any = None if type(x.columns).__name__ == "MultiIndex" else x.columns.array
    held = names.__arrow_array__() if type(names).__name__ == "ArrowStringArray" else None
    if held is None or held.null_count:
        return tuple(x.columns.tolist())
    return tuple(held.to_pylist())


def pandas_blocks(x: Any, read: Callable[[Any], Sequence[Any]]) -> list[Any] | None:
    """Return what a function reads of each column, from the blocks that pandas keeps.

    ``read`` returns a value for each column of a block's array. pandas takes 24 us to return the
    arrays of 28 columns one by one, and they take 7 to 11 us so. Its blocks are private: None where
    a later pandas has none.
    """
    manager = getattr(x, "_mgr", None)
    if manager is None or not hasattr(manager, "blknos"):
        return None
    values = [read(block.values) for block in manager.blocks]
    places = zip(manager.blknos.tolist(), manager.blklocs.tolist(), strict=True)
    return [values[block][i] for block, i in places]


def arrays_of_block(held: Any) -> Sequence[Any]:
    """Return an array for each column of a block.

    Arrays of numpy and of times have two dimensions, other arrays of pandas are one column.
    """
    return list(held) if held.ndim == 2 else [held]


def pandas_dtypes(x: Any) -> list[Any]:
    """Return the dtypes of the columns, as their blocks have them."""
    dtypes = pandas_blocks(x, lambda held: [held.dtype] * (len(held) if held.ndim == 2 else 1))
    return x.dtypes.tolist() if dtypes is None else dtypes


def is_nullable(dtype: Any) -> bool:
    """Whether a column of pandas holds numbers or bools, and NA where one is missing."""
    return not isinstance(dtype, np.dtype) and not _is_category(dtype) and dtype.kind in "iufb"


def _pandas_column_at(x: Any, position: int) -> Data:
    column = _lying_at(x, position)
    return _pandas_column(x.iloc[:, position]) if column is None else column


def _pandas_values_at(x: Any, position: int) -> Data:
    column = _lying_at(x, position)
    return _pandas_values(x.iloc[:, position]) if column is None else column


def _lying_at(x: Any, position: int) -> Data | None:
    """Read plain columns and texts as they are stored: pandas has no public way as fast."""
    array_at = getattr(x, "_get_column_array", None)
    array = None if array_at is None else array_at(position)
    if array is None or type(array) is np.ndarray:
        return array
    return pandas_text(array) if type(array.dtype).__name__ == "StringDtype" else None


def _pandas_column(series: Any) -> Data:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return np.asarray(series)
    if _is_category(dtype):
        return pandas_categories(series.array)
    if type(dtype).__name__ == "StringDtype":
        return pandas_text(series.array)
    if type(dtype).__name__ == "DatetimeTZDtype":
        return Zoned(np.asarray(series.dt.tz_convert(None)), str(dtype.tz))
    # Nullable numbers: what is missing becomes NaN, as in the source.
    if dtype.kind in "iufb":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if type(dtype).__name__ == "ArrowDtype":
        return read_arrow(series.array.__arrow_array__(), "na")
    return np.asarray(series)


def _pandas_values(series: Any) -> Data:
    """Read a column whose values are looked up: nullable bools stay bools, and NaN if missing."""
    dtype = series.dtype
    kind = series.cat.categories.dtype.kind if _is_category(dtype) else dtype.kind
    if isinstance(dtype, np.dtype) or kind != "b":
        return _pandas_column(series)
    if series.isna().any():
        return np.asarray(series.to_numpy(dtype=object, na_value=np.nan))
    return np.asarray(series.to_numpy(dtype=bool))


def _is_category(dtype: Any) -> bool:
    return type(dtype).__name__ == "CategoricalDtype"


def _pandas_matrix(x: Any, dtypes: list[Any]) -> npt.NDArray[Any] | None:
    """Read columns of one numeric dtype at once: many times as fast as one by one."""
    dtype = dtypes[0] if len(set(dtypes)) == 1 else None
    return x.to_numpy() if isinstance(dtype, np.dtype) and dtype.kind in "fiub" else None


def _pandas_columns(x: Any, group: list[int]) -> npt.NDArray[Any]:
    """Read columns of one plain dtype; neighbours as they lie in memory.

    Few values are copied: pandas takes 80 to 120 us to choose columns.
    """
    array_at = getattr(x, "_get_column_array", None)
    # Above that copying takes longer than the choice of columns.
    if array_at is not None and len(x) * len(group) < FEW_VALUES:
        return np.stack([array_at(i) for i in group], axis=1)
    # A slice of columns is a view where pandas keeps them in one block.
    neighbours = group == list(range(group[0], group[0] + len(group)))
    values: npt.NDArray[Any] = x.iloc[
        :, slice(group[0], group[-1] + 1) if neighbours else group
    ].to_numpy()
    return values


def pandas_categories(array: Any) -> Data:
    """Keep categories of text as codes, and return the values of others.

    Floats and bools become float64, as scikit-learn reads them.
    """
    categories = array.categories.array
    if type(categories.dtype).__name__ == "StringDtype":
        return Categories(array.codes, replace(pandas_text(categories), null="nan"))
    values = array.categories.to_numpy(dtype=object)
    if not all(isinstance(v, str) for v in values):
        plain = np.asarray(array)
        return plain.astype(np.float64) if plain.dtype.kind in "fb" else plain
    return Categories(array.codes, Text(values, "nan"))


def pandas_text(array: Any) -> Text:
    """Return a column of pandas' texts."""
    null: Null = "nan" if isinstance(array.dtype.na_value, float) else "na"
    if array.dtype.storage == "pyarrow":
        return Text(array.__arrow_array__(), null)
    return Text(array.to_numpy(dtype=object), null)


def _polars_column(series: Any) -> Data:
    if type(series.dtype).__name__ in ("Categorical", "Enum"):
        return polars_categories(series)
    if not has_arrow():
        return np.asarray(series.to_numpy())
    import pyarrow as pa

    return read_arrow(pa.chunked_array(series), name=series.name)


def polars_categories(series: Any) -> Categories:
    """Read the codes in place, with values for those that occur.

    polars numbers categories over all columns.
    """
    physical = series.to_physical()
    # Unsigned codes have no room for a null.
    codes = (physical.cast(int).fill_null(-1) if series.null_count() else physical).to_numpy()
    row = np.full(int(codes.max()) + 2 if len(codes) else 1, -1)
    # The last row of each code: any row of it has the value.
    row[codes] = np.arange(len(codes))
    used = np.flatnonzero(row[:-1] >= 0)
    values = np.full(len(row) - 1, None, dtype=object)
    values[used] = series.gather(row[used]).to_list()
    return Categories(codes, Text(values))


def _from_arrow(x: Any) -> Frame:
    if not has_arrow():
        raise MissingPackageError(
            f"A {type(x).__name__} is read by pyarrow. Install with: pip install pyarrow"
        )
    import pyarrow as pa

    table = x if isinstance(x, pa.Table | pa.RecordBatch) else pa.table(x)
    return Frame(
        tuple(table.schema.names),
        table.num_rows,
        lambda i: read_arrow(table.column(i), name=table.schema.names[i]),
        read_values=lambda i: _with_nulls(table.column(i), read_arrow),
        nullable=True,
    )


def _with_nulls(column: Any, read: Callable[[Any], Data]) -> Data:
    """Read a column of which None is to be told from NaN: numbers with nulls as objects."""
    data = read(column)
    if column.null_count and isinstance(data, np.ndarray) and data.dtype.kind == "f":
        values = column.to_list() if hasattr(column, "to_list") else column.to_pylist()
        # With a None at the end numpy makes an array of objects, not of floats.
        return np.array([*values, None], object)[:-1]
    return data
