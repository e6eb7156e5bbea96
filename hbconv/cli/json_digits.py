"""Find whole numbers of JSON lines files that lose digits where fractions stand beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hbconv.cli.json_files import lines_of
from hbconv.cli.shards import Shard
from hbconv.errors import InputError

__all__ = ["require_digits"]

LONG = re.compile(rb"(?<![\d.])\d{16,}(?![\d.eE])")
"""Whole numbers that float64 may not hold; few files have any, so few lines are parsed here."""


def require_digits(shard: Shard, schema: Any) -> None:
    """Refuse a JSON lines file with a whole number that a column's type does not hold.

    Parameters
    ----------
    shard : Shard
    schema : pyarrow.Schema
        The columns to look at, with the types that they are read as.

    Raises
    ------
    InputError
    """
    for row, line in lines_of(shard):
        if LONG.search(line):
            _require_line(shard, schema, row, json.loads(line))


def _require_line(shard: Shard, schema: Any, row: int, values: dict[str, Any]) -> None:
    for field in schema:
        lost = next(_lost(values.get(field.name), field.type), None)
        if lost is not None:
            raise InputError(
                f"{shard.name}, row {row:,}: column {field.name!r} holds the whole number {lost}, "
                "which would lose digits as a float64. Write it as text, in quotes, or leave the "
                "column out of --keep."
            )


def _lost(value: Any, kind: Any) -> Iterator[int]:
    """Yield the whole numbers of a value that its type does not hold.

    >>> import pyarrow as pa
    >>> list(_lost([1, 2**53, 2**53 + 1, 1.5], pa.list_(pa.float64())))
    [9007199254740993]
    """
    import pyarrow.types as types

    if types.is_floating(kind) and isinstance(value, int) and not _holds(value):
        yield value
    if types.is_list(kind):
        for inner in value or ():
            yield from _lost(inner, kind.value_type)
    if types.is_struct(kind):
        for field in kind:
            yield from _lost((value or {}).get(field.name), field.type)


def _holds(number: int) -> bool:
    """Say whether float64 holds a whole number."""
    try:
        return int(float(number)) == number
    except OverflowError:
        return False
