"""Open models by their paths, bytes or texts: formats that hbconv reads, and that run no code."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from hbconv.containers import Graph
from hbconv.errors import ConversionError
from hbconv.model_formats import KNOWN, REFUSED, ModelFormat, find_format, format_of
from hbconv.parse.catboost.estimators import parse_catboost_json
from hbconv.parse.damage import reading
from hbconv.parse.lightgbm.estimators import parse_lightgbm_text
from hbconv.parse.lightgbm.model_text import decode_text
from hbconv.parse.onnx.graph import open_onnx
from hbconv.parse.spark.boosters import native_part
from hbconv.parse.spark.saved_model import read_spark_model
from hbconv.parse.treelite import read_checkpoint, read_treelite_json
from hbconv.parse.xgboost.estimators import parse_xgboost_bytes
from hbconv.parse.ydf.models import open_ydf
from hbconv.sources.library_files import load_skops, open_cbm
from hbconv.system.temporary import temporary_folder

__all__ = ["open_model"]


@dataclass(frozen=True)
class _Content:
    """A model as a file or as the bytes of one, and what is known of its columns.

    Parameters
    ----------
    name : str
        What messages call it.
    path : Path, optional
        Of the file; None where the bytes are held.
    held : bytes
    n_features : int, optional
        Number of its columns.
    categories : tuple of int
        Positions of the columns of categories.
    """

    name: str
    path: Path | None = None
    held: bytes = b""
    n_features: int | None = None
    categories: tuple[int, ...] = ()

    def open(self) -> BinaryIO:
        """Open the bytes from the first on."""
        return io.BytesIO(self.held) if self.path is None else self.path.open("rb")

    @property
    def data(self) -> bytes:
        """All bytes."""
        with self.open() as file:
            return file.read()

    @property
    def format(self) -> ModelFormat | None:
        """What the file, the folder or the bytes hold."""
        return find_format(io.BytesIO(self.held)) if self.path is None else format_of(self.path)


def open_model(
    source: str | bytes | bytearray | memoryview | os.PathLike[str],
    n_features: int | None = None,
    categories: Collection[int] = (),
) -> object:
    """Return the fitted model of a file, its Graph, or the model of a folder of Spark ML or YDF.

    Parameters
    ----------
    source : path, bytes or str
        Path of a file or folder, the bytes of a file, or the text of one.
        First bytes tell what it is; ``hbconv.system.files`` has the table.
    n_features : int, optional
        Columns of the input, where an ONNX model leaves their number open.
    categories : collection of int
        Positions of the columns of dtype category, which LightGBM's text does not always tell.

    Raises
    ------
    ConversionError
        There is no such file, its format is not read here, or it is damaged.
    MissingPackageError
        A package that reads the format is not installed.
    """
    content = replace(_content_of(source), n_features=n_features, categories=tuple(categories))
    kind = content.format
    if kind is None:
        raise _unknown(content)
    if kind in REFUSED:
        raise ConversionError(f"{content.name} is {kind.value}. {REFUSED[kind]}")
    if content.path is not None and content.path.is_dir():
        return FOLDER_READERS[kind](content.path, content)
    with reading(content.name, "Save the model again."):
        return READERS[kind](content)


def _require_file(path: Path) -> None:
    """Refuse a path that leads to no file and no folder.

    Raises
    ------
    ConversionError
    """
    # Path.exists raises for a name that no system takes.
    if not os.path.exists(path):
        raise ConversionError(f"No file {str(path)[:200]}.")


def _content_of(source: str | bytes | bytearray | memoryview | os.PathLike[str]) -> _Content:
    if isinstance(source, bytes | bytearray | memoryview):
        return _Content("The model", held=bytes(source))
    if isinstance(source, str):
        # A lone surrogate is refused by the reader, by name, not by the codec here.
        content = _Content("The text", held=source.encode("utf-8", "surrogatepass"))
        # A text has several lines, or it is JSON of a known format; all else is a path.
        if "\n" in source or (source[:1] in ("{", "[") and content.format):
            return content
    path = Path(source)
    _require_file(path)
    return _Content(path.name, path)


def _unknown(content: _Content) -> ConversionError:
    with content.open() as file:
        begin = file.read(24)
    content_is = f"it begins with {begin!r}" if begin else "it is empty"
    return ConversionError(
        f"{content.name}: unknown model format, {content_is}. hbconv reads: {KNOWN}."
    )


def _open_lightgbm(content: _Content) -> Graph:
    return parse_lightgbm_text(decode_text(content.data), categories=content.categories)


def _open_native_folder(path: Path, content: _Content) -> Graph:
    with reading(path.name, "Save it again by saveNativeModel."):
        return _open_lightgbm(replace(content, path=native_part(path)))


def _open_cbm(content: _Content) -> object:
    """Open a binary model of CatBoost, which loads all that it needs from files alone."""
    if content.path is not None:
        return open_cbm(content.path)
    with temporary_folder() as folder:
        path = folder / "model.cbm"
        path.write_bytes(content.data)
        return open_cbm(path)


READERS: Mapping[ModelFormat, Callable[[_Content], object]] = {
    ModelFormat.LIGHTGBM: _open_lightgbm,
    ModelFormat.XGBOOST: lambda content: parse_xgboost_bytes(content.data),
    ModelFormat.XGBOOST_JSON: lambda content: parse_xgboost_bytes(content.data),
    ModelFormat.XGBOOST_OLD: lambda content: parse_xgboost_bytes(content.data),
    ModelFormat.CATBOOST: _open_cbm,
    ModelFormat.CATBOOST_JSON: lambda content: parse_catboost_json(content.data),
    ModelFormat.TREELITE: lambda content: read_checkpoint(content.data),
    ModelFormat.TREELITE_JSON: lambda content: read_treelite_json(content.data),
    ModelFormat.ONNX: lambda content: open_onnx(content.path or content.data, content.n_features),
    ModelFormat.SKOPS: lambda content: load_skops(content.data, content.name, content.categories),
}
"""What opens each format of files that ``hbconv.convert`` reads."""

FOLDER_READERS: Mapping[ModelFormat, Callable[[Path, _Content], object]] = {
    ModelFormat.SPARK: lambda path, _: read_spark_model(path),
    ModelFormat.SYNAPSE: _open_native_folder,
    ModelFormat.YDF: lambda path, _: open_ydf(path),
}
"""What opens each format of folders."""
