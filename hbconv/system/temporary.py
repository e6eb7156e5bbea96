"""Places for temporary files: memory where the system has files there, else a folder.

Linux has files in memory. They need no folder, and their paths can be given to what reads or writes
files.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from hbconv.errors import OptionError

__all__ = ["MemoryFile", "folder_of_temporaries", "memory_file", "scratch_path", "temporary_folder"]

NOT_EXECUTABLE = 8
"""MFD_NOEXEC_SEAL: it bars running the file as a program, and not mapping it as a library."""
MADE = count(1)
NO_PLACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""Errors of a folder that takes no more."""


class MemoryFile(NamedTuple):
    """An open file that no folder holds.

    Parameters
    ----------
    descriptor : int
    path : str
        No file before had this path.
    """

    descriptor: int
    path: str


@contextmanager
def memory_file(name: str) -> Iterator[MemoryFile]:
    """Give an empty file in memory until the block ends.

    The name is what the system calls the file where it lists what a process has mapped.

    Numbers of files come again, and a loader returns the former library for a path that it knows.
    So the path holds another number too: its bits, as steps that lead nowhere.

    Raises
    ------
    OSError
        The system has no such files, forbids them, or gives them no path.
    """
    descriptor = _create(name)
    try:
        steps = f"{next(MADE):b}".replace("0", "/").replace("1", "./")
        path = f"/proc/self/{steps}fd/{descriptor}"
        Path(path).stat()  # /proc is missing in some containers
        yield MemoryFile(descriptor, path)
    finally:
        os.close(descriptor)


def _create(name: str) -> int:
    if not hasattr(os, "memfd_create"):
        raise OSError("This system has no files in memory.")
    try:
        return os.memfd_create(name, os.MFD_CLOEXEC)
    except PermissionError:
        # So the setting vm.memfd_noexec=2 wants it.
        return os.memfd_create(name, os.MFD_CLOEXEC | NOT_EXECUTABLE)


@contextmanager
def scratch_path(name: str) -> Iterator[Path]:
    """Give a path that others may write to and read from, until the block ends.

    Raises
    ------
    OptionError
        There is no place for files.
    """
    with ExitStack() as stack:
        yield _path_in_memory(name, stack) or stack.enter_context(temporary_folder()) / name


def _path_in_memory(name: str, stack: ExitStack) -> Path | None:
    try:
        return Path(stack.enter_context(memory_file(name)).path)
    except OSError:
        return None


@contextmanager
def temporary_folder(prefix: str | None = None) -> Iterator[Path]:
    """Give an empty folder, whose name begins so, until the block ends.

    Raises
    ------
    OptionError
        No folder takes temporary files, or the one that did is full.
    """
    try:
        # Windows deletes no file that is open, so its folder stays.
        folder = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except OSError as error:
        raise _no_place(error) from error
    with folder as name:
        try:
            yield Path(name)
        except OSError as error:
            # What else fails in the block is not the folder's fault.
            if error.errno in NO_PLACE:
                raise _no_place(error) from error
            raise


def folder_of_temporaries() -> str:
    """Return the folder that temporary files stand in.

    Raises
    ------
    OptionError
        There is none.
    """
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise _no_place(error) from error


def _no_place(error: OSError) -> OptionError:
    return OptionError(
        f"hbconv needs a place for temporary files: {error}. "
        "Set the environment variable TMPDIR to a folder that can be written to and has room."
    )
