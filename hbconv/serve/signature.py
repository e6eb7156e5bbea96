"""Signature of a model: the tensors that it takes and gives, as its metadata tells them.

Their datatypes are those of the Open Inference Protocol.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from hbconv.array import Array
from hbconv.containers import MatrixTuple, Output, Sparse
from hbconv.errors import InputError, shown
from hbconv.model import Model

__all__ = ["BYTES", "DTYPES", "Given", "ModelSignature", "Taken", "find_datatype", "find_dtype"]

BYTES = "BYTES"
DTYPES = {
    "BOOL": np.dtype("bool"),
    "UINT8": np.dtype("uint8"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("int8"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    BYTES: np.dtype(object),
}
"""Each datatype, as its values lie in a binary request; those of BYTES become text."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

MATRIX_INPUT = "X"
"""Name of the one input of a model whose columns have no names, as in exports."""
USUAL = ("predict", "predict_proba", "transform")
"""Methods that answer a request that names none; else the first one."""
ROWS = -1
"""Stands for the number of rows in a shape."""


def find_dtype(name: str, datatype: Any) -> np.dtype[Any]:
    """Return the dtype of a tensor's datatype.

    Raises
    ------
    InputError
        It is no datatype that the server reads.
    """
    found = DTYPES.get(datatype) if isinstance(datatype, str) else None
    if found is None:
        raise InputError(
            f"Input {shown(name)} has datatype {shown(datatype)}. Known: {', '.join(DTYPES)}."
        )
    return found


def find_datatype(dtype: np.dtype[Any]) -> str:
    """Return the datatype of a dtype; text and objects are BYTES.

    Examples
    --------
    >>> find_datatype(np.dtype("float64")), find_datatype(np.dtype("U3"))
    ('FP64', 'BYTES')
    """
    return _NAMES.get(dtype) or _NAMES.get(dtype.newbyteorder("<"), BYTES)


