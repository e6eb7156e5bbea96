"""The registry of model files: what each format is, how its first bytes tell it, and who reads it.

A format is told by its content and never by a suffix. Messages, the command line and the tables of
the docs (``docs/site/formats_table.py``) ask this registry. ``hbconv.sources.model_files`` has a
reader for each format that ``hbconv.convert`` reads.
"""

from __future__ import annotations

import importlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "KNOWN",
    "REFUSED",
    "FileFormat",
    "ModelFormat",
    "find_format",
    "format_of",
    "is_old_xgboost",
]

HEAD_BYTES = 4096
"""Bytes in which the first ones of a format are looked for."""


@dataclass(frozen=True)
class FileFormat:
    """A row of the registry.

    Parameters
    ----------
    name : str
        As messages and tables call it.
    library, kind : str
        Whose format it is, and which of its formats, for lists; empty for what is not read.
    content : str
        What tells it, in Markdown.
    suffixes : tuple of str
        Usual ends of the names of such files.
    reader : str
        Who reads the bytes, in Markdown; empty for what is not read.
    test : callable, optional
        Takes the content of a file, and tells whether it is of this format.
    test_folder : callable, optional
        Takes the path of a folder, and tells whether it is of this format.
    way_out : str
        What to do with a file that ``hbconv.convert`` does not read.
    """

    name: str
    library: str = ""
    kind: str = ""
    content: str = ""
    suffixes: tuple[str, ...] = ()
    reader: str = ""
    test: Callable[[_Content], bool] | None = None
    test_folder: Callable[[Path], bool] | None = None
    way_out: str = ""

    def __str__(self) -> str:
        return self.name


class _Content:
    """The content of a file, each part of which is read once, when a test asks for it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.head = file.read(HEAD_BYTES)

    @cached_property
    def members(self) -> list[str]:
        """Names in a zip archive."""
        if not self.head.startswith(b"PK\3\4"):
            return []
        try:
            with zipfile.ZipFile(self.file) as archive:
                return archive.namelist()
        except Exception:  # a damaged zip raises nearly anything
            self.file.seek(0)
            data = self.file.read()
            return [name for name in ("manifest.json", "schema.json") if name.encode() in data]

    @cached_property
    def json(self) -> bytes:
        """The whole text, where it begins as an object of JSON."""
        if not self.head.lstrip().startswith(b"{"):
            return b""
        self.file.seek(0)
        return self.file.read()

    @cached_property
    def unpressed(self) -> bytes:
        """The first byte of what a compressed file holds."""
        # Whatever a damaged stream raises, or a Python without the module.
        with suppress(Exception):
            if self.head.startswith(b"x"):
                return zlib.decompressobj().decompress(self.head, 1)
            for magic, module in _PRESSED.items():
                if self.head.startswith(magic):
                    self.file.seek(0)
                    first: bytes = importlib.import_module(module).open(self.file).read(1)
                    return first
        return b""


_PRESSED: Mapping[bytes, str] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ": "lzma",
    b"\x5d\0\0": "lzma",
}
"""Modules that open what joblib presses pickles by; a Python may lack one."""

Test = Callable[[_Content], bool]


def _begins(pattern: bytes) -> Test:
    return lambda content: re.match(pattern, content.head, re.DOTALL) is not None


def _has_keys(*keys: bytes) -> Test:
    """Look for keys anywhere in JSON, whose order is the writer's own."""
    return lambda content: bool(content.json) and all(b'"%s"' % key in content.json for key in keys)


def _has_member(name: str) -> Test:
    return lambda content: name in content.members


def _is_pickle(content: _Content) -> bool:
    return _begins(rb"\x80|ccopy_reg\n")(content) or content.unpressed == b"\x80"


_LEARNER_BYTES = 136
_OBJECTIVE = re.compile(rb"(?:reg|binary|multi|rank|count|survival):[a-z:]+\Z")


def is_old_xgboost(data: bytes) -> bool:
    """Tell XGBoost's old binary; the first versions wrote no ``binf`` before the parameters."""
    if data.startswith(b"binf"):
        return True
    # The parameters of the learner take 136 bytes; the length of the objective's name follows.
    size = int.from_bytes(data[_LEARNER_BYTES : _LEARNER_BYTES + 8], "little")
    begin = _LEARNER_BYTES + 8
    # A length of random bytes may be huge; no objective has a name of more than 64 letters.
    return _OBJECTIVE.match(data[begin : begin + min(size, 64)]) is not None


