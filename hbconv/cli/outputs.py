"""Write table files in the format of the suffix.

A file appears only when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hbconv.cli.formats import SUFFIXES
from hbconv.errors import InputError, OptionError
from hbconv.files import appearing

__all__ = ["check_folder", "check_output", "table_writer"]


def check_output(path: Path, inputs: tuple[Path, ...]) -> None:
    """Refuse an output before any work is done.

    Raises
    ------
    OptionError
        Its suffix names no format, its folder is not there, or it is not an ordinary file. Or it
        is one of the inputs, or lies in one.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"-o {path}: unknown table format. Known: {', '.join(SUFFIXES)}.")
    check_folder(path)
    for given in inputs:
        if _is_same(path, given):
            raise OptionError(
                f"-o {path} is the input itself, which would be lost. Name another file."
            )
        if given.is_dir() and given.resolve() in path.resolve().parents:
            raise OptionError(
                f"-o {path} lies in the input folder {given}, whose files are read as one table. "
                "Name a file elsewhere."
            )


def check_folder(path: Path) -> None:
    """Refuse an output whose folder is not there, or that is not an ordinary file.

    Raises
    ------
    OptionError
    """
    if not path.parent.is_dir():
        raise OptionError(f"-o {path}: there is no folder {path.parent}. Make it first.")
    if path.exists() and not path.is_file():
        raise OptionError(f"-o {path} is no ordinary file. Name a file that is written anew.")


@contextmanager
def table_writer(path: Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Give a function that writes tables of a schema.

    The file takes its name when everything is written and on the disk.

    Raises
    ------
    InputError
        The format does not hold a column's type.
    """
    with (
        appearing(path) as temporary,
        writing(path),
        _opened(SUFFIXES[path.suffix.lower()], temporary, schema) as writer,
    ):
        yield writer.write_table


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors about types into an InputError that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputError(f"{path.name} cannot be written: {str(error).splitlines()[0]}") from error


def _opened(kind: str, path: Path, schema: Any) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if kind == "csv":
        return pa.csv.CSVWriter(path, schema)
    return (
        pa.ipc.new_file(path, schema) if kind == "ipc" else pa.parquet.ParquetWriter(path, schema)
    )


def _is_same(path: Path, given: Path) -> bool:
    return path.exists() and given.exists() and path.samefile(given)
