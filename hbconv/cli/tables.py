"""Read table files as one table, in batches of bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hbconv.cli.column_types import holds_long_numbers, json_schema, narrowest_schema
from hbconv.cli.formats import blocks, reading
from hbconv.cli.json_digits import require_digits
from hbconv.cli.shards import Shard, find_shards
from hbconv.errors import InputError
from hbconv.names import listed

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

        own = pa.schema([field for field in self.schema if field.name not in shard.keys])
        found = blocks(shard, own, rows, unfit)
        while True:
            with reading(shard.name, shard.kind):
                block = next(found, None)
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
            own = [common.field(name) for name in kept if name not in shard.keys]
            require_digits(shard, pa.schema(own))


def _loses_digits(
    shards: Sequence[Shard],
    name: str,
    common: Any,
    types: set[Any],
    unfit: Callable[[Any], str] | None,
) -> bool:
    """Say whether the common type of a column does not hold a whole number of a CSV file."""
    import pyarrow as pa

    texts = [shard for shard in shards if shard.kind == "csv" and name not in shard.keys]
    if common == pa.float64():
        return any(holds_long_numbers(shard, name, unfit) for shard in texts)
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
    own = [name for name in columns if name not in shard.keys]
    if shard.kind == "csv":
        found = narrowest_schema(shard, own, unfit, kept)
    else:
        found = json_schema(shard, own)
    return pa.schema([*found, *(shard.schema.field(name) for name in shard.keys)])


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
        has = f"It has: {listed(present)}." if present else "It has none."
        raise InputError(f"{name} lacks the columns {listed(missing)}. {has}")
    twice = [column for column in columns if present.count(column) > 1]
    if twice:
        raise InputError(
            f"{name} holds the columns {listed(twice)} more than once. Rename or drop the others."
        )
