"""Read models that Spark ML saved, from their own files: no Spark and no Java.

A model is a folder: ``metadata`` holds its class and parameters as JSON, ``data`` what it learned
as parquet, and ``stages`` the folders of a pipeline's stages. A stage reads named columns of a
frame, and adds others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Labels, Node, Output
from hbconv.errors import ConversionError, MissingPackageError, UnsupportedError
from hbconv.parse.damage import reading
from hbconv.parse.step import Step
from hbconv.system.files import read_json

__all__ = [
    "STAGES",
    "SparkColumns",
    "SparkModel",
    "SparkStage",
    "class_output",
    "dense_vector",
    "read_spark_model",
    "reads_of",
    "stage",
]


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
        chosen = self.metadata.get("paramMap", {})
        return chosen.get(
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
    # Spark writes the metadata as a text file of one part.
    parts = sorted(path.glob("metadata/part-*"))
    if not parts:
        raise ConversionError(f"{path} is not a model that Spark ML saved: it has no metadata.")
    with reading(path.name, "Save the model again."):
        metadata = read_json(parts[0].read_bytes())
    if not isinstance(metadata, dict) or "class" not in metadata:
        raise ConversionError(f"{path.name} is damaged: its metadata name no class.")
    parameters = [metadata.get(name, {}) for name in ("paramMap", "defaultParamMap")]
    if not all(isinstance(mapping, dict) for mapping in parameters):
        raise ConversionError(f"{path.name} is damaged: its parameters are no mapping.")
    uids = parameters[0].get("stageUids", [])
    if not isinstance(uids, list) or not all(isinstance(uid, str) for uid in uids):
        raise ConversionError(f"{path.name} is damaged: its stages are no list of names.")
    stages = tuple(_stage(path, place, uid, len(uids)) for place, uid in enumerate(uids))
    return SparkModel(path, metadata, stages)


def _stage(path: Path, place: int, uid: str, n_stages: int) -> SparkModel:
    # Spark pads the number of a stage to the digits of their count.
    digits = len(str(n_stages))
    # Only the last part of the uid: a damaged one could lead out of the folder.
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
        with reading(f"{folder.parent.name}/{folder.name}", "Save the model again."):
            rows += parquet.read_table(file).to_pylist()
    return rows


def dense_vector(stored: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Return a stored vector, whose type is 0 where it is sparse and 1 where it is dense."""
    values = np.asarray(stored["values"], np.float64)
    if stored["type"] == 1:
        return values
    vector = np.zeros(stored["size"])
    vector[stored["indices"]] = values
    return vector


def _dense_matrix(stored: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Return a stored matrix; it lies by columns unless it is marked as transposed."""
    shape = (stored["numRows"], stored["numCols"])
    values = np.asarray(stored["values"], np.float64)
    by_rows = bool(stored["isTransposed"])
    if stored["type"] == 1:
        # Spark stores dense matrices by columns.
        return values.reshape(shape) if by_rows else values.reshape(shape[::-1]).T
    matrix = np.zeros(shape)
    # colPtrs are of rows where the matrix is transposed.
    lines = np.repeat(np.arange(len(stored["colPtrs"]) - 1), np.diff(stored["colPtrs"]))
    places = (lines, stored["rowIndices"]) if by_rows else (stored["rowIndices"], lines)
    matrix[places] = values
    return matrix


@dataclass
class SparkColumns:
    """Collect the columns that stages made so far, and the outputs of the last model.

    Parameters
    ----------
    columns : dict of Node
        Columns by name; a vector is a node of as many columns.
    labels : dict of tuple
        Texts that the numbers of a column stand for, in order.
    answers : dict of Output
        Methods of the last stage that is a model.
    last : str
        The column that the last stage made.
    """

    columns: dict[str, Node]
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    answers: dict[str, Output] = field(default_factory=dict)
    last: str = ""

    def add(self, name: str, node: Node) -> None:
        """Add the column that a stage makes."""
        self.columns[name] = node
        self.last = name


@dataclass(frozen=True)
class SparkStage:
    """One stage, where it stands, and the frame that it reads."""

    model: SparkModel
    step: Step
    frame: SparkColumns

    def get(self, parameter: str, default: Any = None) -> Any:
        """Return a parameter of the stage."""
        return self.model.get(parameter, default)

    def inputs(self) -> list[str]:
        """Return the names of the columns that it reads, one or several."""
        return reads_of(self.model)

    def outputs(self) -> list[str]:
        """Return the names of the columns that it makes, one or several."""
        several = self.get("outputCols")
        return list(several) if several else [self.get("outputCol")]

    def reading(self, name: str) -> Step:
        """Return the step with one column in place of all."""
        return replace(self.step, x=self.column(name))

    def column(self, name: str) -> Node:
        """Return a column by name."""
        if name not in self.frame.columns:
            hint = "A model makes this column; hbconv reads models that no stage reads from."
            raise self.refuse("inputCols", name, hint)
        return self.frame.columns[name]

    def refuse(self, parameter: str | None, value: object, hint: str) -> UnsupportedError:
        """Return the error that refuses a parameter; the caller raises it."""
        return UnsupportedError(self.model.kind, self.step.where, parameter, value, hint)

    def require(self, parameter: str, *allowed: object) -> Any:
        """Return a parameter if it is one of the allowed values, else refuse it."""
        value = self.get(parameter)
        if value not in allowed:
            raise self.refuse(parameter, value, f"hbconv handles {', '.join(map(repr, allowed))}.")
        return value


def reads_of(model: SparkModel) -> list[str]:
    """Return the names of the columns that a saved stage reads."""
    for parameter in ("inputCols", "inputCol", "featuresCol"):
        value = model.get(parameter)
        if value:
            return [value] if isinstance(value, str) else list(value)
    return []


STAGES: dict[str, Callable[[SparkStage], None]] = {}
"""What reads each class of stage, by its name in Spark."""


def stage(*names: str) -> Callable[[Callable[[SparkStage], None]], Callable[[SparkStage], None]]:
    """Register the decorated function as what reads the stages of these classes."""

    def register(function: Callable[[SparkStage], None]) -> Callable[[SparkStage], None]:
        STAGES.update(dict.fromkeys(names, function))
        return function

    return register


def class_output(codes: Node, n_classes: int) -> Output:
    """Return the numbers of classes as Spark has them, as floats."""
    return Output(codes, Labels(Array(np.arange(n_classes, dtype=np.float64))))
