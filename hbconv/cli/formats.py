"""How pyarrow reads the table files of each format, and what it raises about them."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hbconv.errors import InputError

__all__ = [
    "KINDS",
    "SUFFIXES",
    "blocks",
    "file_schema",
    "json_blocks",
    "kind_of",
    "reading",
    "split_row_groups",
    "whole_lines",
    "without_times",
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
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
"""Suffixes behind those of CSV and JSON files, which are decompressed as they are read."""
KINDS = tuple(SUFFIXES)
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts that stand for missing values in CSV files: those of ``pandas.read_csv``."""
JSON_BYTES = 4 << 20
"""Bytes of lines that are parsed at a time."""


def kind_of(path: str) -> str | None:
    """Return the format that a file's suffix tells, or None.

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


def file_schema(kind: str, system: Any, path: str) -> tuple[Any, int | None]:
    """Return names and types of a file's columns, and its rows where its head tells them.

    Those of CSV and JSON files are of their first block alone. Nothing here imports
    pyarrow.dataset, which imports pandas.
    """
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow.parquet import ParquetFile

    if kind == "csv":  # rows that do not fit the header are looked at later
        lenient = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
        with system.open_input_stream(path) as source:
            return csv.open_csv(source, parse_options=lenient).schema, None
    if kind == "json":
        with system.open_input_stream(path) as source:
            found = next(_json_tables(source), None)
        if found is None:
            raise pa.ArrowInvalid("it holds no lines")
        return found.schema, None
    with system.open_input_file(path) as source:
        if kind == "ipc":
            return pa.ipc.open_file(source).schema, None
        with ParquetFile(source, pre_buffer=False) as file:
            return file.schema_arrow, file.metadata.num_rows


def without_times(kind: Any) -> Any:
    """Return a type that leaves as text what pyarrow takes for dates and times.

    >>> import pyarrow as pa
    >>> without_times(pa.time32("s")), without_times(pa.list_(pa.timestamp("s")))
    (DataType(string), ListType(list<item: string>))
    """
    import pyarrow as pa

    if pa.types.is_temporal(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(without_times(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, without_times(field.type)) for field in kind])
    return kind


def blocks(
    shard: Any, schema: Any, rows: int, unfit: Callable[[Any], str] | None = None
) -> Iterator[Any]:
    """Read some columns of a file as record batches of a limited number of rows.

    They are read one after another, and none ahead.

    Parameters
    ----------
    shard : Shard
    schema : pyarrow.Schema
        The columns that the file itself holds; of CSV and JSON, with the types they are read as.
    rows : int
    unfit : callable, optional
        Asked what to do with a CSV row of too many or too few values: "skip" or "error".
    """
    if shard.kind == "csv":
        found = _csv_blocks(shard, schema, unfit)
    elif shard.kind == "json":
        found = json_blocks(shard, schema)
    else:
        found = (_ipc_blocks if shard.kind == "ipc" else _parquet_blocks)(shard, schema, rows)
    for block in found:
        for start in range(0, block.num_rows, rows):
            yield block.slice(start, rows)


def _parquet_blocks(shard: Any, schema: Any, rows: int) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with (
        shard.open() as source,
        ParquetFile(source, pre_buffer=False, page_checksum_verification=True) as file,
    ):
        yield from file.iter_batches(rows, shard.row_groups, columns=schema.names)


def split_row_groups(shard: Any, rows: int) -> Iterator[tuple[int, ...]]:
    """Yield neighbouring row groups of a parquet file that hold at least so many rows together."""
    from pyarrow.parquet import ParquetFile

    with reading(shard.path, shard.kind), shard.open() as source, ParquetFile(source) as file:
        counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    first = held = 0
    for number, count in enumerate(counts, 1):
        held += count
        if held >= rows or number == len(counts):
            yield tuple(range(first, number))
            first, held = number, 0


def _ipc_blocks(shard: Any, schema: Any, rows: int) -> Iterator[Any]:  # noqa: ARG001
    import pyarrow as pa

    is_local = shard.system.type_name == "local"
    with pa.memory_map(shard.path) if is_local else shard.open() as source:
        file = pa.ipc.open_file(source)
        yield from (file.get_batch(i).select(schema.names) for i in range(file.num_record_batches))


def _csv_blocks(shard: Any, schema: Any, unfit: Callable[[Any], str] | None) -> Iterator[Any]:
    from pyarrow import csv

    convert = csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        null_values=MISSING,
        strings_can_be_null=True,
    )
    # Without threads pyarrow knows the number of a row that does not fit.
    options = csv.ReadOptions(use_threads=unfit is None)
    parse = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=unfit)
    with (
        shard.stream() as source,
        csv.open_csv(
            source, read_options=options, parse_options=parse, convert_options=convert
        ) as reader,
    ):
        yield from reader


def json_blocks(shard: Any, schema: Any = None) -> Iterator[Any]:
    """Read JSON lines: all columns with types of their own, or those of a schema."""
    from pyarrow import json

    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    with shard.stream() as source:
        for found in _json_tables(source, None if schema is None else options):
            yield from (found if schema is None else found.select(schema.names)).to_batches()


def _json_tables(source: Any, options: Any = None) -> Iterator[Any]:
    from pyarrow import json

    for lines in whole_lines(source):
        yield json.read_json(io.BytesIO(lines), parse_options=options)


def whole_lines(source: Any) -> Iterator[bytes]:
    """Read text in blocks that end with a line; those of empty lines alone are left out."""
    rest = b""
    while data := source.read(JSON_BYTES):
        whole, newline, rest = (rest + data).rpartition(b"\n")
        if newline and whole.strip():
            yield whole + newline
    if rest.strip():
        yield rest


@contextmanager
def reading(path: object, kind: str | None = None) -> Iterator[None]:
    """Turn what pyarrow raises while it reads a file into an InputError that names the file.

    Without a format the place itself is looked for.
    """
    import pyarrow as pa

    try:
        yield
    except pa.ArrowCancelled:
        raise KeyboardInterrupt from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        if kind is None:
            raise InputError(f"{path} cannot be opened: {reason}") from error
        name = posixpath.basename(str(path))
        raise InputError(f"{name} cannot be read as {kind}: {reason}") from error
