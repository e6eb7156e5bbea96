"""Open models by their paths, bytes or texts: formats that hbconv reads, and that run no code."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from hbconv.containers import Graph
from hbconv.errors import ConversionError
from hbconv.files import KNOWN, REFUSED, ModelFormat, find_format, format_of
from hbconv.parse.catboost.estimators import parse_catboost_json
from hbconv.parse.checks.damage import reading
from hbconv.parse.lightgbm.estimators import parse_lightgbm_text
from hbconv.parse.lightgbm.model_text import decode_text
from hbconv.parse.onnx.graph import open_onnx
from hbconv.parse.spark.boosters import is_native_model, native_part
from hbconv.parse.spark.saved_model import read_spark_model
from hbconv.parse.treelite.stored_model import read_checkpoint, read_treelite_json
from hbconv.parse.xgboost.estimators import parse_xgboost_bytes
from hbconv.parse.ydf.saved_model import is_ydf_folder, open_ydf
from hbconv.sources.catboost_files import open_cbm
from hbconv.sources.skops_files import load_skops

__all__ = ["find_kind", "open_model", "require_file"]


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

    def opened(self) -> BinaryIO:
        """Open the bytes from the first on."""
        return io.BytesIO(self.held) if self.path is None else self.path.open("rb")

    @property
    def data(self) -> bytes:
        """All bytes."""
        with self.opened() as file:
            return file.read()

    @property
    def format(self) -> ModelFormat | None:
        """What they hold."""
        with self.opened() as file:
            return find_format(file)


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
        First bytes tell what it is; ``hbconv.files`` has the table.
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
    if content.path is not None and content.path.is_dir():
        return _open_folder(content.path, content)
    found = content.format
    if found is None:
        raise _unknown(content)
    if found in REFUSED:
        raise ConversionError(f"{content.name} is {found.value}. {REFUSED[found]}")
    with reading(content.name, "Save the model anew."):
        return _READERS[found](content)


def require_file(path: Path) -> None:
    """Refuse a path that leads to no file and no folder.

    Raises
    ------
    ConversionError
    """
    try:
        found = path.exists()
    except OSError:  # no system takes a name so long
        found = False
    if not found:
        raise ConversionError(f"No file {str(path)[:200]}.")


def find_kind(path: Path) -> ModelFormat | None:
    """Tell what a file holds; None for folders and for what is no model.

    Raises
    ------
    ConversionError
        There is no such file.
    """
    require_file(path)
    return None if path.is_dir() else format_of(path)


def _content_of(source: str | bytes | bytearray | memoryview | os.PathLike[str]) -> _Content:
    if isinstance(source, bytes | bytearray | memoryview):
        return _Content("The model", held=bytes(source))
    if isinstance(source, str):
        content = _Content("The text", held=source.encode("utf-8", "surrogatepass"))
        if "\n" in source or (source[:1] in ("{", "[") and content.format):
            return content
    path = Path(source)
    require_file(path)
    return _Content(path.name, path)


def _unknown(content: _Content) -> ConversionError:
    with content.opened() as file:
        begin = file.read(24)
    said = f"it begins with {begin!r}" if begin else "it is empty"
    return ConversionError(f"{content.name}: unknown model format, {said}. Known: {KNOWN}.")


def _open_folder(path: Path, content: _Content) -> object:
    if is_ydf_folder(path):
        return open_ydf(path)
    if is_native_model(path):
        with reading(path.name, "Save it anew by saveNativeModel."):
            return _open_lightgbm(replace(content, path=native_part(path)))
    return read_spark_model(path)


def _open_lightgbm(content: _Content) -> Graph:
    return parse_lightgbm_text(decode_text(content.data), categories=content.categories)


def _open_cbm(content: _Content) -> object:
    """Open a binary model of CatBoost, which loads all that it needs from files alone."""
    if content.path is not None:
        return open_cbm(content.path)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.cbm")
        path.write_bytes(content.data)
        return open_cbm(path)


_READERS: Mapping[ModelFormat, Callable[[_Content], object]] = {
    ModelFormat.LIGHTGBM: _open_lightgbm,
    ModelFormat.XGBOOST: lambda content: parse_xgboost_bytes(content.data),
    ModelFormat.XGBOOST_OLD: lambda content: parse_xgboost_bytes(content.data),
    ModelFormat.CATBOOST: _open_cbm,
    ModelFormat.CATBOOST_JSON: lambda content: parse_catboost_json(content.data),
    ModelFormat.TREELITE: lambda content: read_checkpoint(content.data),
    ModelFormat.TREELITE_JSON: lambda content: read_treelite_json(content.data),
    ModelFormat.ONNX: lambda content: open_onnx(content.path or content.data, content.n_features),
    ModelFormat.SKOPS: lambda content: load_skops(content.data, content.name, content.categories),
}
