"""Find the types of the columns of CSV and JSON files from all their values, as pandas does.

The first block alone does not tell them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from hbconv.cli.formats import blocks, reading
from hbconv.cli.json_files import json_blocks, without_times
from hbconv.cli.shards import Shard
from hbconv.errors import InputError

__all__ = ["holds_long_numbers", "json_schema", "narrowest_schema"]

WIDER = {"null": "int64", "int64": "double"}
"""The type that a column takes next when a value does not fit; text for all other types."""
KEPT_WIDER = {"null": "int64", "int64": "uint64", "uint64": "double"}
"""The same for columns that are only copied, whose whole numbers keep all their digits."""
LONG = r"^\s*[+-]?\d{16,}\s*$"
"""Whole numbers of which float64 may lose digits."""

WHOLE = 1 << 30
"""Rows of a block: all that pyarrow reads at a time."""


def narrowest_schema(
    shard: Shard,
    columns: Sequence[str],
    unfit: Callable[[Any], str] | None = None,
    kept: Sequence[str] = (),
) -> Any:
    """Return the narrowest types of some columns of a CSV file that hold all their values.

    The first block gives a type to begin with. Where a later value does not fit, the column takes
    the next wider type, and the file is read again. Whole numbers, then 1.5, are float64. Numbers,
    then a word, are text, and so are dates and times. Whole numbers of the kept columns, which are
    only copied, may be of 64 bits without a sign.

    Raises
    ------
    InputError
        The file is damaged.
    """
    import pyarrow as pa

    types = {name: shard.schema.field(name).type for name in columns}
    types |= {name: pa.int64() for name in kept if types.get(name) == pa.float64()}
    while True:
        narrowest = pa.schema(list(types.items()))
        try:
            for _ in blocks(shard, narrowest, WHOLE, unfit):
                pass
        except pa.ArrowInvalid as error:
            name = _unfit(error, shard.schema.names)
            if name is None or types[name] == pa.string():
                _find_uneven_row(shard, narrowest)
                with reading(shard.name, shard.kind):
                    raise
            wider = KEPT_WIDER if name in kept else WIDER
            types[name] = pa.type_for_alias(wider.get(str(types[name]), "string"))
        else:
            return narrowest


def json_schema(shard: Shard, columns: Sequence[str]) -> Any:
    """Return types of some columns of a JSON lines file that hold all their values.

    Text that looks like a time is text.

    Raises
    ------
    InputError
        The file is damaged, or a column holds numbers in some lines and text in others.
    """
    import pyarrow as pa

    types = {name: pa.null() for name in columns}
    with reading(shard.name, shard.kind):
        for block in json_blocks(shard):
            for name in types.keys() & set(block.schema.names):
                found = without_times(block.schema.field(name).type)
                types[name] = _both(name, types[name], found)
    return pa.schema([(name, types[name]) for name in columns])


def holds_long_numbers(shard: Shard, name: str, unfit: Callable[[Any], str] | None = None) -> bool:
    """Say whether a column of a CSV file holds whole numbers of which float64 may lose digits.

    Raises
    ------
    InputError
        The file is damaged.
    """
    import pyarrow as pa
    from pyarrow import compute

    text = pa.schema([(name, pa.string())])
    with reading(shard.name, shard.kind):
        return any(
            compute.any(compute.match_substring_regex(block.column(0), LONG)).as_py()
            for block in blocks(shard, text, WHOLE, unfit)
        )


def _both(name: str, first: Any, second: Any) -> Any:
    import pyarrow as pa

    fields = [pa.schema([(name, kind)]) for kind in (first, second)]
    return pa.unify_schemas(fields, promote_options="permissive").field(name).type


def _find_uneven_row(shard: Shard, schema: Any) -> None:
    """Refuse a file by the first of its rows that has too many or too few values."""
    import pyarrow as pa

    found: list[Any] = []

    def stop(row: Any) -> str:
        found.append(row)
        return "error"

    try:
        for _ in blocks(shard, schema, WHOLE, stop):
            pass
    except pa.ArrowInvalid as error:
        if found:
            raise InputError(
                f"{shard.name} cannot be read as csv: row {found[0].number - 1:,} has "
                f"{found[0].actual_columns} values, and the header {found[0].expected_columns}. "
                "Mend the row, or set such rows aside with --rejects FILE."
            ) from error


def _unfit(error: Exception, names: Sequence[str]) -> str | None:
    """Return the column that holds the value an error is about."""
    found = re.match(r"In CSV column #(\d+): .*conversion error", str(error))
    return names[int(found[1])] if found else None
