"""Read table files as one table, in batches of bounded memory.

The types of the columns of CSV and JSON lines files are found from all their values, as pandas
does: the first block alone does not show them. Whole numbers that would lose digits, because other
values of their column are fractions, are kept as text or refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hbconv.errors import InputError, shown
from hbconv.score.formats import blocks, reading
from hbconv.score.records import json_blocks, lines_of, without_times
from hbconv.score.shards import Shard, find_shards, hint

__all__ = ["ShardTable", "open_table", "read_all"]


@dataclass(frozen=True)
class ShardTable:
    """Some columns of table files, which hold them with one type.

    Parameters
    ----------
    shards : tuple of Shard
        Its files.
    schema : pyarrow.Schema
        Types of the columns, as they are read.
    """

    shards: tuple[Shard, ...]
    schema: Any

    def batches(
        self, shard: Shard, rows: int, unfit: Callable[[Any], str] | None = None
    ) -> Iterator[Any]:
        """Read batches of a file, of at most some rows, with the types of the schema.

        Raises
        ------
        InputError
            The file is damaged, or a value does not fit its column.
        """
        import pyarrow as pa

        held = pa.schema([field for field in self.schema if field.name not in shard.keys])
        read = blocks(shard, held, rows, unfit)
        while True:
            with reading(shard.name, shard.kind):
                block = next(read, None)
                if block is None:
                    return
                batch = self._whole(shard, block)
            yield batch

    def _whole(self, shard: Shard, block: Any) -> Any:
        """Add what the names of a file's folders tell, and give all columns their types."""
        import pyarrow as pa

        columns = [
            pa.repeat(shard.keys[field.name].cast(field.type), block.num_rows)
            if field.name in shard.keys
            else block.column(field.name).cast(field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def open_table(
    shards: Sequence[Shard],
    columns: Sequence[str],
    unfit: Callable[[Any], str] | None = None,
    kept: Sequence[str] = (),
) -> ShardTable:
    """Find a type for each column that holds the values of all files.

    Columns that are only kept, which no model reads, lose no digits of CSV files: where float64
    would, they are text. In JSON lines files such whole numbers are refused.

    Raises
    ------
    InputError
        A file lacks a column, holds it twice, or holds it with a type that does not fit. Or a file
        is damaged.
    """
    import pyarrow as pa

    schemas = []
    for shard in shards:
        _require_columns(shard, columns)
        schemas.append(_schema(shard, columns, unfit, kept))
    common = _common(shards, columns, schemas)
    for name in kept:
        types = {schema.field(name).type for schema in schemas}
        if _loses_digits(shards, name, common.field(name).type, types, unfit):
            place = common.get_field_index(name)
            common = common.set(place, pa.field(name, pa.string()))
    _require_json_digits(shards, common, kept)
    return ShardTable(tuple(shards), common)


def _require_json_digits(shards: Sequence[Shard], common: Any, kept: Sequence[str]) -> None:
    """Refuse kept whole numbers of JSON files that the common type does not hold."""
    import pyarrow as pa

    for shard in shards:
        if shard.kind == "json":
            fields = [common.field(name) for name in kept if name not in shard.keys]
            require_digits(shard, pa.schema(fields))


def _loses_digits(
    shards: Sequence[Shard],
    name: str,
    common: Any,
    types: set[Any],
    unfit: Callable[[Any], str] | None,
) -> bool:
    """Whether the common type of a column does not hold a whole number of a CSV file."""
    import pyarrow as pa

    texts = [shard for shard in shards if shard.kind == "csv" and name not in shard.keys]
    if common == pa.float64():
        return any(holds_long_numbers(shard, name, unfit) for shard in texts)
    # No type of whole numbers holds both uint64 and int64.
    return bool(texts) and pa.uint64() in types and common != pa.uint64()


def read_all(path: Path, columns: Sequence[str] | None, rows: int | None = None) -> Any:
    """Read a table, or its first rows, into memory as a pyarrow Table."""
    import pyarrow as pa

    shards = find_shards([str(path)])
    table = open_table(shards, shards[0].schema.names if columns is None else columns)
    held: list[Any] = []
    for shard in table.shards:
        for batch in table.batches(shard, 65_536 if rows is None else max(rows, 1)):
            held.append(batch)
            if rows is not None and sum(map(len, held)) >= rows:
                return pa.Table.from_batches(held).slice(0, rows)
    return pa.Table.from_batches(held, schema=table.schema)


def _schema(
    shard: Shard,
    columns: Sequence[str],
    unfit: Callable[[Any], str] | None,
    kept: Sequence[str],
) -> Any:
    import pyarrow as pa

    if shard.kind not in ("csv", "json"):
        return shard.schema
    held = [name for name in columns if name not in shard.keys]
    if shard.kind == "csv":
        types = narrowest_schema(shard, held, unfit, kept)
    else:
        types = json_schema(shard, held)
    return pa.schema([*types, *(shard.schema.field(name) for name in shard.keys)])


def _common(shards: Sequence[Shard], columns: Sequence[str], schemas: Sequence[Any]) -> Any:
    """Find for each column a type that holds the values of all files.

    For int64 and float64 it is float64.
    """
    import pyarrow as pa

    fields = []
    for name in columns:
        types = [schema.field(name).type for schema in schemas]
        held = [pa.schema([(name, kind)]) for kind in dict.fromkeys(types)]
        try:
            fields += list(pa.unify_schemas(held, promote_options="permissive"))
        except pa.ArrowException as error:
            other = next(i for i, kind in enumerate(types) if kind != types[0])
            raise InputError(
                f"Column {name!r} is {types[0]} in {shards[0].name} and {types[other]} in "
                f"{shards[other].name}. Write these files with one type."
            ) from error
    return pa.schema(fields)


def _require_columns(shard: Shard, columns: Sequence[str]) -> None:
    present = shard.schema.names
    name = shard.name
    missing = [column for column in columns if column not in present]
    if missing:
        has = f"It has: {_quote(present)}." if present else "It has none."
        raise InputError(
            f"{name} lacks the columns {_quote(missing)}. {has}{hint(shard, missing, present)}"
        )
    twice = [column for column in columns if present.count(column) > 1]
    if twice:
        raise InputError(
            f"{name} holds the columns {_quote(twice)} more than once. Rename or drop the others."
        )


def _quote(names: Sequence[str]) -> str:
    return ", ".join(map(shown, names))


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
    # pyarrow takes whole numbers beyond int64 for floats, so kept columns are tried as ints first.
    types |= {name: pa.int64() for name in kept if types.get(name) == pa.float64()}
    # Each round makes one column wider, and text holds everything, so the rounds end.
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
            for name, before in types.items():
                place = block.schema.get_field_index(shard.stored_name(name))
                if place >= 0:
                    kind = without_times(block.schema.field(place).type)
                    types[name] = _both(name, before, kind)
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

    uneven: list[Any] = []

    def stop(row: Any) -> str:
        uneven.append(row)
        return "error"

    try:
        for _ in blocks(shard, schema, WHOLE, stop):
            pass
    except pa.ArrowInvalid as error:
        if uneven:
            raise InputError(
                f"{shard.name} cannot be read as csv: row {uneven[0].number - 1:,} has "
                f"{uneven[0].actual_columns} values, and the header {uneven[0].expected_columns}. "
                "Fix the row, or set such rows aside with --rejects FILE."
            ) from error


def _unfit(error: Exception, names: Sequence[str]) -> str | None:
    """Return the column that holds the value an error is about."""
    match = re.match(r"In CSV column #(\d+): .*conversion error", str(error))
    return names[int(match[1])] if match else None


LONG_DIGITS = re.compile(rb"(?<![\d.])\d{16,}(?![\d.eE])")
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
        if LONG_DIGITS.search(line):
            _require_line(shard, schema, row, json.loads(line))


def _require_line(shard: Shard, schema: Any, row: int, values: dict[str, Any]) -> None:
    for field in schema:
        lost = next(_lost(values.get(shard.stored_name(field.name)), field.type), None)
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
    # float() of an int beyond 1.8e308.
    except OverflowError:
        return False
