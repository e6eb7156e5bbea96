"""How pyarrow reads the table files of each format, and what it raises about them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hbconv.errors import InputError
from hbconv.score.records import csv_blocks, csv_schema, json_blocks, json_schema, without_times

__all__ = [
    "KINDS",
    "SUFFIXES",
    "WRITTEN_SUFFIX",
    "blocks",
    "file_schema",
    "kind_of",
    "reading",
    "split_row_groups",
]

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".jsonl": "json",
    ".ndjson": "json",
}
"""Formats of table files, by their suffix."""
WRITTEN_SUFFIX = {"parquet": ".parquet", "csv": ".csv", "ipc": ".arrow", "json": ".jsonl"}
"""The suffix of the files that are written in a format."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
"""Suffixes behind those of CSV and JSON files, which are decompressed as they are read."""
KINDS = tuple(SUFFIXES)
LOCAL_BYTES = 1 << 20
"""Bytes of a column of a parquet file that are read at a time."""
REMOTE_BYTES = 8 << 20
"""The same where each read asks another machine."""
WHOLE_BATCHES = 32
"""Batches of a row group that a process may answer before it hands any on."""


def kind_of(path: str) -> str | None:
    """Return the format of a file by its suffix, or None.

    >>> kind_of("in/a.csv.gz"), kind_of("in/a.PARQUET"), kind_of("in/a.parquet.gz")
    ('csv', 'parquet', None)
    """
    name = posixpath.basename(path).lower()
    kind = SUFFIXES.get(posixpath.splitext(name)[1])
    inner, suffix = posixpath.splitext(name)
    if suffix in COMPRESSED:
        kind = SUFFIXES.get(posixpath.splitext(inner)[1])
        return kind if kind in ("csv", "json") else None
    return kind


