"""Model files: which files a user means by a path, and which ones a generation has to serve.

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
from hbconv.model_formats import REFUSED, ModelFormat, format_of
from hbconv.serve.settings import Settings

__all__ = ["Assignment", "Fingerprint", "ModelFile", "find_models", "fingerprint"]

Fingerprint = tuple[tuple[Any, ...], ...]
"""Differs where the files do: by inode for a replaced file, by time and size for a written one."""

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
    files = [file for path in paths for file in _at(path)]
    if name is not None:
        if len(files) != 1 or paths[0].is_dir():
            raise OptionError("--name renames one model file. Give one, or rename the files.")
        files = [ModelFile(name, FIRST, files[0].path)]
    _require_names(files)
    return sorted(files)


def fingerprint(paths: Sequence[Path], name: str | None = None) -> Fingerprint:
    """Return what differs once a file appears, goes or changes."""
    try:
        files = find_models(paths, name)
        states = [file.path.stat() for file in files]
    # A folder that cannot be read is a state too: its end is a change that is worth a swap.
    except (OptionError, OSError) as error:
        return ((str(error),),)
    return tuple(
        (file, state.st_ino, state.st_size, state.st_mtime_ns)
        for file, state in zip(files, states, strict=True)
    )


def _at(path: Path) -> Iterator[ModelFile]:
    if path.is_dir():
        yield from _in_folder(path)
        return
    _require_file(path)
    kind = format_of(path)
    if kind is not ModelFormat.SAVED:
        raise OptionError(_not_saved(path, kind))
    yield ModelFile(path.stem, FIRST, path)


def _require_file(path: Path) -> None:
    """Refuse what is no file: opening a pipe waits for ever, and a device may have no end."""
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


def _not_saved(path: Path, kind: ModelFormat | None) -> str:
    if kind is None:
        return f"{path.name} is no model. Serve a file that hbconv convert wrote."
    if kind in REFUSED and kind is not ModelFormat.PICKLE:
        return f"{path.name} is {kind.value}. {REFUSED[kind]}"
    flag = " --allow-pickle" if kind is ModelFormat.PICKLE else ""
    command = f"hbconv convert{flag} {path.name} -o {path.stem}{SUFFIX}"
    return f"{path.name} is {kind.value}, not a saved model. Make one with: {command}"


def _in_folder(folder: Path) -> Iterator[ModelFile]:
    for path in folder.glob(f"*{SUFFIX}"):
        _require_file(path)
        yield ModelFile(path.stem, FIRST, path)
    # Other stems are no versions, so that a folder may hold backups beside them.
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
        fields = json.loads(line)
        return Assignment(
            tuple(_read_file(file) for file in fields["files"]),
            tuple(_read_file(file) for file in fields["unloaded"]),
            Settings(**fields["settings"]),
            fields["control"],
        )


def _read_file(fields: Mapping[str, str]) -> ModelFile:
    return ModelFile(fields["name"], fields["version"], Path(fields["path"]))
