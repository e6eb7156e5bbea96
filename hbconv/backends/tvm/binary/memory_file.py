"""Files in memory: they need no folder, and their paths can be given to what reads or writes files.

Linux has them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

__all__ = ["MemoryFile", "memory_file"]

NOT_EXECUTABLE = 8
"""MFD_NOEXEC_SEAL: it bars running the file as a program, and not mapping it as a library."""
MADE = count(1)


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
