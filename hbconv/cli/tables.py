"""Reading and writing tables in batches, with pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hbconv.errors import InputError, MissingPackageError

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = ["atomic_parquet", "open_table", "read_all", "rows_for"]

_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}


def open_table(path: Path) -> Any:
    """Open a file, or a folder of parquet files, as a pyarrow dataset.

    Raises
    ------
    InputError
        No such file, an unknown suffix, or a damaged file.
    MissingPackageError
        pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.dataset
    except ImportError as error:
        raise MissingPackageError("Reading tables needs pyarrow. Install with: pip install 'hbconv[score]'") from error
    if not path.exists():
        raise InputError(f"No file {path}.")
    kind = "parquet" if path.is_dir() else _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path.name}: unknown table format. Known: {', '.join(_FORMATS)}.")
    try:
        return pyarrow.dataset.dataset(path, format=kind)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path.name} cannot be read as {kind}: {str(error).splitlines()[0]}") from error


def read_all(path: Path, columns: list[str] | None, rows: int | None = None) -> Any:
    """Read a table, or its first rows, into memory as a pyarrow Table."""
    dataset = open_table(path)
    return dataset.to_table(columns=columns) if rows is None else dataset.head(rows, columns=columns)


def rows_for(model: Model, table: Any) -> Any:
    """Return a pyarrow Table as the model takes it: its only column where the model reads a sequence, such as texts.

    Raises
    ------
    InputError
        Several columns, where the model reads a sequence.
    """
    conventions = model.schema.conventions
    if not (conventions.items or conventions.sequence):
        return table
    if table.num_columns != 1:
        raise InputError(f"The model reads one column of values, and here are {', '.join(table.column_names)}. Give a table of that column alone.")
    return table.column(0)


@contextmanager
def atomic_parquet(path: Path, schema: Any) -> Iterator[Any]:
    """Give a ParquetWriter whose file appears under its name only when everything was written and is on the disk."""
    import pyarrow.parquet as pq

    partial = path.with_name(path.name + ".partial")
    try:
        with pq.ParquetWriter(partial, schema) as writer:
            yield writer
        with partial.open("rb") as handle:
            os.fsync(handle.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
