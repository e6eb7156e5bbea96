"""Files that appear under their name complete and on the disk, or not at all.

What is written has a name of its own until then, and is locked. A process that is killed
loses its locks, so `sweep` can tell what it left from what others are writing.

JSON of files: its texts hold whole characters, so that they can be printed and written.

The formats of model files, told by their first bytes and never by a suffix.

================================================  ==========================================
format                                            first bytes
================================================  ==========================================
LightGBM's model text                             ``tree``, alone in its line
XGBoost's JSON                                    ``{``, with the key ``learner``
XGBoost's UBJSON                                  ``{``, then the length of a key
XGBoost's old binary (before 3.1)                 ``binf``; or 136 bytes, then an objective
CatBoost's binary (``.cbm``)                      ``CBM1``
CatBoost's JSON                                   ``{``, with ``features_info``
a checkpoint of Treelite                          a version: 4 as an int32
Treelite's JSON                                   ``{``, with ``leaf_output_type``
ONNX                                              the fields of a ModelProto, a graph among them
skops                                             ``PK``, with ``schema.json`` in the archive
a saved model of hbconv (``.hbc``)                ``PK``, with ``manifest.json`` in the archive
a pickle, of joblib too                           ``0x80``, also behind gzip, zlib, bz2 or lzma
================================================  ==========================================

Others are known to be refused by name: dumps of XGBoost and LightGBM, and PMML.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import secrets
import string
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

__all__ = [
    "KNOWN",
    "LEFTOVER",
    "REFUSED",
    "ModelFormat",
    "appearing",
    "appearing_new",
    "find_format",
    "format_of",
    "is_old_xgboost",
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

    The temporary is in the same folder under a random name. An error, an interruption or a
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
        Something has the path when the block ends: a file, or a link to nothing.
    """
    with _appearing(Path(path), _take) as temporary:
        yield temporary


@contextmanager
def _appearing(target: Path, take: Callable[[Path, Path], None]) -> Iterator[Path]:
    with scratch(target.parent) as temporary:
        yield temporary
        _sync(temporary)
        # The permissions that a plain ``open`` would give; the temporary had the owner's alone.
        temporary.chmod(0o666 & ~_umask())
        take(temporary, target)
    _sync_folder(target.parent)


