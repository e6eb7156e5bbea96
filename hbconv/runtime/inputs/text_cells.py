"""Texts of a row, read as the entries that a program takes: more cells, behind those of the row."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.errors import InputError
from hbconv.runtime.inputs.cells import RowCells
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.text.sparse_rows import EntryRows, padded_size
from hbconv.runtime.text.vectorize import extract

__all__ = ["read_text", "with_entries"]


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
