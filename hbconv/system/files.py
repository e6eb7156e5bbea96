"""Files that appear under their name complete and on the disk, or not at all.

What is written stands under a name of its own until then, and is locked. A process that is killed
loses its locks, so `sweep` can tell what it left from what others are writing.

JSON of files: its texts hold whole characters, so that they can be printed and written.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import string
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from hbconv.system.temporary import folder_of_temporaries

__all__ = [
    "LEFTOVER",
    "appearing",
    "appearing_new",
    "lock_file",
    "read_json",
    "require_whole",
    "scratch",
    "sweep",
]

PREFIX = ".hbconv-"
LEFTOVER = re.compile(re.escape(PREFIX) + r"\w{8}")
"""Names of files that are being written, or that a killed process left half-written."""


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
    with _appearing(Path(path), os.replace) as temporary:
        yield temporary


@contextmanager
def appearing_new(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file, which takes a path that nothing has.

    Of several processes that write to one path, one has it, and the others are told.

    Raises
    ------
    FileExistsError
        Something stands under the path when the block ends: a file, or a link to nothing.
    """
    with _appearing(Path(path), _take) as temporary:
        yield temporary


@contextmanager
def _appearing(target: Path, take: Callable[[Path, Path], None]) -> Iterator[Path]:
    with scratch(target.parent) as temporary:
        yield temporary
        _sync(temporary)
        temporary.chmod(0o666 & ~_umask())
        take(temporary, target)
    _sync_folder(target.parent)


@contextmanager
def scratch(folder: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Give an empty file in a folder, or in that of temporary files, until the block ends."""
    with ExitStack() as undo:
        yield _temporary(folder or folder_of_temporaries(), undo)


def _temporary(folder: str | os.PathLike[str], undo: ExitStack) -> Path:
    """Make a file and lock it. One that was swept before it was locked is made again.

    What removes it stands before the file does: a signal may end the process right behind that.
    """
    while True:
        name = PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(8))
        temporary = Path(folder, name).absolute()
        undo.callback(temporary.unlink, missing_ok=True)
        descriptor = os.open(temporary, _OWN, 0o600)
        if os.name != "posix":  # others replace no file that is open
            os.close(descriptor)
            return temporary
        undo.callback(os.close, descriptor)
        if lock_file(descriptor) is not False and temporary.exists():
            return temporary


_LETTERS = string.ascii_lowercase + string.digits + "_"
_OWN = (
    os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)
"""How a file is opened that must not be there."""


def _take(temporary: Path, target: Path) -> None:
    """Give a file a name that nothing has; the file may keep the other one too.

    Some file systems know no second name of a file. There an empty file takes the name first.
    """
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        temporary.replace(target)


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove the files of a folder that killed processes left half-written.

    Those that another process is writing stay, and so do all where files cannot be locked.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / ".hbconv-a1b2c3d4").touch()
    >>> with appearing(folder / "notes.txt") as temporary:
    ...     sweep(folder)
    ...     [path == temporary for path in folder.iterdir()]
    [True]
    """
    with suppress(OSError), os.scandir(folder) as entries:
        found = [entry.path for entry in entries if LEFTOVER.fullmatch(entry.name)]
        for path in found:
            with suppress(OSError):
                _sweep(path)


def _sweep(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        if lock_file(descriptor):
            os.unlink(path)
    finally:
        os.close(descriptor)


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


_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""What a half of a character is written as, alone or beside its other half."""


def read_json(data: bytes | str, **how: Any) -> Any:
    r"""Decode a JSON text; ``how`` goes to ``json.loads``.

    Raises
    ------
    ValueError
        It is not JSON, or a text in it holds half a character: a lone surrogate, which no encoding
        writes.

    Examples
    --------
    >>> read_json('["caf\\u00e9", "\\ud83d\\ude00"]')
    ['café', '😀']
    >>> read_json('["\\ud83d"]')
    Traceback (most recent call last):
    ValueError: a text holds half a character, the lone surrogate '\ud83d'
    """
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
    found = json.loads(text, **how)
    if _HALF.search(text):
        require_whole(json.dumps(found, ensure_ascii=False, default=str))
    return found


def require_whole(text: str) -> None:
    """Refuse a text that holds half a character.

    Raises
    ------
    ValueError
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise ValueError(f"a text holds half a character, the lone surrogate {half!r}") from error


def lock_file(descriptor: int) -> bool | None:
    """Lock an open file until it is closed, or its process ends.

    Returns True where it is locked now, False where another process has it, and None where files
    cannot be locked: the system has no locks, or the file system has none.
    """
    try:
        import fcntl
    except ImportError:
        return _lock_on_windows(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _lock_on_windows(descriptor: int) -> bool | None:
    try:
        import msvcrt
    except ImportError:
        return None
    try:
        # One byte is locked, from where the file stands: at its beginning.
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except PermissionError:
        return False
    except OSError:
        return None
    return True
