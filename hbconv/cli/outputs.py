"""Write table files in the format of the suffix.

A file appears only when it is complete.
"""

from __future__ import annotations

import posixpath
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from hbconv.cli.json_lines import JsonWriter
from hbconv.cli.shards import open_file_system
from hbconv.errors import InputError, OptionError
from hbconv.files import appearing, appearing_new, scratch

__all__ = ["placed", "placed_in", "placed_new", "table_writer"]


def placed(given: str) -> AbstractContextManager[Path]:
    """Give a temporary file that takes a path or URL when the block ends without an error."""
    return placed_in(*open_file_system(given))


def placed_in(system: Any, path: str) -> AbstractContextManager[Path]:
    """Do the same for a path of a file system.

    A file of another system is written on the local disk first, then sent under another name.
    """
    if system.type_name == "local":
        return appearing(path)
    return _sent(system, path, system.move)


@contextmanager
def placed_new(given: str) -> Iterator[Path]:
    """Give a temporary file that takes a path or URL which nothing has.

    In other file systems that is asked right before the file takes its name.

    Raises
    ------
    OptionError
        Something has it when the block ends: another run may have written it.
    """
    system, path = open_file_system(given)
    is_local = system.type_name == "local"
    place = appearing_new(path) if is_local else _sent(system, path, partial(_move_new, system))
    try:
        with place as temporary:
            yield temporary
    except FileExistsError as error:
        raise OptionError(
            f"{given} appeared while this run was at work, so another one may have written it. It "
            "was left as it is. Name another file, or replace it with --force."
        ) from error


@contextmanager
def _sent(system: Any, path: str, move: Callable[[str, str], None]) -> Iterator[Path]:
    with scratch() as temporary:
        yield temporary
        _send(temporary, system, path, move)


def _send(temporary: Path, system: Any, path: str, move: Callable[[str, str], None]) -> None:
    """Copy a local file to another system, where an interruption leaves what was there before."""
    half = posixpath.join(posixpath.dirname(path), f".hbconv-{secrets.token_hex(4)}")
    try:
        with temporary.open("rb") as source, system.open_output_stream(half) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        move(half, path)
    except BaseException:
        with suppress(OSError):
            system.delete_file(half)
        raise


def _move_new(system: Any, half: str, path: str) -> None:
    from pyarrow import fs

    if system.get_file_info(path).type != fs.FileType.NotFound:
        raise FileExistsError(path)
    system.move(half, path)


@contextmanager
def table_writer(path: Path, kind: str, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Give a function that writes record batches of a schema to a file.

    Raises
    ------
    InputError
        The format does not hold a column's type.
    """
    with _writing(kind), _opened(kind, path, schema) as writer:
        yield writer.write_batch


@contextmanager
def _writing(kind: str) -> Iterator[None]:
    """Turn pyarrow's errors about types into an InputError that names the format."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"The answers cannot be written as {kind}: {reason:.300}") from error


def _opened(kind: str, path: Path, schema: Any) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if kind == "csv":
        return pa.csv.CSVWriter(path, schema)
    if kind == "json":
        return JsonWriter(path)
    return (
        pa.ipc.new_file(path, schema) if kind == "ipc" else pa.parquet.ParquetWriter(path, schema)
    )
