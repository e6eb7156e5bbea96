"""Model files: which files a user means by a path, and what a generation is told to serve.

``iris.hbc`` is version 1 of ``iris``. In a folder, ``iris.hbc`` is so too, and ``iris/2.hbc`` is
version 2 of ``iris``.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hbconv.errors import OptionError, shown
from hbconv.files import REFUSED, ModelFormat, format_of
from hbconv.serve.settings import Settings

__all__ = ["Assignment", "Fingerprint", "ModelFile", "find_models", "fingerprint"]

Fingerprint = tuple[tuple[Any, ...], ...]
"""Tells one state of the files from another."""

SUFFIX = ".hbc"
FIRST = "1"
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VERSION = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, order=True)
class ModelFile:
    """A saved model, and what it is called."""

    name: str
    version: str
    path: Path


def find_models(paths: Sequence[Path], name: str | None = None) -> list[ModelFile]:
    """Find the models of files and folders.

    Parameters
    ----------
    paths : sequence of Path
    name : str, optional
        Of the only file, instead of its stem.

    Raises
    ------
    OptionError
        A file is not there or is no saved model, a name cannot be part of an address, or two files
        are the same version of a model.
    """
    found = [file for path in paths for file in _at(path)]
    if name is not None:
        if len(found) != 1 or paths[0].is_dir():
            raise OptionError("--name renames one model file. Give one, or rename the files.")
        found = [ModelFile(name, FIRST, found[0].path)]
    _require_names(found)
    return sorted(found)


def fingerprint(paths: Sequence[Path], name: str | None = None) -> Fingerprint:
    """Return what tells whether a file appeared, went or changed."""
    try:
        files = find_models(paths, name)
        found = [file.path.stat() for file in files]
    except (OptionError, OSError) as error:
        return ((str(error),),)
    return tuple(
        (file, state.st_ino, state.st_size, state.st_mtime_ns)
        for file, state in zip(files, found, strict=True)
    )


def _at(path: Path) -> Iterator[ModelFile]:
    if path.is_dir():
        yield from _in_folder(path)
        return
    _require_file(path)
    found = format_of(path)
    if found is not ModelFormat.SAVED:
        raise OptionError(_not_saved(path, found))
    yield ModelFile(path.stem, FIRST, path)


def _require_file(path: Path) -> None:
    """Refuse what is no file: to open a pipe waits for ever, and a device may have no end."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise OptionError(f"No file {path}.") from error
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(mode):
        raise OptionError(
            f"{path} is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, and no file."
        )


def _not_saved(path: Path, found: ModelFormat | None) -> str:
    if found is None:
        return f"{path.name} is no model. Serve a file that hbconv convert wrote."
    if found in REFUSED and found is not ModelFormat.PICKLE:
        return f"{path.name} is {found.value}. {REFUSED[found]}"
    flag = " --allow-pickle" if found is ModelFormat.PICKLE else ""
    command = f"hbconv convert{flag} {path.name} -o {path.stem}{SUFFIX}"
    return f"{path.name} is {found.value}, not a saved model. Make one with: {command}"


def _in_folder(folder: Path) -> Iterator[ModelFile]:
    for path in folder.glob(f"*{SUFFIX}"):
        _require_file(path)
        yield ModelFile(path.stem, FIRST, path)
    for path in folder.glob(f"*/*{SUFFIX}"):
        if _VERSION.fullmatch(path.stem):
            _require_file(path)
            yield ModelFile(path.parent.name, path.stem, path)


def _require_names(files: Sequence[ModelFile]) -> None:
    seen: dict[tuple[str, str], Path] = {}
    for file in files:
        if not _NAME.fullmatch(file.name):
            raise OptionError(
                f"{shown(file.name)} cannot be part of an address. Name it by letters, digits, "
                "'.', '_' and '-': --name NAME."
            )
        other = seen.setdefault((file.name, file.version), file.path)
        if other != file.path:
            raise OptionError(
                f"{other} and {file.path} are both version {file.version} of {shown(file.name)}. "
                "Rename one, or put them in a folder as NAME/VERSION.hbc."
            )


@dataclass(frozen=True)
class Assignment:
    """Models, and how to serve them.

    Parameters
    ----------
    files : tuple of ModelFile
    unloaded : tuple of ModelFile
        Models that are there, and are not served.
    settings : Settings
    control : str
        Path of the socket by which workers ask the supervisor to load and unload models; empty
        where they may not.
    """

    files: tuple[ModelFile, ...]
    unloaded: tuple[ModelFile, ...]
    settings: Settings
    control: str = ""

    def to_line(self) -> bytes:
        """Write it as a line of JSON."""
        return json.dumps(asdict(self), default=str).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> Assignment:
        """Read what ``to_line`` wrote."""
        told = json.loads(line)
        return Assignment(
            tuple(_read_file(one) for one in told["files"]),
            tuple(_read_file(one) for one in told["unloaded"]),
            Settings(**told["settings"]),
            told["control"],
        )


def _read_file(told: Mapping[str, str]) -> ModelFile:
    return ModelFile(told["name"], told["version"], Path(told["path"]))
