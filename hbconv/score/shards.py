"""Find the table files that an input names: files, folders, globs and URLs of other systems.

Names of folders may hold columns, as hive writes them (``year=2024``). Links below a folder are
followed, but none in a circle.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote as quote_word
from typing import Any
from urllib.parse import quote, unquote

from hbconv.errors import InputError, MissingPackageError, OptionError
from hbconv.score.formats import KINDS, file_schema, kind_of, reading

__all__ = ["UTF8", "Shard", "as_path", "find_shards", "is_url", "look_at", "open_file_system"]

WILD = re.compile(r"[*?\[]")
"""Characters that make a pattern of a path."""
RESERVED = "%:/?#[]@!$&'()*+,;="
"""Characters that mean something in a URL, beside letters and digits."""
UTF8 = "utf-8"
"""Encoding of text where no other one is named."""
LOCAL = re.compile("(?:file|local)://(?:localhost)?(/.*)")
"""URLs of files of this machine."""


@dataclass(frozen=True)
class Shard:
    """One table file.

    Parameters
    ----------
    name : str
        Its path below the folder or pattern that was named; the answers' file is called after it.
    kind : str
        Its format, a value of ``SUFFIXES``.
    system : pyarrow.fs.FileSystem
        Where it is.
    path : str
        Its path there.
    encoding : str
        Of its text, as Python names it.
    separator : str
        Between the values of a CSV row.
    renames : dict of str
        New names of columns by those that the file holds.
    schema : pyarrow.Schema, optional
        New names and types of its columns, those of ``keys`` last. None until the file was looked
        at.
    keys : dict of pyarrow.Scalar
        Columns that the names of its folders tell (``year=2024``).
    rows : int, optional
        How many it holds, where its head has them.
    row_groups : tuple of int, optional
        Row groups that are read of a parquet file, where not all of them are.
    start : int
        Rows of the file before the first one that is read.
    """

    name: str
    kind: str
    system: Any
    path: str
    encoding: str = UTF8
    separator: str = ","
    renames: dict[str, str] = field(default_factory=dict)
    schema: Any = None
    keys: dict[str, Any] = field(default_factory=dict)
    rows: int | None = None
    row_groups: tuple[int, ...] | None = None
    start: int = 0

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return bool(self.system.type_name == "local")

    def stored_name(self, name: str) -> str:
        """Return the name that a column has in the file."""
        return next((old for old, new in self.renames.items() if new == name), name)

    def open(self) -> Any:
        """Open the file for reading from any place in it."""
        return self.system.open_input_file(self.path)

    def stream(self) -> Any:
        """Open the file for reading from its start, and decompress it if its name says so."""
        return self.system.open_input_stream(self.path)

    def info(self) -> dict[str, Any]:
        """Return what differs once the file is changed: its size, and when it was written."""
        info = self.system.get_file_info(self.path)
        return {"size": info.size, "written": info.mtime_ns}

    def digest(self) -> dict[str, Any]:
        """Return what differs where the file holds something else, whenever it was written."""
        with self.system.open_input_stream(self.path, compression=None) as source:
            return {"sha256": hashlib.file_digest(source, "sha256").hexdigest()}


def find_shards(places: Sequence[str], kind: str | None = None, **form: Any) -> tuple[Shard, ...]:
    """Find the files of each input, in the order of their names.

    A folder's files are those below it whose name begins with neither ``.`` nor ``_``.

    Parameters
    ----------
    places : sequence of str
        Files, folders, patterns (``*``, ``?``, ``[...]``, and ``**`` for folders), or URLs.
    kind : str, optional
        Format of files whose suffix shows none.
    **form
        How the files are read: ``encoding``, ``separator`` and ``renames`` of `Shard`.

    Raises
    ------
    OptionError
        There is no such file or folder.
    InputError
        An empty folder, a file of an unknown or damaged format.
    MissingPackageError
        pyarrow or what the URL needs is not installed.
    """
    try:
        import pyarrow  # noqa: F401, ICN001
    except ImportError as error:
        raise MissingPackageError(
            "Reading tables needs pyarrow. Install with: pip install 'hbconv[score]'"
        ) from error
    return tuple(shard for place in places for shard in _shards(place, kind, form))


def as_path(place: str) -> str:
    """Return the path of a URL of a local file; other URLs and paths stay.

    >>> as_path("file:///tmp/new%20rows.csv"), as_path("s3://bucket/rows.csv"), as_path("rows.csv")
    ('/tmp/new rows.csv', 's3://bucket/rows.csv', 'rows.csv')
    """
    match = LOCAL.fullmatch(place)
    return unquote(match[1]) if match else place


def is_url(text: str) -> bool:
    """Say whether an argument names a file by its URL."""
    return "://" in text


def open_file_system(place: str) -> tuple[Any, str]:
    """Return the file system of a path or URL, and the path in it.

    pyarrow's own systems come first, then those of fsspec. A URL may be written with spaces and
    letters of any script.
    """
    from pyarrow import fs

    require_utf8(place)
    if not is_url(place):
        return fs.LocalFileSystem(), place
    with reading(place):
        try:
            # What is reserved stays: a URL may be quoted already.
            return tuple(fs.FileSystem.from_uri(quote(place, safe=RESERVED)))
        except (ValueError, NotImplementedError):
            return _open_by_fsspec(place)


def require_utf8(path: str) -> None:
    """Refuse a name that pyarrow cannot be given.

    Raises
    ------
    OptionError
    """
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise OptionError(f"{path!r} is a name that is no text in utf-8. Rename it.") from error


def _open_by_fsspec(place: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        import fsspec

        system, path = fsspec.core.url_to_fs(place)
    except ImportError as error:
        raise MissingPackageError(
            f"{place} needs a package that is not installed: {error}. "
            "Install fsspec and what it names."
        ) from error
    except ValueError as error:
        raise OptionError(f"{place}: {error}. Name a file, or a URL such as s3://...") from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def _shards(place: str, kind: str | None, form: Mapping[str, Any]) -> list[Shard]:
    system, path = open_file_system(place)
    root, paths = _files(place, system, path)
    shards = []
    for file in paths:
        kind_of_file = kind_of(file) or kind
        if kind_of_file is None:
            raise InputError(
                f"{posixpath.basename(file)}: unknown table format. Known: {', '.join(KINDS)}. "
                "State it with --input-format, or leave the file out by a pattern such as "
                "'in/*.parquet'."
            )
        name = posixpath.relpath(file, root) if root else file
        shards.append(look_at(Shard(name, kind_of_file, system, file, **form)))
    return shards


def _files(place: str, system: Any, path: str) -> tuple[str, list[str]]:
    """Return the folder below which shards are named, and the paths of the files."""
    from pyarrow import fs

    with reading(place):
        info = system.get_file_info(path)
        if info.type == fs.FileType.File:
            return posixpath.dirname(path), [path]
        pattern = None
        if info.type == fs.FileType.NotFound and (wild := WILD.search(path)):
            pattern = _pattern(path)
            path = posixpath.dirname(path[: wild.start()]) or "."
            info = system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise OptionError(f"No file {place}.")
        listed = list_files(system, path)
    # A file whose name pyarrow cannot be given must not be left out in silence.
    for file in listed:
        require_utf8(file)
    root = path.rstrip("/")
    paths = sorted(file for file in listed if _is_data(file, root))
    if pattern is not None:
        paths = [file for file in paths if pattern.fullmatch(posixpath.normpath(file))]
    if not paths:
        raise InputError(
            f"No file matches {place}." if pattern else f"The folder {place} holds no table files."
        )
    return root, paths


def _is_data(path: str, root: str) -> bool:
    below = posixpath.relpath(path, root).split("/")
    return not any(part.startswith((".", "_")) for part in below)


def _pattern(path: str) -> re.Pattern[str]:
    """Return the expression of a pattern; ``**`` stands for any folders, also none."""
    parts = [
        r"(?:[^/]+/)*" if part == "**" else _segment(part) + "/"
        for part in posixpath.normpath(path).split("/")
    ]
    return re.compile("".join(parts).removesuffix("/"))


def _segment(part: str) -> str:
    # fnmatch lets * match slashes, and wraps the whole in (?s:...)\Z.
    inner = fnmatch.translate(part)
    return inner.replace(".*", "[^/]*").replace("(?s:", "(?:").removesuffix(r"\Z")


def look_at(shard: Shard) -> Shard:
    """Return a file with the columns that it holds, and those that the names of its folders tell.

    Raises
    ------
    InputError
        It is damaged or empty, or lacks a column that is to be renamed.
    """
    import pyarrow as pa

    with reading(shard.name, shard.kind):
        held, rows = file_schema(shard)
        by_folder = folder_keys(posixpath.dirname(shard.name))
        keys = {key: value for key, value in by_folder.items() if key not in held.names}
    fields = [*held, *(pa.field(key, value.type) for key, value in keys.items())]
    names = [field.name for field in fields]
    for old, new in shard.renames.items():
        if old not in names:
            more = hint(shard, [old], names)
            raise InputError(f"--rename {new}={old}: {shard.name} has no column {old!r}.{more}")
    new_names = [shard.renames.get(name, name) for name in names]
    return replace(
        shard,
        schema=pa.schema([f.with_name(n) for f, n in zip(fields, new_names, strict=True)]),
        keys={shard.renames.get(key, key): value for key, value in keys.items()},
        rows=rows,
    )


SEPARATORS = (";", "\t", "|")
"""What separates values where a header without commas holds it."""


def hint(shard: Shard, missing: Sequence[str], present: Sequence[str]) -> str:
    """Return what may be wrong where columns are missing: letter case, or the separator."""
    lower = {name.lower(): name for name in present}
    pairs = [f"{name}={lower[name.lower()]}" for name in missing if name.lower() in lower]
    # A name may hold the end of a line, which would forge one.
    cased = [pair for pair in pairs if pair.isprintable()]
    if cased:
        renames = " ".join(f"--rename {quote_word(pair)}" for pair in cased[:3])
        return f" They differ by letter case: hbconv score {renames}."
    found = [s for s in SEPARATORS if shard.kind == "csv" and len(present) == 1 and s in present[0]]
    if found:
        letter = {"\t": "tab"}.get(found[0], f"'{found[0]}'")
        return f" Its header looks separated by {found[0]!r}: hbconv score --separator {letter}."
    return ""


def folder_keys(folder: str) -> dict[str, Any]:
    """Return what the names of the folders in a path tell (``year=2024``), as pyarrow scalars.

    They are int32 or text, as pyarrow finds for a data set of a file alone. Hive's name for a
    missing value is null.

    >>> folder_keys("in/year=2024/city=S%C3%A3o%20Tom%C3%A9")
    {'year': <pyarrow.Int32Scalar: 2024>, 'city': <pyarrow.StringScalar: 'São Tomé'>}
    """
    names = [part.partition("=")[0] for part in folder.split("/") if "=" in part]
    if not names:
        return {}
    import pyarrow as pa
    import pyarrow.dataset as datasets

    schema = pa.schema([(name, pa.string()) for name in dict.fromkeys(names)])
    expression = datasets.HivePartitioning(schema).parse(f"/{folder}/")
    texts = datasets.get_partition_keys(expression)
    return {name: _scalar(texts[name]) for name in schema.names}


def _scalar(text: str | None) -> Any:
    import pyarrow as pa

    if text is None:
        return pa.scalar(None)
    try:
        return pa.scalar(text).cast(pa.int32())
    except pa.ArrowInvalid:
        return pa.scalar(text)


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
    """Yield the files of a folder, given device and number of those that it is in."""
    info = os.stat(folder)
    identity = (info.st_dev, info.st_ino)
    # Device and inode name a folder, whichever path or link leads to it.
    if identity in above:
        raise InputError(
            f"{folder} is a link to a folder that it lies in, so its files would be read again and "
            "again. Remove the link, or name the folders."
        )
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(HIDDEN):
                continue
            if entry.is_dir():
                yield from _below(entry.path, above | {identity})
            elif entry.is_file():
                yield entry.path
            elif os.path.exists(entry.path):
                raise InputError(f"{entry.path} is no ordinary file. Remove it, or name the files.")
            else:
                raise InputError(f"{entry.path} is a link to nothing. Remove it, or fix it.")
