"""Open models by their paths: formats that hbconv reads itself, and that run no code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from hbconv.containers import Graph
from hbconv.errors import ConversionError
from hbconv.parse.catboost.estimators import parse_catboost_json
from hbconv.parse.checks.damage import reading
from hbconv.parse.lightgbm.estimators import parse_lightgbm_text
from hbconv.parse.onnx.graph import open_onnx
from hbconv.parse.spark.boosters import is_native_model, native_part
from hbconv.parse.spark.saved_model import read_spark_model
from hbconv.parse.treelite.stored_model import (
    StoredModel,
    is_treelite_json,
    read_checkpoint,
    read_treelite_json,
)
from hbconv.parse.xgboost.estimators import parse_xgboost_bytes
from hbconv.parse.ydf.saved_model import is_ydf_folder, open_ydf
from hbconv.skops_files import load_skops

__all__ = ["SAFE_SUFFIXES", "is_catboost_json", "open_model", "refuse_pmml"]

_PMML = (
    "PMML is not read. Convert the fitted model itself: pickle it, save it by skops, or use its "
    "library's own file, then call hbconv.convert where it was fitted."
)


def open_model(path: Path, n_features: int | None = None) -> object:
    """Return the fitted model of a file, its Graph, or the model of a folder of Spark ML or YDF.

    Parameters
    ----------
    path : Path
        The suffix of a file tells what it is.
    n_features : int, optional
        Columns of the input, where an .onnx file leaves their number open.

    Raises
    ------
    ConversionError
        There is no such file, its format is not read here, or it is damaged.
    MissingPackageError
        A package that reads the format is not installed.
    """
    if path.is_dir():
        return _open_folder(path)
    refuse_pmml(path)
    if path.suffix not in _READERS:
        raise ConversionError(
            f"hbconv.convert reads {', '.join(SAFE_SUFFIXES)} files, and this is {path.name}. Load "
            "it with its library, or use the command: hbconv convert."
        )
    if not path.is_file():
        raise ConversionError(f"No file {path}.")
    reader = _READERS[path.suffix]
    if path.suffix == ".onnx":
        reader = partial(open_onnx, n_features=n_features)
    with reading(path.name, "Save the model anew."):
        return reader(path)


def _open_folder(path: Path) -> object:
    if is_ydf_folder(path):
        return open_ydf(path)
    if is_native_model(path):
        with reading(path.name, "Save it anew by saveNativeModel."):
            return _open_text(native_part(path))
    return read_spark_model(path)


def refuse_pmml(path: Path) -> None:
    """Refuse a file of PMML, by its suffix or its root element.

    Raises
    ------
    ConversionError
    """
    if path.suffix == ".pmml" or (path.suffix in ("", ".xml") and _is_pmml(path)):
        raise ConversionError(f"{path.name}: {_PMML}")


def is_catboost_json(data: bytes) -> bool:
    """Tell CatBoost's JSON from XGBoost's."""
    return b'"features_info"' in data and b'"scale_and_bias"' in data


def _is_pmml(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b"<PMML" in file.read(4096)


def _open_text(path: Path) -> Graph:
    return parse_lightgbm_text(path.read_text(encoding="utf-8"))


def _open_json(path: Path) -> Graph | StoredModel:
    data = path.read_bytes()
    if is_catboost_json(data):
        return parse_catboost_json(data)
    if is_treelite_json(data):
        return read_treelite_json(data)
    return parse_xgboost_bytes(data)


def _open_checkpoint(path: Path) -> StoredModel:
    return read_checkpoint(path.read_bytes())


_READERS: Mapping[str, Callable[[Path], object]] = {
    ".txt": _open_text,
    ".json": _open_json,
    ".ubj": _open_json,
    ".onnx": open_onnx,
    ".skops": load_skops,
    ".tl": _open_checkpoint,
    ".bin": _open_checkpoint,
}

SAFE_SUFFIXES = tuple(_READERS)
"""Suffixes of the files that ``open_model`` reads."""
