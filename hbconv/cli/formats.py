"""How pyarrow reads the table files of each format, and what it raises about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hbconv.errors import InputError

__all__ = ["SUFFIXES", "blocks", "file_format", "reading"]

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
"""Formats of table files, by their suffix."""
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts that stand for missing values in CSV files: those of ``pandas.read_csv``."""


def file_format(kind: str) -> Any:
    """Return how pyarrow finds the columns of files of a format, a value of ``SUFFIXES``."""
    import pyarrow.dataset as datasets

    known = {"csv": datasets.CsvFileFormat, "ipc": datasets.IpcFileFormat}
    return known.get(kind, datasets.ParquetFileFormat)()


def blocks(path: str, schema: Any, rows: int) -> Iterator[Any]:
    """Read some columns of a file as record batches of a limited number of rows.

    They are read one after another, and none ahead.

    Parameters
    ----------
    path : str
    schema : pyarrow.Schema
        The columns; of a CSV file, with the types that they are read as.
    rows : int
    """
    kind = SUFFIXES.get(Path(path).suffix.lower(), "parquet")
    read = {"csv": _csv_blocks, "ipc": _ipc_blocks, "parquet": _parquet_blocks}[kind]
    for block in read(path, schema, rows):
        for start in range(0, block.num_rows, rows):
            yield block.slice(start, rows)


def _parquet_blocks(path: str, schema: Any, rows: int) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
        yield from file.iter_batches(rows, columns=schema.names)


def _ipc_blocks(path: str, schema: Any, rows: int) -> Iterator[Any]:  # noqa: ARG001
    import pyarrow as pa

    with pa.memory_map(path) as mapped:
        file = pa.ipc.open_file(mapped)
        yield from (file.get_batch(i).select(schema.names) for i in range(file.num_record_batches))


def _csv_blocks(path: str, schema: Any, rows: int) -> Iterator[Any]:  # noqa: ARG001
    from pyarrow import csv

    convert = csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        null_values=MISSING,
        strings_can_be_null=True,
    )
    with csv.open_csv(path, convert_options=convert) as reader:
        yield from reader


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn what pyarrow raises while it reads a file into an InputError that names the file."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowCancelled:
        raise KeyboardInterrupt from None
    except (pa.ArrowException, OSError) as error:
        kind = SUFFIXES.get(Path(path).suffix.lower(), "parquet")
        reason = str(error).splitlines()[0]
        raise InputError(f"{Path(path).name} cannot be read as {kind}: {reason}") from error
