"""Write table files in the format of the suffix.

A file appears only when it is complete.
"""

from __future__ import annotations

import json
import os
import posixpath
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from hbconv.cli.shards import open_file_system
from hbconv.errors import InputError
from hbconv.files import appearing

__all__ = ["json_line", "placed", "placed_in", "table_writer"]


def placed(given: str) -> AbstractContextManager[Path]:
    """Give a temporary file that takes a path or URL when the block ends without an error."""
    return placed_in(*open_file_system(given))


@contextmanager
def placed_in(system: Any, path: str) -> Iterator[Path]:
    """Do the same for a path of a file system.

    A file of another system is written on the local disk first, then sent under another name.
    """
    if system.type_name == "local":
        with appearing(path) as temporary:
            yield temporary
        return
    descriptor, name = tempfile.mkstemp(prefix="hbconv-")
    os.close(descriptor)
    try:
        yield Path(name)
        _send(name, system, path)
    finally:
        Path(name).unlink()


def _send(name: str, system: Any, path: str) -> None:
    """Copy a local file to another system, where an interruption leaves what was there before."""
    folder, own = posixpath.split(path)
    partial = posixpath.join(folder, f".{own}.{secrets.token_hex(4)}")
    try:
        with open(name, "rb") as source, system.open_output_stream(partial) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        system.move(partial, path)
    except BaseException:
        with suppress(OSError):
            system.delete_file(partial)
        raise


@contextmanager
def table_writer(path: Path, kind: str, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Give a function that writes record batches of a schema to a file.

    Raises
    ------
    InputError
        The format does not hold a column's type.
    """
    with _writing(path.name), _opened(kind, path, schema) as writer:
        yield writer.write_batch


@contextmanager
def _writing(name: str) -> Iterator[None]:
    """Turn pyarrow's errors about types into an InputError that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputError(f"{name} cannot be written: {str(error).splitlines()[0]}") from error


def _opened(kind: str, path: Path, schema: Any) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if kind == "csv":
        return pa.csv.CSVWriter(path, schema)
    if kind == "json":
        return _JsonWriter(path)
    return (
        pa.ipc.new_file(path, schema) if kind == "ipc" else pa.parquet.ParquetWriter(path, schema)
    )


class _JsonWriter:
    """Write a JSON object a line; NaN and infinite values are null, as JSON has none."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write_batch(self, batch: Any) -> None:
        for row in batch.to_pylist():
            self.file.write(json_line(row))


def json_line(values: dict[str, Any]) -> str:
    r"""Return values as a line of JSON; NaN and infinite ones are null, as JSON has none.

    >>> json_line({"a": 1.5, "b": [float("nan"), {"c": float("inf")}]})
    '{"a": 1.5, "b": [null, {"c": null}]}\n'
    """
    return json.dumps(_plain(values), default=str, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    finite = not isinstance(value, float) or value - value == 0
    return value if finite else None