@contextmanager
def scratch(folder: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Give an empty file in a folder, or in that of temporary files, until the block ends."""
    with ExitStack() as undo:
        yield _temporary(folder or tempfile.gettempdir(), undo)


def _temporary(folder: str | os.PathLike[str], undo: ExitStack) -> Path:
    """Make a file and lock it. One that was swept before it was locked is made again.

    What removes it is set up first: a signal may end the process right after the file is made.
    """
    while True:
        # Random, so that nobody can lay a link under the name beforehand.
        name = PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(8))
        temporary = Path(folder, name).absolute()
        undo.callback(temporary.unlink, missing_ok=True)
        descriptor = os.open(temporary, _OWN, 0o600)
        if os.name != "posix":  # others replace no file that is open
            os.close(descriptor)
            return temporary
        undo.callback(os.close, descriptor)
        # A sweep between opening and locking may have removed it.
        if _lock(descriptor) is not False and temporary.exists():
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
        # ``O_EXCL`` lets one of several processes make the file.
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
        paths = [entry.path for entry in entries if LEFTOVER.fullmatch(entry.name)]
        for path in paths:
            with suppress(OSError):
                _sweep(path)


def _sweep(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        if _lock(descriptor):
            os.unlink(path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Lock an open file for as long as its process lives; None where files cannot be locked."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _umask() -> int:
    # Python can only read the mask by setting it.
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
    value = json.loads(text, **how)
    # A whole character may be written as two halves, so only what was read tells.
    if _HALF.search(text):
        require_whole(json.dumps(value, ensure_ascii=False, default=str))
    return value


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


KNOWN = (
    "LightGBM (text), XGBoost (JSON, UBJSON, old binary), CatBoost (binary, JSON), Treelite "
    "(checkpoint, JSON), ONNX, skops, and folders of Spark ML and YDF"
)
"""What is read, whatever the name of the file."""

HEAD_BYTES = 4096


class ModelFormat(Enum):
    """What a file or text holds, as messages name it."""

    LIGHTGBM = "LightGBM's model text"
    XGBOOST = "an XGBoost model"
    XGBOOST_OLD = "an XGBoost model in the old binary format"
    CATBOOST = "a CatBoost model"
    CATBOOST_JSON = "a CatBoost model in JSON"
    TREELITE = "a checkpoint of Treelite"
    TREELITE_JSON = "a Treelite model in JSON"
    ONNX = "an ONNX model"
    SKOPS = "a model of skops"
    SAVED = "a saved model of hbconv"
    PICKLE = "a pickle"
    PMML = "PMML"
    LIGHTGBM_DUMP = "a dump of LightGBM (dump_model)"
    XGBOOST_DUMP = "a dump of XGBoost (dump_model)"
    XGBOOST_CONFIG = "the configuration of an XGBoost model (save_config)"
    XGBOOST_BASE64 = "an XGBoost model in base64"
    PRESSED = "a compressed file"


_DUMP = "It is not the whole model. Save that: {}."
REFUSED: Mapping[ModelFormat, str] = {
    ModelFormat.SAVED: "It is converted already. Call hbconv.load.",
    ModelFormat.PICKLE: "It can run any code when loaded. If you trust it, unpickle it and convert "
    "what it holds, or run: hbconv convert --allow-pickle.",
    ModelFormat.PMML: "PMML is not read. Convert the fitted model itself: pickle it, save it by "
    "skops, or use its library's own file, then call hbconv.convert where it was fitted.",
    ModelFormat.LIGHTGBM_DUMP: _DUMP.format("booster.save_model('model.txt')"),
    ModelFormat.XGBOOST_DUMP: _DUMP.format("booster.save_model('model.ubj')"),
    ModelFormat.XGBOOST_CONFIG: _DUMP.format("booster.save_model('model.ubj')"),
    ModelFormat.XGBOOST_BASE64: "Load it with the XGBoost that wrote it (before 1.0), and save it "
    "by booster.save_model('model.bin').",
    ModelFormat.PRESSED: "Unpack it first.",
}
"""Formats that are not read, each with its way out."""

_FIRST_BYTES: Mapping[ModelFormat, bytes] = {
    ModelFormat.LIGHTGBM: rb"tree\r?\n",
    ModelFormat.CATBOOST: rb"CBM1",
    ModelFormat.XGBOOST_BASE64: rb"bs64",
    ModelFormat.TREELITE: rb"[\3\4]\0\0\0",
    ModelFormat.PICKLE: rb"\x80|ccopy_reg\n",
    ModelFormat.XGBOOST: rb"\{[iUIlL#$]",
    ModelFormat.XGBOOST_DUMP: rb'(?:booster\[0\]:\s+|\[")?0:(?:\[|leaf=)'
    rb'|[\["\s]*\{(?:\s|\\n)*\\?"nodeid',
    ModelFormat.XGBOOST_CONFIG: rb'\s*\{\s*"learner"\s*:\s*\{\s*"generic_param"',
    ModelFormat.LIGHTGBM_DUMP: rb'\s*\{\s*"name"\s*:\s*"tree"',
    ModelFormat.PMML: rb"\s*<(?:.*<)?PMML",
}
_JSON_KEYS: Mapping[ModelFormat, tuple[bytes, ...]] = {
    ModelFormat.CATBOOST_JSON: (b'"features_info"', b'"scale_and_bias"'),
    ModelFormat.TREELITE_JSON: (b'"threshold_type"', b'"leaf_output_type"'),
    ModelFormat.XGBOOST: (b'"learner"',),
}
"""Keys that stand anywhere in JSON, whose order is the writer's own."""

_PRESSED: Mapping[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ": "lzma",
    b"\x5d\0\0": "lzma",
}
"""Modules that open what joblib presses pickles by; a Python may lack one."""

_LEARNER_BYTES = 136
_OBJECTIVE = re.compile(rb"(?:reg|binary|multi|rank|count|survival):[a-z:]+\Z")
_ONNX_NUMBERS = (1, 5)
_ONNX_MESSAGES = (2, 3, 4, 6, 7, 8, 14, 20, 25, 26)
_ONNX_GRAPH = 7


def format_of(path: Path) -> ModelFormat | None:
    """Tell what a file holds; None where it is no model that hbconv knows."""
    with path.open("rb") as file:
        return find_format(file)


def find_format(file: BinaryIO) -> ModelFormat | None:
    """Tell what a file or a buffer of bytes holds."""
    head = file.read(HEAD_BYTES)
    if is_old_xgboost(head):
        return ModelFormat.XGBOOST_OLD
    for kind, first in _FIRST_BYTES.items():
        if re.match(first, head, re.DOTALL):
            return kind
    if head.startswith(b"PK\3\4"):
        return _in_archive(file)
    if head.lstrip().startswith(b"{"):
        return _in_json(file)
    if (begin := _unpressed(head, file)) is not None:
        return ModelFormat.PICKLE if begin == b"\x80" else ModelFormat.PRESSED
    return ModelFormat.ONNX if _is_onnx(file) else None


def is_old_xgboost(data: bytes) -> bool:
    """Tell XGBoost's old binary; the first versions wrote no ``binf`` before the parameters."""
    if data.startswith(b"binf"):
        return True
    size = int.from_bytes(data[_LEARNER_BYTES : _LEARNER_BYTES + 8], "little")
    begin = _LEARNER_BYTES + 8
    return _OBJECTIVE.match(data[begin : begin + min(size, 64)]) is not None


def _in_archive(file: BinaryIO) -> ModelFormat | None:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except Exception:  # a damaged zip raises nearly anything
        file.seek(0)
        data = file.read()
        names = [name for name in ("manifest.json", "schema.json") if name.encode() in data]
    if "manifest.json" in names:
        return ModelFormat.SAVED
    return ModelFormat.SKOPS if "schema.json" in names else None


def _in_json(file: BinaryIO) -> ModelFormat | None:
    file.seek(0)
    data = file.read()
    return next(
        (kind for kind, keys in _JSON_KEYS.items() if all(key in data for key in keys)), None
    )


def _unpressed(head: bytes, file: BinaryIO) -> bytes | None:
    """Return the first byte of what a compressed file holds; None where it is none."""
    with suppress(Exception):  # whatever a damaged stream raises, or a Python without the module
        if head.startswith(b"x"):
            # One byte is enough, however much the stream would unpack to.
            return zlib.decompressobj().decompress(head, 1) or None
        for magic, module in _PRESSED.items():
            if head.startswith(magic):
                file.seek(0)
                first: bytes = importlib.import_module(module).open(file).read(1)
                return first or None
    return None


def _is_onnx(file: BinaryIO) -> bool:
    """Walk the fields of a ModelProto, a message of protobuf; one of them is its graph."""
    file.seek(0, io.SEEK_END)
    end = file.tell()
    file.seek(0)
    seen = set()
    while file.tell() < end:
        number, wire = divmod(_varint(file), 8)
        if number not in {0: _ONNX_NUMBERS, 2: _ONNX_MESSAGES}.get(wire, ()):
            return False
        seen.add(number)
        size = _varint(file)
        file.seek(size if wire == 2 else 0, io.SEEK_CUR)
    return _ONNX_GRAPH in seen


def _varint(file: BinaryIO) -> int:
    value = 0
    for shift in range(0, 63, 7):
        byte = int.from_bytes(file.read(1), "little")
        value |= (byte & 127) << shift
        if byte < 128:
            break
    return value