_ONNX_NUMBERS = (1, 5)
_ONNX_MESSAGES = (2, 3, 4, 6, 7, 8, 14, 20, 25, 26)
_ONNX_GRAPH = 7
"""Numbers of the fields of a ModelProto: its whole numbers, texts and messages, and its graph."""


def _is_onnx(content: _Content) -> bool:
    """Walk the fields of a ModelProto, a message of protobuf; one of them is its graph."""
    file = content.file
    file.seek(0, io.SEEK_END)
    end = file.tell()
    file.seek(0)
    seen = set()
    while file.tell() < end:
        # A key holds the number of its field above three bits of the wire type: 0 int, 2 bytes.
        number, wire = divmod(_varint(file), 8)
        if number not in {0: _ONNX_NUMBERS, 2: _ONNX_MESSAGES}.get(wire, ()):
            return False
        seen.add(number)
        size = _varint(file)
        file.seek(size if wire == 2 else 0, io.SEEK_CUR)
    return _ONNX_GRAPH in seen


def _varint(file: BinaryIO) -> int:
    """Read an int of protobuf: seven bits of each byte, the lowest first."""
    value = 0
    for shift in range(0, 63, 7):
        byte = int.from_bytes(file.read(1), "little")
        value |= (byte & 127) << shift
        if byte < 128:
            break
    return value


def _is_native_folder(folder: Path) -> bool:
    """Tell whether Spark wrote text here, as ``saveNativeModel`` does, and no stage."""
    return not (folder / "metadata").exists() and any(folder.glob("part-*.txt"))


_DUMP = "It is not the whole model. Save that: {}."