def file_schema(shard: Any) -> tuple[Any, int | None]:
    """Return names and types of a file's columns, and its rows where its head has them.

    Those of CSV and JSON files are of their first block alone, where times are text, as they stand.
    Nothing here imports pyarrow.dataset, which imports pandas.

    Raises
    ------
    InputError
        The file is empty, so it names no columns.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    if shard.kind in ("csv", "json"):
        schema = csv_schema(shard) if shard.kind == "csv" else json_schema(shard)
        if schema is None:
            raise _empty(shard)
        return pa.schema([(field.name, without_times(field.type)) for field in schema]), None
    with shard.open() as source:
        if source.size() == 0:
            raise _empty(shard)
        if shard.kind == "ipc":
            return pa.ipc.open_file(source).schema, None
        with ParquetFile(source, pre_buffer=False) as file:
            return file.schema_arrow, file.metadata.num_rows


def _empty(shard: Any) -> InputError:
    return InputError(f"{shard.name} is empty, so it names no columns. Leave it out.")


def blocks(
    shard: Any, schema: Any, rows: int, unfit: Callable[[Any], str] | None = None
) -> Iterator[Any]:
    """Read some columns of a file as record batches of a limited number of rows.

    They are read one after another, and none ahead.

    Parameters
    ----------
    shard : Shard
    schema : pyarrow.Schema
        The columns that the file itself holds, by their new names; of CSV and JSON, with the types
        they are read as.
    rows : int
    unfit : callable, optional
        Asked what to do with a CSV row of too many or too few values: "skip" or "error".

    Raises
    ------
    InputError
        Not all rows of the file can be read.
    """
    import pyarrow as pa

    held = pa.schema([field.with_name(shard.stored_name(field.name)) for field in schema])
    if shard.kind == "csv":
        batches = csv_blocks(shard, held, unfit)
    elif shard.kind == "json":
        batches = json_blocks(shard, held)
    else:
        batches = _sound(
            shard, (_ipc_blocks if shard.kind == "ipc" else _parquet_blocks)(shard, held, rows)
        )
    for block in batches:
        block = block.rename_columns([shard.renames.get(n, n) for n in block.schema.names])
        for start in range(0, block.num_rows, rows):
            yield block.slice(start, rows)


def _parquet_blocks(shard: Any, schema: Any, rows: int) -> Iterator[Any]:
    """Read a file page by page: a row group as a whole would be held in memory."""
    # One row group of 6,000,000 rows and 6 columns takes 150 MB in all; read whole, 432 MB.
    from pyarrow.parquet import ParquetFile

    buffer = LOCAL_BYTES if shard.is_local else REMOTE_BYTES
    checks = {"pre_buffer": False, "page_checksum_verification": True, "buffer_size": buffer}
    with shard.open() as source, ParquetFile(source, **checks) as file:
        groups = range(file.num_row_groups) if shard.row_groups is None else shard.row_groups
        held = sum(file.metadata.row_group(i).num_rows for i in groups)
        read = 0
        for batch in file.iter_batches(rows, shard.row_groups, columns=schema.names):
            read += batch.num_rows
            yield batch
        # pyarrow may return fewer rows of a row group that is cut off, and raise nothing.
        if read != held:
            raise InputError(
                f"{shard.name} cannot be read as parquet: it holds {read:,} rows, and its head has "
                f"{held:,}. Write the file again."
            )


def split_row_groups(shard: Any, rows: int) -> tuple[Any, ...]:
    """Return a parquet file as parts of neighbouring row groups, of at least so many rows each.

    () where a row group holds more than ``WHOLE_BATCHES`` times as many: it is more than a process
    should hold at once.
    """
    from pyarrow.parquet import ParquetFile

    with reading(shard.name, shard.kind), shard.open() as source, ParquetFile(source) as file:
        counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    # A process returns the outputs of its row groups at once, so it must hold them all.
    if max(counts, default=0) > WHOLE_BATCHES * rows:
        return ()
    parts = []
    first = start = held = 0
    for number, count in enumerate(counts, 1):
        held += count
        if held >= rows or number == len(counts):
            groups = tuple(range(first, number))
            parts.append(replace(shard, row_groups=groups, start=start, rows=held))
            first, start, held = number, start + held, 0
    return tuple(parts)


def _ipc_blocks(shard: Any, schema: Any, rows: int) -> Iterator[Any]:
    import pyarrow as pa

    # Mapped, only the pages of the columns that are read come from the disk.
    with pa.memory_map(shard.path) if shard.is_local else shard.open() as source:
        file = pa.ipc.open_file(source)
        for number in range(file.num_record_batches):
            batch = file.get_batch(number).select(schema.names)
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)


def _sound(shard: Any, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches whose values are what their types say; pyarrow takes a file's word for it.

    Raises
    ------
    InputError
        A text is not UTF-8, or a column is damaged. The message names the row.
    """
    import pyarrow as pa

    first = 1
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            # Offsets of a damaged file would be read as memory beyond its buffers.
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise _unsound(shard, name, first, column, str(error)) from error
        yield batch
        first += batch.num_rows


def _unsound(shard: Any, name: str, first: int, column: Any, reason: str) -> InputError:
    text = re.search(r"Invalid UTF8 sequence at string index (\d+)", reason)
    if text is None:
        rows = f"rows {first:,} to {first + len(column) - 1:,}"
        return InputError(f"{shard.name}, {rows}, column {name!r}: {reason:.300}")
    return InputError(
        f"{shard.name}, row {first + int(text[1]):,}, column {name!r}: The bytes are no text in "
        "utf-8. Write the column as UTF-8, or as binary."
    )


@contextmanager
def reading(path: object, kind: str | None = None) -> Iterator[None]:
    """Turn what pyarrow raises while it reads a file into an InputError that names the file.

    Without a format the place itself is looked for.
    """
    import pyarrow as pa

    try:
        yield
    # pyarrow catches ctrl-C while it reads, and raises this instead.
    except pa.ArrowCancelled:
        raise KeyboardInterrupt from None
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = f"{(str(error).splitlines() or ['it is damaged'])[0]:.300}"
        if kind is None:
            raise InputError(f"{path} cannot be opened: {reason}") from error
        raise InputError(f"{path} cannot be read as {kind}: {reason}") from error
