"""Cells: the values of a table of one row, and the kind of row that they are.

Rows of one kind have the same columns, with values of the same types, and so are read alike. A text
is read as the entries that a program takes: more cells, behind those of the row. No library of
tables is imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hbconv.errors import InputError
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.text.sparse_rows import EntryRows, padded_size
from hbconv.runtime.text.vectorize import extract

__all__ = ["Kind", "RowCells", "read_cells", "read_text", "with_entries"]

Form = np.dtype[Any] | type | str | tuple[type, str]
"""How a frame holds a column."""
Kind = tuple[tuple[Any, ...], tuple[Form, ...], bool, int, tuple[type, ...]]
"""Names and forms of the columns, whether they are ordered, the size, and types of the values."""
PANICKING = frozenset(("Date", "Datetime", "Duration", "List", "Array", "Struct"))
"""Types of polars that hold values which Python does not: polars panics where it makes a row."""


class RowCells(NamedTuple):
    """The cells of one row.

    Parameters
    ----------
    names : tuple of str
        Names of the columns.
    forms : tuple of Form
        How a table holds each column. A record has none: the type of a value is all.
    values : tuple
    ordered : bool
        The columns have an order: those of a mapping have none.
    size : int
        Entries that texts are padded to; two more values stand for each: tokens and weights.
    """

    names: tuple[Any, ...]
    forms: tuple[Form, ...]
    values: tuple[Any, ...]
    ordered: bool = False
    size: int = 0

    @staticmethod
    def of(kind: Kind, values: tuple[Any, ...]) -> RowCells:
        """Return the cells of a row of a kind."""
        names, forms, ordered, size, _ = kind
        return RowCells(names, forms, values, ordered, size)

    @property
    def kind(self) -> Kind:
        """What rows have in common that are read alike."""
        return self.names, self.forms, self.ordered, self.size, tuple(map(type, self.values))

    @property
    def without_entries(self) -> RowCells:
        """The cells of the row alone."""
        return self._replace(values=self.values[: len(self.names)], size=0)


def read_cells(x: Any) -> RowCells | None:
    """Return the cells of a record or of a table of one row; None of everything else.

    Examples
    --------
    >>> read_cells({"age": 30, "sex": "f"})
    RowCells(names=('age', 'sex'), forms=(), values=(30, 'f'), ordered=False, size=0)
    >>> read_cells([{"age": 30}]) == read_cells({"age": 30}) == read_cells({"age": [30]})
    True
    >>> read_cells([{"age": 30}, {"age": 31}])
    """
    if type(x) is list and len(x) == 1 and type(x[0]) is dict:
        x = x[0]
    if type(x) is dict:
        cells = tuple(x.values())
        columns = _COLUMNS.get(type(cells[0])) if cells else None
        return RowCells(tuple(x), (), cells) if columns is None else columns(tuple(x), cells)
    read_frame = _FRAMES.get(type(x).__module__.partition(".")[0])
    return None if read_frame is None else _read(read_frame, x)


def _read(read_frame: Callable[[Any], RowCells | None], x: Any) -> RowCells | None:
    """Read a frame; None if Python cannot hold a value, perhaps of a column that no model reads."""
    try:
        return read_frame(x)
    except Exception:  # the library's own: the ordinary reading tells what is wrong
        return None


def _of_lists(names: tuple[Any, ...], columns: tuple[Any, ...]) -> RowCells | None:
    """Read lists of one value, which are read as the values of a record are."""
    if not all(type(column) is list and len(column) == 1 for column in columns):
        return None
    return RowCells(names, (), tuple([column[0] for column in columns]))


def _of_arrays(names: tuple[Any, ...], columns: tuple[Any, ...]) -> RowCells | None:
    if not all(type(column) is np.ndarray and column.shape == (1,) for column in columns):
        return None
    dtypes = tuple([column.dtype for column in columns])
    return RowCells(names, dtypes, tuple([column[0] for column in columns]))


def _of_pandas(x: Any) -> RowCells | None:
    """Read the arrays of a frame, one a column: pandas has no public way that is as fast."""
    column = getattr(x, "_get_column_array", None)
    if column is None or len(x) != 1:
        return None
    names = tuple(x.columns.tolist())
    arrays = [column(i) for i in range(len(names))]
    forms = tuple(map(_form, arrays))
    return RowCells(names, forms, tuple([array[0] for array in arrays]), ordered=True)


def _form(array: Any) -> Form:
    """Return a dtype of numpy's, or the class of another array: pandas' dtypes hash slowly."""
    if type(array) is np.ndarray:
        return array.dtype  # type: ignore[no-any-return]
    if type(array).__name__ != "Categorical":
        return type(array)
    return type(array), str(array.categories.dtype)


def _of_polars(x: Any) -> RowCells | None:
    if getattr(x, "height", 0) != 1 or not hasattr(x, "row"):
        return None
    forms = tuple(map(type, x.dtypes))
    if any(form.__name__ in PANICKING for form in forms):
        return None
    return RowCells(tuple(x.columns), forms, x.row(0), ordered=True)


def _of_arrow(x: Any) -> RowCells | None:
    if getattr(x, "num_rows", 0) != 1:
        return None
    schema = x.schema
    values = tuple([column[0].as_py() for column in x.columns])
    return RowCells(tuple(schema.names), tuple(map(str, schema.types)), values, ordered=True)


_COLUMNS = {list: _of_lists, np.ndarray: _of_arrays}
_FRAMES = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}


def read_text(x: Any) -> RowCells | None:
    """Return a list of one text as a cell without a name; None of everything else.

    Examples
    --------
    >>> read_text(["The cat sat"]).values
    ('The cat sat',)
    >>> read_text(["The cat sat", "It sat"])
    """
    if type(x) is not list or len(x) != 1 or type(x[0]) is not str:
        return None
    return RowCells((0,), (), (x[0],))


def with_entries(cells: RowCells, reads: Reads) -> RowCells | None:
    """Add two cells for each column that is read as sparse rows: its tokens, and their weights.

    None if a cell holds no text, or one that the source refuses: the ordinary reading tells why.

    Parameters
    ----------
    cells : RowCells
    reads : Reads
    """
    found = []
    for column, extractor in reads.entries:
        text = _value(cells, reads.schema.names[column] if reads.schema.named else column)
        if type(text) is not str:
            return None
        try:
            made = extract(np.array([text], dtype=object), extractor, reads.where(column))
        except InputError:
            return None
        found.append(EntryRows(*made, extractor.width))
    size = padded_size(max(len(rows.tokens) for rows in found))
    arrays = tuple([array for rows in found for array in rows.padded(size)])
    return cells._replace(values=cells.values + arrays, size=size)


def _value(cells: RowCells, name: Any) -> Any:
    """Return the value under a name; None if no cell or several have it."""
    return cells.values[cells.names.index(name)] if cells.names.count(name) == 1 else None
