"""Cache: files under keys in a folder of the user's, shared by processes. What is in it is run, so it is trusted only where no one else can write."""

from __future__ import annotations

import io
import os
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["Cache"]

VARIABLE = "HBCONV_CACHE"
VERSION = "1"
"""Number of the layout of entries."""
LIMIT = 512 << 20
"""Bytes that the entries take together; the ones unused for longest go first."""


class Cache:
    """A folder of entries, each one file: a zip archive, whose checksums tell damage.

    Its comment is the entry's own key: an entry under the name of another is none.
    Nothing here raises what the file system raises: an entry that cannot be read is none, and one that cannot be written is left out.

    Parameters
    ----------
    folder : Path or None
        None keeps nothing.
    limit : int
        Bytes.
    """

    def __init__(self, folder: Path | None, limit: int = LIMIT) -> None:
        self.folder, self.limit = folder, limit

    @classmethod
    def chosen(cls) -> Cache:
        """Take the folder that the environment variable HBCONV_CACHE names, none where it is empty or 0, by default the platform's for caches."""
        named = os.environ.get(VARIABLE)
        if named is None:
            return cls(_platform_folder() / "hbconv" / VERSION)
        return cls(Path(named) / VERSION if named not in ("", "0") else None)

    def read(self, key: str) -> dict[str, bytes] | None:
        """Return the files under a key, None where there are none, or none that can be trusted."""
        if self.folder is None:
            return None
        path = self.folder / key
        try:
            with path.open("rb") as file:
                if not (_own(os.fstat(file.fileno())) and _own(self.folder.stat())):
                    return None
                archive = zipfile.ZipFile(io.BytesIO(file.read()))
            files = {name: archive.read(name) for name in archive.namelist()}
            os.utime(path)
        except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
            return None
        return files if archive.comment == key.encode() else None

    def write(self, key: str, files: Mapping[str, bytes]) -> None:
        """Keep files under a key; readers see all of them or none."""
        if self.folder is None or not files or sum(map(len, files.values())) > self.limit // 4:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _place(self.folder / key, files)
            self._evict(self.folder)

    def _evict(self, folder: Path) -> None:
        """Delete entries, the longest unused first, until the rest fit."""
        total = 0
        for status, path in sorted(_entries(folder), key=lambda pair: -pair[0].st_mtime):
            total += status.st_size
            if total > self.limit:
                with suppress(OSError):
                    path.unlink()


def _place(path: Path, files: Mapping[str, bytes]) -> None:
    """Write an archive beside its place and move it there, so that no reader sees half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            archive.comment = path.name.encode()
            for member, data in files.items():
                archive.writestr(member, data)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _entries(folder: Path) -> Iterator[tuple[os.stat_result, Path]]:
    """Yield the entries of a folder; another process may move or delete one while they are listed."""
    for path in folder.iterdir():
        with suppress(OSError):
            yield path.stat(), path


def _own(status: os.stat_result) -> bool:
    """Say whether a file is the user's, and no one else may write to it; Windows keeps such folders in the user's profile."""
    return sys.platform == "win32" or (
        status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _platform_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
