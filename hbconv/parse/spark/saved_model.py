"""Read models that Spark ML saved, from their own files: no Spark and no Java.

A model is a folder: ``metadata`` holds its class and parameters as JSON, ``data`` what it learned
as parquet, and ``stages`` the folders of a pipeline's stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import ConversionError, MissingPackageError
from hbconv.files import read_json
from hbconv.parse.damage import reading

__all__ = ["SparkModel", "dense_vector", "read_spark_model"]


@dataclass(frozen=True, eq=False)
class SparkModel:
    """One saved stage, or a pipeline of them.

    Parameters
    ----------
    folder : Path
    metadata : mapping
        What Spark wrote of it: its class, its parameters, and their defaults.
    stages : tuple of SparkModel
        Of a pipeline, in order.
    """

    folder: Path
    metadata: Mapping[str, Any]
    stages: tuple[SparkModel, ...] = ()

    @property
    def kind(self) -> str:
        """Name of its class, such as ``"StringIndexerModel"``."""
        return str(self.metadata["class"]).rpartition(".")[2]

    def get(self, parameter: str, default: Any = None) -> Any:
        """Return a parameter, or its default in Spark."""
        given = self.metadata.get("paramMap", {})
        return given.get(
            parameter, self.metadata.get("defaultParamMap", {}).get(parameter, default)
        )

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What it learned, as rows of its parquet files in the order of their names."""
        return _read_rows(self.folder / "data")

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of another table beside what it learned."""
        return _read_rows(self.folder / name)

    @property
    def learned(self) -> dict[str, Any]:
        """The one row of what it learned."""
        if len(self.rows) != 1:
            raise ConversionError(f"{self.folder.name} is damaged: {len(self.rows)} rows of data.")
        return self.rows[0]

    def vector(self, name: str) -> npt.NDArray[np.float64]:
        """Return a vector that it learned, dense."""
        return dense_vector(self.learned[name])

    def matrix(self, name: str) -> npt.NDArray[np.float64]:
        """Return a matrix that it learned, dense."""
        return _dense_matrix(self.learned[name])


def read_spark_model(path: Path) -> SparkModel:
    """Read a saved model, and the stages of a pipeline.

    Raises
    ------
    ConversionError
        The folder is not one that Spark ML saved, or a part is missing.
    """
    parts = sorted(path.glob("metadata/part-*"))
    if not parts:
        raise ConversionError(f"{path} is not a model that Spark ML saved: it has no metadata.")
    with reading(path.name, "Save the model anew."):
        metadata = read_json(parts[0].read_bytes())
    if not isinstance(metadata, dict) or "class" not in metadata:
        raise ConversionError(f"{path.name} is damaged: its metadata name no class.")
    parameters = [metadata.get(name, {}) for name in ("paramMap", "defaultParamMap")]
    if not all(isinstance(given, dict) for given in parameters):
        raise ConversionError(f"{path.name} is damaged: its parameters are no mapping.")
    uids = parameters[0].get("stageUids", [])
    if not isinstance(uids, list) or not all(isinstance(uid, str) for uid in uids):
        raise ConversionError(f"{path.name} is damaged: its stages are no list of names.")
    stages = tuple(_stage(path, place, uid, len(uids)) for place, uid in enumerate(uids))
    return SparkModel(path, metadata, stages)


def _stage(path: Path, place: int, uid: str, n_stages: int) -> SparkModel:
    digits = len(str(n_stages))
    return read_spark_model(path / "stages" / f"{place:0{digits}}_{Path(uid).name}")


def _read_rows(folder: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingPackageError(
            "Reading models of Spark needs pyarrow. Install with: pip install pyarrow"
        ) from error
    rows: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.parquet")):
        with reading(f"{folder.parent.name}/{folder.name}", "Save the model anew."):
            rows += parquet.read_table(file).to_pylist()
    return rows


def dense_vector(stored: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Return a stored vector, whose type is 0 where it is sparse and 1 where it is dense."""
    values = np.asarray(stored["values"], np.float64)
    if stored["type"] == 1:
        return values
    made = np.zeros(stored["size"])
    made[stored["indices"]] = values
    return made


def _dense_matrix(stored: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Return a stored matrix; it lies by columns unless it is marked as transposed."""
    shape = (stored["numRows"], stored["numCols"])
    values = np.asarray(stored["values"], np.float64)
    by_rows = bool(stored["isTransposed"])
    if stored["type"] == 1:
        return values.reshape(shape) if by_rows else values.reshape(shape[::-1]).T
    made = np.zeros(shape)
    lines = np.repeat(np.arange(len(stored["colPtrs"]) - 1), np.diff(stored["colPtrs"]))
    places = (lines, stored["rowIndices"]) if by_rows else (stored["rowIndices"], lines)
    made[places] = values
    return made