@dataclass(frozen=True)
class Taken:
    """A tensor that the model takes: a column, or all columns as a matrix.

    Parameters
    ----------
    name : str
    dtype : {"float32", "float64", "int64", "string"}
        The dtype that its values are computed in.
    width : int, optional
        Number of columns of a matrix; None for a column of shape (n_rows,).
    """

    name: str
    dtype: str
    width: int | None = None

    @cached_property
    def array_dtype(self) -> np.dtype[Any]:
        """The dtype of an array of its values."""
        return np.dtype(object if self.dtype == "string" else self.dtype)

    @property
    def datatype(self) -> str:
        """The datatype that is told; others are taken where they convert exactly."""
        return BYTES if self.dtype == "string" else find_datatype(np.dtype(self.dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that is told."""
        return (ROWS,) if self.width is None else (ROWS, self.width)


@dataclass(frozen=True)
class Given:
    """A tensor that the model gives.

    Parameters
    ----------
    name : str
        The method, with the number of the part where its answer has several.
    method : str
    part : int, optional
    datatype : str
    shape : tuple of int
        With -1 for the number of rows.
    labels : tuple, optional
        Labels of the columns, where each is of a class.
    on_demand : bool
        The method takes long: it is compiled where it is first asked for.
    """

    name: str
    method: str
    part: int | None
    datatype: str
    shape: tuple[int, ...]
    labels: tuple[Any, ...] | None = None
    on_demand: bool = False

    @cached_property
    def width(self) -> int:
        """Number of values of a row."""
        return math.prod(self.shape[1:])


@dataclass(frozen=True)
class ModelSignature:
    """What a model takes and gives.

    Parameters
    ----------
    taken : tuple of Taken
    given : tuple of Given
    feeds : {"matrix", "names", "positions", "values", "items"}
        How the model is given its rows: one array, columns by their names, columns in their
        order, the only column, or items of any kind.
    ignored : frozenset of str, optional
        Names of columns that the model was fitted on and does not read. None for all other names,
        which a source that finds its columns by their names ignores.
    """

    taken: tuple[Taken, ...]
    given: tuple[Given, ...]
    feeds: Literal["matrix", "names", "positions", "values", "items"]
    ignored: frozenset[str] | None = frozenset()

    @staticmethod
    def of(model: Model) -> ModelSignature:
        """Read the signature of a model, for rows as it was compiled for."""
        schema = model.schema.with_dtypes(_dtypes_taken(model))
        outputs = model.parsed.with_schema(schema).outputs
        columns = tuple(Taken(column.name, column.dtype) for column in schema.columns)
        given = tuple(
            one for name in _served(outputs) for one in _given(model, name, outputs[name])
        )
        if schema.conventions.items:
            return ModelSignature(columns, given, "items")
        if schema.conventions.sequence:
            return ModelSignature(columns, given, "values")
        if schema.named:
            read = tuple(columns[i] for i in model.reads.asked)
            others = {column.name for column in columns} - {column.name for column in read}
            ignored = None if schema.finds == "names" else frozenset(others)
            return ModelSignature(read, given, "names", ignored)
        if len(set(schema.dtypes)) == 1 and "string" not in schema.dtypes:
            matrix = Taken(MATRIX_INPUT, schema.dtypes[0], len(columns))
            return ModelSignature((matrix,), given, "matrix")
        return ModelSignature(columns, given, "positions")

    @property
    def tensors(self) -> int:
        """Number of tensors that it takes and gives, ignored columns among them."""
        return len(self.taken) + len(self.given) + len(self.ignored or ())

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the tensors that it takes."""
        return frozenset(taken.name for taken in self.taken)

    def refused(self, names: AbstractSet[str]) -> list[str]:
        """Return the names that the model refuses, sorted."""
        return [] if self.ignored is None else sorted(names - self.names - self.ignored)

    @cached_property
    def outputs(self) -> Mapping[str, Given]:
        """The tensors that it gives, by their names."""
        return {given.name: given for given in self.given}

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that are served."""
        return tuple(dict.fromkeys(one.method for one in self.given))

    @cached_property
    def usual(self) -> tuple[Given, ...]:
        """The tensors that answer a request that names none."""
        chosen = [method for method in USUAL if method in self.methods] or self.methods[:1]
        return tuple(one for one in self.given if one.method in chosen)

    @property
    def ready(self) -> tuple[Given, ...]:
        """The tensors of methods that are compiled before the first request."""
        return tuple(one for one in self.given if not one.on_demand)


def _dtypes_taken(model: Model) -> list[str]:
    """Return the dtype of each column: float32 if the model was compiled for a sample of it.

    Ints of a sample are no reason to refuse fractions where the source was fitted on floats.
    """
    pairs = zip(model.dtypes, model.schema.dtypes, strict=True)
    return [
        sample if sample.startswith("float") and fitted != "string" else fitted
        for sample, fitted in pairs
    ]


def _served(outputs: Mapping[str, Output]) -> list[str]:
    """Methods whose answers have a row for each row of the input.

    A graph of neighbours is not served: written out, it has a column for each fitted row.
    """
    return [
        name
        for name, output in outputs.items()
        if (output.is_tensor or isinstance(output.form, MatrixTuple))
        and not (output.on_demand and isinstance(output.form, Sparse))
    ]


def _given(model: Model, method: str, output: Output) -> list[Given]:
    tensors = _tensors(model, method, output.for_rows(sparse=False))
    return [replace(one, on_demand=output.on_demand) for one in tensors]


def _tensors(model: Model, method: str, output: Output) -> list[Given]:
    dtypes = _dtypes(output)
    if output.is_vector:
        return [Given(method, method, None, find_datatype(dtypes[0]), (ROWS,))]
    shape = getattr(output.form, "shape", None)
    if shape is not None:
        return [Given(method, method, None, find_datatype(dtypes[0]), (ROWS, *shape))]
    widths = output.widths
    if not widths:
        labels = _labels(model, method, output.node.type.width)
        shape = (ROWS, output.node.type.width)
        return [Given(method, method, None, find_datatype(dtypes[0]), shape, labels)]
    return [
        Given(f"{method}_{i}", method, i, find_datatype(dtype), (ROWS, width))
        for i, (width, dtype) in enumerate(zip(widths, dtypes, strict=True))
    ]


def _dtypes(output: Output) -> list[np.dtype[Any]]:
    """Return the dtype of each part of an answer."""
    count = max(len(output.widths), 1)
    if output.dtype is not None:
        own = np.dtype(output.dtype)
    elif isinstance(output.classes, Array):
        own = output.classes.data.dtype
    elif output.classes is not None:
        own = np.result_type(*(table.data.dtype for table in output.classes))
    else:
        own = np.dtype(output.node.type.dtype)
    if isinstance(output.form, MatrixTuple):
        return [np.dtype(dtype) if dtype else own for _, dtype in output.form.parts]
    return [own] * count


def _labels(model: Model, method: str, width: int) -> tuple[Any, ...] | None:
    """Return the class of each column, where the columns of an answer are classes."""
    classes = getattr(model, "classes_", None)
    if not method.startswith(("predict_", "decision_")) or not isinstance(classes, np.ndarray):
        return None
    return tuple(classes.tolist()) if len(classes) == width else None
