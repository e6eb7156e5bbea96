"""Files that appear under their name complete and on the disk, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["appearing"]


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file, which replaces the path when the block ends without an error.

    The temporary stands in the same folder under a random name. An error, an interruption or a
    termination removes it and leaves the file under the path as it was.

    Parameters
    ----------
    path : path
        The file to write. What it names is replaced, not written into: a link too.

    Yields
    ------
    Path
        The temporary, empty, readable and writable by its owner alone until it takes its place.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> with appearing(folder / "notes.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    ...     (folder / "notes.txt").exists()
    False
    >>> (folder / "notes.txt").read_text(), len(list(folder.iterdir()))
    ('whole', 1)
    """
    target = Path(path)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Make the new name itself durable, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