class ModelFormat(Enum):
    """What a file, a text or a folder holds; tests are made in this order."""

    # First: a base score may begin as any other format does.
    XGBOOST_OLD = FileFormat(
        "XGBoost's old binary (before 3.1)",
        "XGBoost",
        "old binary",
        "`binf`; older ones have an objective's name at byte 144",
        (".bin", ".model"),
        "hbconv",
        test=lambda content: is_old_xgboost(content.head),
    )
    XGBOOST = FileFormat(
        "XGBoost's UBJSON",
        "XGBoost",
        "UBJSON",
        "`{`, then the length of a key",
        (".ubj",),
        "hbconv",
        test=_begins(rb"\{[iUIlL#$]"),
    )
    XGBOOST_DUMP = FileFormat(
        "a dump of XGBoost (dump_model)",
        test=_begins(rb'(?:booster\[0\]:\s+|\[")?0:(?:\[|leaf=)|[\["\s]*\{(?:\s|\\n)*\\?"nodeid'),
        way_out=_DUMP.format("booster.save_model('model.ubj')"),
    )
    XGBOOST_CONFIG = FileFormat(
        "the configuration of an XGBoost model (save_config)",
        test=_begins(rb'\s*\{\s*"learner"\s*:\s*\{\s*"generic_param"'),
        way_out=_DUMP.format("booster.save_model('model.ubj')"),
    )
    XGBOOST_BASE64 = FileFormat(
        "an XGBoost model in base64",
        test=_begins(rb"bs64"),
        way_out="Load it with the XGBoost that wrote it (before 1.0), and save it by "
        "booster.save_model('model.bin').",
    )
    LIGHTGBM = FileFormat(
        "LightGBM's model text",
        "LightGBM",
        "text",
        "`tree`, alone in its line",
        (".txt",),
        "hbconv",
        test=_begins(rb"tree\r?\n"),
    )
    LIGHTGBM_DUMP = FileFormat(
        "a dump of LightGBM (dump_model)",
        test=_begins(rb'\s*\{\s*"name"\s*:\s*"tree"'),
        way_out=_DUMP.format("booster.save_model('model.txt')"),
    )
    CATBOOST = FileFormat(
        "CatBoost's binary",
        "CatBoost",
        "binary",
        "`CBM1`",
        (".cbm",),
        "catboost, first in another process",
        test=_begins(rb"CBM1"),
    )
    TREELITE = FileFormat(
        "a checkpoint of Treelite",
        "Treelite",
        "checkpoint",
        "a version as an int32: 4",
        (".tl",),
        "hbconv",
        # Version 3 is told too, so that its reader can refuse it with a way out.
        test=_begins(rb"[\3\4]\0\0\0"),
    )
    PMML = FileFormat(
        "PMML",
        test=_begins(rb"\s*<(?:.*<)?PMML"),
        way_out="PMML is not read. Convert the fitted model itself: pickle it, save it by skops, "
        "or use its library's own file, then call hbconv.convert where it was fitted.",
    )
    SAVED = FileFormat(
        "a saved model of hbconv",
        content="`PK`, with `manifest.json` in the archive",
        suffixes=(".hbc",),
        reader="`hbconv.load`",
        test=_has_member("manifest.json"),
        way_out="It is converted already. Call hbconv.load.",
    )
    SKOPS = FileFormat(
        "a model of skops",
        "skops",
        "",
        "`PK`, with `schema.json` in the archive",
        (".skops",),
        "skops and hbconv",
        test=_has_member("schema.json"),
    )
    # Last of JSON is XGBoost's, whose only key may be the name of a feature elsewhere.
    CATBOOST_JSON = FileFormat(
        "CatBoost's JSON",
        "CatBoost",
        "JSON",
        "`{`, with the keys `features_info` and `scale_and_bias`",
        (".json",),
        "hbconv",
        test=_has_keys(b"features_info", b"scale_and_bias"),
    )
    TREELITE_JSON = FileFormat(
        "Treelite's JSON",
        "Treelite",
        "JSON",
        "`{`, with the keys `threshold_type` and `leaf_output_type`",
        (".json",),
        "hbconv",
        test=_has_keys(b"threshold_type", b"leaf_output_type"),
    )
    XGBOOST_JSON = FileFormat(
        "XGBoost's JSON",
        "XGBoost",
        "JSON",
        "`{`, with the key `learner`",
        (".json",),
        "hbconv",
        test=_has_keys(b"learner"),
    )
    PICKLE = FileFormat(
        "a pickle",
        content="`0x80`, also behind gzip, zlib, bz2 or lzma",
        suffixes=(".pkl", ".joblib"),
        reader="the command, with `--allow-pickle`",
        test=_is_pickle,
        way_out="It can run any code when loaded. If you trust it, unpickle it and convert what it "
        "holds, or run: hbconv convert --allow-pickle.",
    )
    PRESSED = FileFormat(
        "a compressed file",
        test=lambda content: content.unpressed not in (b"", b"\x80"),
        way_out="Unpack it first.",
    )
    # Last of the files: its test reads from field to field to the end of the file.
    ONNX = FileFormat(
        "an ONNX model",
        "ONNX",
        "",
        "the fields of a ModelProto, a graph among them",
        (".onnx",),
        "onnx, then hbconv",
        test=_is_onnx,
    )
    YDF = FileFormat(
        "a folder of YDF",
        "YDF",
        "folder",
        "a folder with a file `data_spec.pb`, behind a prefix or not",
        reader="ydf",
        test_folder=lambda folder: any(folder.glob("*data_spec.pb")),
    )
    SYNAPSE = FileFormat(
        "a folder of SynapseML's saveNativeModel",
        "SynapseML",
        "folder",
        "a folder of `part-*.txt` without `metadata`",
        reader="hbconv",
        test_folder=_is_native_folder,
    )
    SPARK = FileFormat(
        "a folder of Spark ML",
        "Spark ML",
        "folder",
        "any other folder: it needs `metadata`",
        reader="hbconv and pyarrow",
        # Its reader says what a folder lacks that no test knows.
        test_folder=lambda _: True,
    )


REFUSED: Mapping[ModelFormat, str] = {f: f.value.way_out for f in ModelFormat if f.value.way_out}
"""Formats that ``hbconv.convert`` does not read, each with its way out."""


def _list_known() -> str:
    """List the libraries whose formats are read, with the kinds of each."""
    formats = sorted((f.value for f in ModelFormat if f.value.library), key=_library)
    groups = {library: [f.kind for f in group] for library, group in groupby(formats, _library)}
    files = [
        f"{library} ({', '.join(kinds)})" if any(kinds) else library
        for library, kinds in groups.items()
        if "folder" not in kinds
    ]
    *folders, last = (library for library, kinds in groups.items() if "folder" in kinds)
    return f"{', '.join(files)}, and folders of {', '.join(folders)} and {last}"


def _library(row: FileFormat) -> str:
    return row.library


KNOWN = _list_known()
"""What is read, whatever the name of the file."""


def format_of(path: Path) -> ModelFormat | None:
    """Tell what a file or a folder holds; None where it is no model that hbconv knows."""
    if path.is_dir():
        return next(f for f in ModelFormat if f.value.test_folder and f.value.test_folder(path))
    with path.open("rb") as file:
        return find_format(file)


def find_format(file: BinaryIO) -> ModelFormat | None:
    """Tell what a file or a buffer of bytes holds."""
    content = _Content(file)
    return next((f for f in ModelFormat if f.value.test and f.value.test(content)), None)
