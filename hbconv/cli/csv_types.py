"""Types of the columns of a CSV file, which its first block alone does not tell: all values are looked at, as pandas does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hbconv.cli.formats import blocks, reading

if TYPE_CHECKING:
    from hbconv.cli.tables import TableFile

__all__ = ["settled"]

WIDER = {"null": "int64", "int64": "double"}
"""The type that a column takes next when a value does not fit; text where none is named, which holds all."""

WHOLE = 1 << 30
"""Rows of a block: all that pyarrow reads at a time."""


def settled(table: TableFile, columns: Sequence[str]) -> TableFile:
    """Return some columns of a CSV file, each with the narrowest type that holds all its values.

    The first block gives a type to begin with. The file is read through; where a value does not fit, the column takes the
    next wider type, and the file is read again: whole numbers, then 1.5, are float64; numbers, then a word, are text.

    Raises
    ------
    InputError
        The file is damaged.
    """
    import pyarrow as pa

    types = {name: table.schema.field(name).type for name in columns}
    while True:
        schema = pa.schema(list(types.items()))
        try:
            for _ in blocks(str(table.path), schema, WHOLE):
                pass
        except pa.ArrowInvalid as error:
            name = _unfit(error, table.names)
            if name is None or types[name] == pa.string():
                with reading(table.path):
                    raise
            types[name] = pa.type_for_alias(WIDER.get(str(types[name]), "string"))
        else:
            return replace(table, schema=schema)


def _unfit(error: Exception, names: Sequence[str]) -> str | None:
    """Return the column that holds the value an error is about."""
    found = re.match(r"In CSV column #(\d+): .*conversion error", str(error))
    return names[int(found[1])] if found else None
