"""Find the types of the columns of a CSV file from all its values, as pandas does.

The first block alone does not tell them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hbconv.cli.formats import blocks, reading

__all__ = ["narrowest_schema"]

WIDER = {"null": "int64", "int64": "double"}
"""The type that a column takes next when a value does not fit; text for all other types."""

WHOLE = 1 << 30
"""Rows of a block: all that pyarrow reads at a time."""


def narrowest_schema(path: Path, names: Sequence[str], schema: Any, columns: Sequence[str]) -> Any:
    """Return the narrowest types of some columns of a CSV file that hold all their values.

    The first block gives a type to begin with. Where a later value does not fit, the column takes
    the next wider type, and the file is read again. Whole numbers, then 1.5, are float64. Numbers,
    then a word, are text.

    Raises
    ------
    InputError
        The file is damaged.
    """
    import pyarrow as pa

    types = {name: schema.field(name).type for name in columns}
    while True:
        narrowest = pa.schema(list(types.items()))
        try:
            for _ in blocks(str(path), narrowest, WHOLE):
                pass
        except pa.ArrowInvalid as error:
            name = _unfit(error, names)
            if name is None or types[name] == pa.string():
                with reading(path):
                    raise
            types[name] = pa.type_for_alias(WIDER.get(str(types[name]), "string"))
        else:
            return narrowest


def _unfit(error: Exception, names: Sequence[str]) -> str | None:
    """Return the column that holds the value an error is about."""
    found = re.match(r"In CSV column #(\d+): .*conversion error", str(error))
    return names[int(found[1])] if found else None
