"""Cache: files under keys, in a folder of the user's that processes share.

It holds compiled code, times and prices. Code is run, so an entry is trusted only if nobody else
can write to it or its folder.
"""

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
"""Version of the layout of entries."""
LIMIT = 512 << 20
"""Bytes that the entries may take together; those unused for longest are deleted first."""
UNSEEN_SHARE = 64
"""A process writes up to this share of the limit, or a quarter of what is free, before it lists the
entries again: listing 3,000 takes 50 ms, as long as compiling a small function."""

_unlisted: dict[Path, int] = {}
"""Bytes that this process may write to each folder before it lists the entries again."""


class Cache:
    """A folder of entries, each one a zip archive, whose checksums reveal damage.

    An archive's comment is its key, so that a file under the wrong name is not taken. No error of
    the file system passes: an unreadable entry is missing, and a failed write is left out.

    Parameters
    ----------
    folder : Path or None
        None keeps nothing.
    limit : int
        Bytes that the entries may take together.
    """

    def __init__(self, folder: Path | None, limit: int = LIMIT) -> None:
        self.folder = folder
        self.limit = limit

    @classmethod
    def chosen(cls) -> Cache:
        """Return the cache that the environment variable HBCONV_CACHE chooses.

        It names a folder; empty or 0 keeps nothing. The default is the platform's cache folder.
        """
        named = os.environ.get(VARIABLE)
        if named is None:
            return cls(_platform_folder())
        return cls(Path(named) / VERSION if named not in ("", "0") else None)

    def read(self, key: str) -> dict[str, bytes] | None:
        """Return the files under a key; None if there are none, or none that can be trusted."""
        if self.folder is None:
            return None
        path = self.folder / key
        try:
            with path.open("rb") as file:
                # The open file is asked, as another could take its name meanwhile.
                if not (_is_own(os.fstat(file.fileno())) and _is_own(self.folder.stat())):
                    return None
                archive = zipfile.ZipFile(io.BytesIO(file.read()))
            files = {name: archive.read(name) for name in archive.namelist()}
            # Reading counts as use: eviction deletes what was used longest ago.
            os.utime(path)
        except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
            return None
        return files if archive.comment == key.encode() else None

    def write(self, key: str, files: Mapping[str, bytes]) -> None:
        """Store files under a key; readers see all of them or none."""
        # One entry must not drive out all others.
        if self.folder is None or not files or sum(map(len, files.values())) > self.limit // 4:
            return
        with suppress(OSError):
            # The owner's alone: code of the cache is run.
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_archive(self.folder / key, files)
            self._evict(self.folder, (self.folder / key).stat().st_size)

    def remove(self, key: str) -> bool:
        """Delete the files under a key, trusted or not; False if there are none."""
        if self.folder is None:
            return False
        try:
            (self.folder / key).unlink()
        except OSError:
            return False
        return True

    def _evict(self, folder: Path, written: int) -> None:
        """Delete entries, those unused for longest first, until the rest fit."""
        _unlisted[folder] = _unlisted.get(folder, 0) - written
        if _unlisted[folder] > 0:
            return
        # The newest first, so that what is beyond the limit is the oldest.
        total = 0
        for status, path in sorted(_entries(folder), key=lambda pair: -pair[0].st_mtime):
            total += status.st_size
            if total > self.limit:
                with suppress(OSError):
                    path.unlink()
        _unlisted[folder] = max((self.limit - total) // 4, self.limit // UNSEEN_SHARE)


def _write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """Write an archive under another name and move it, so that no reader sees half of it."""
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
    """Yield the entries of a folder; other processes may delete one while they are listed."""
    for path in folder.iterdir():
        with suppress(OSError):
            yield path.stat(), path


def _is_own(status: os.stat_result) -> bool:
    """Whether a file is the user's, and nobody else may write to it.

    Windows keeps such folders in the user's profile.
    """
    return sys.platform == "win32" or (
        status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _platform_folder() -> Path | None:
    """Return the platform's cache folder; None if the user has no home.

    It is None too where the package that knows the folder is missing.
    """
    try:
        from platformdirs import user_cache_path

        return user_cache_path("hbconv", appauthor=False, version=VERSION, opinion=False)
    except (ImportError, RuntimeError):
        return None
