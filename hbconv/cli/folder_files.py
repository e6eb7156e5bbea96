"""List the files below a folder: links are followed, but none in a circle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from hbconv.errors import InputError

__all__ = ["list_files"]

HIDDEN = (".", "_")
"""First letters of names that hold no data."""


def list_files(system: Any, path: str) -> list[str]:
    """Return the paths of the files below a folder.

    Raises
    ------
    InputError
        A link leads to a folder that it lies in, or to nothing; or one is no ordinary file.
    """
    from pyarrow import fs

    if isinstance(system, fs.LocalFileSystem):
        return list(_below(path.rstrip("/") or "/", frozenset()))
    listed = system.get_file_info(fs.FileSelector(path, recursive=True))
    return [info.path for info in listed if info.type == fs.FileType.File]


def _below(folder: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """Yield the files of a folder, which lies in some that are known by device and number."""
    found = os.stat(folder)
    place = (found.st_dev, found.st_ino)
    if place in above:
        raise InputError(
            f"{folder} is a link to a folder that it lies in, so its files would be read again and "
            "again. Remove the link, or name the folders."
        )
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(HIDDEN):
                continue
            if entry.is_dir():
                yield from _below(entry.path, above | {place})
            elif entry.is_file():
                yield entry.path
            elif os.path.exists(entry.path):
                raise InputError(f"{entry.path} is no ordinary file. Remove it, or name the files.")
            else:
                raise InputError(f"{entry.path} is a link to nothing. Remove it, or mend it.")
