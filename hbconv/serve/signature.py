"""Signature of a model: the tensors that it takes and returns, as its metadata reports them.

Their datatypes are those of the Open Inference Protocol.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from hbconv.array import Array
from hbconv.containers import MatrixTuple, Output, Sparse
from hbconv.errors import InputError, OptionError, shown
from hbconv.model import Model
from hbconv.names import EXPLANATIONS
from hbconv.runtime.outputs.names import name_axes

__all__ = [
    "BYTES",
    "DTYPES",
    "InputTensor",
    "ModelSignature",
    "OutputTensor",
    "find_datatype",
    "find_dtype",
]

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
"""Each datatype, as its values are in a binary request; those of BYTES become text."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

MATRIX_INPUT = "X"
"""Name of the one input of a model whose columns have no names, as in exports."""
USUAL = ("predict", "predict_proba", "transform")
"""Methods that are called for a request that names none; else the first one."""
ROWS = -1
"""Stands for the number of rows in a shape."""


def find_dtype(name: str, datatype: Any) -> np.dtype[Any]:
    """Return the dtype of a tensor's datatype.

    Raises
    ------
    InputError
        It is no datatype that the server reads.
    """
    dtype = DTYPES.get(datatype) if isinstance(datatype, str) else None
    if dtype is None:
        raise InputError(
            f"Input {shown(name)} has datatype {shown(datatype)}. Known: {', '.join(DTYPES)}."
        )
    return dtype


def find_datatype(dtype: np.dtype[Any]) -> str:
    """Return the datatype of a dtype; text and objects are BYTES.

    Examples
    --------
    >>> find_datatype(np.dtype("float64")), find_datatype(np.dtype("U3"))
    ('FP64', 'BYTES')
    """
    # The other byte order is looked up second: numpy takes time to make a dtype.
    return _NAMES.get(dtype) or _NAMES.get(dtype.newbyteorder("<"), BYTES)


@dataclass(frozen=True)
class InputTensor:
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

    def __str__(self) -> str:
        return f"Column {shown(self.name)}" if self.width is None else "A record"

    def element(self, position: int) -> str:
        """Return what messages call a value of records, which count as rows of Python do."""
        if self.width is None:
            return f"Record {position}: column {shown(self.name)}"
        return f"Record {position // self.width}: value {position % self.width}"

    @cached_property
    def array_dtype(self) -> np.dtype[Any]:
        """The dtype of an array of its values."""
        return np.dtype(object if self.dtype == "string" else self.dtype)

    @property
    def datatype(self) -> str:
        """The datatype of the metadata; others are taken where they convert exactly."""
        return BYTES if self.dtype == "string" else find_datatype(np.dtype(self.dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the metadata."""
        return (ROWS,) if self.width is None else (ROWS, self.width)


@dataclass(frozen=True)
class OutputTensor:
    """A tensor that the model returns.

    Parameters
    ----------
    name : str
        The method, with the number of the part where its output has several.
    method : str
    part : int, optional
    datatype : str
    shape : tuple of int
        With -1 for the number of rows.
    labels : tuple of tuple of str
        Names of the values of a row, axis by axis: classes, or features that are explained. Empty
        where there are none.
    on_demand : bool
        The method takes long: it is compiled where it is first asked for.
    """

    name: str
    method: str
    part: int | None
    datatype: str
    shape: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...] = ()
    on_demand: bool = False

    @cached_property
    def width(self) -> int:
        """Number of values of a row."""
        return math.prod(self.shape[1:])


@dataclass(frozen=True)
class ModelSignature:
    """What a model takes and returns.

    Parameters
    ----------
    inputs : tuple of InputTensor
    outputs : tuple of OutputTensor
    feeds : {"matrix", "names", "positions", "values", "items"}
        How the model is given its rows: one array, columns by their names, columns in their
        order, the only column, or items of any kind.
    ignored : frozenset of str, optional
        Names of columns that the model was fitted on and does not read. None for all other names,
        which a source that finds its columns by their names ignores.
    columns : tuple of str
        Names that the model was fitted on, in their order; empty where it was fitted without.
    """

    inputs: tuple[InputTensor, ...]
    outputs: tuple[OutputTensor, ...]
    feeds: Literal["matrix", "names", "positions", "values", "items"]
    ignored: frozenset[str] | None = frozenset()
    columns: tuple[str, ...] = ()

    @staticmethod
    def of(model: Model) -> ModelSignature:
        """Read the signature of a model, for rows as it was compiled for."""
        schema = model.schema.with_dtypes(_dtypes_taken(model))
        methods = model.parsed.with_schema(schema).outputs
        columns = tuple(InputTensor(column.name, column.dtype) for column in schema.columns)
        outputs = tuple(
            tensor
            for name in _served_methods(methods)
            for tensor in _output_tensors(model, name, methods[name])
        )
        if schema.conventions.items:
            return ModelSignature(columns, outputs, "items")
        if schema.conventions.sequence:
            return ModelSignature(columns, outputs, "values")
        if schema.named:
            read = tuple(columns[i] for i in model.reads.asked)
            others = {column.name for column in columns} - {column.name for column in read}
            ignored = None if schema.finds == "names" else frozenset(others)
            return ModelSignature(read, outputs, "names", ignored, schema.names)
        # Columns without names in one dtype are one tensor: a request names, sizes and copies one.
        if len(set(schema.dtypes)) == 1 and "string" not in schema.dtypes:
            matrix = InputTensor(MATRIX_INPUT, schema.dtypes[0], len(columns))
            return ModelSignature((matrix,), outputs, "matrix")
        return ModelSignature(columns, outputs, "positions")

    def only(self, methods: Collection[str]) -> ModelSignature:
        """Return the signature with some of the methods; with all where none is named.

        Raises
        ------
        OptionError
            The model has none of them.
        """
        if not methods:
            return self
        outputs = tuple(tensor for tensor in self.outputs if tensor.method in methods)
        if not outputs:
            raise OptionError(
                f"--methods {','.join(methods)}: the model has none of them. "
                f"It has: {', '.join(self.methods)}."
            )
        return replace(self, outputs=outputs)

    @property
    def tensors(self) -> int:
        """Number of tensors that it takes and returns, ignored columns among them."""
        return len(self.inputs) + len(self.outputs) + len(self.ignored or ())

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the tensors that it takes."""
        return frozenset(tensor.name for tensor in self.inputs)

    def find_strange(self, names: AbstractSet[str]) -> list[str]:
        """Return the names that the model refuses, sorted."""
        return [] if self.ignored is None else sorted(names - self.names - self.ignored)

    @cached_property
    def outputs_by_name(self) -> Mapping[str, OutputTensor]:
        """The tensors that it returns, by their names."""
        return {tensor.name: tensor for tensor in self.outputs}

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that are served."""
        return tuple(dict.fromkeys(tensor.method for tensor in self.outputs))

    @cached_property
    def usual(self) -> tuple[OutputTensor, ...]:
        """The tensors that answer a request that names none."""
        chosen = [method for method in USUAL if method in self.methods] or self.methods[:1]
        return tuple(tensor for tensor in self.outputs if tensor.method in chosen)

    @property
    def ready(self) -> tuple[OutputTensor, ...]:
        """The tensors of methods that are compiled before the first request."""
        return tuple(tensor for tensor in self.outputs if not tensor.on_demand)


def _dtypes_taken(model: Model) -> list[str]:
    """Return the dtype of each column: float32 if the model was compiled for a sample of it.

    Ints of a sample are no reason to refuse fractions where the source was fitted on floats.
    """
    pairs = zip(model.dtypes, model.schema.dtypes, strict=True)
    return [
        sample if sample.startswith("float") and fitted != "string" else fitted
        for sample, fitted in pairs
    ]


def _served_methods(outputs: Mapping[str, Output]) -> list[str]:
    """Return the methods whose outputs have a row for each row of the input.

    A graph of neighbours is not served: written out, it has a column for each fitted row.
    """
    return [
        name
        for name, output in outputs.items()
        if (output.is_tensor or isinstance(output.form, MatrixTuple))
        and not (output.on_demand and isinstance(output.form, Sparse))
    ]


def _output_tensors(model: Model, method: str, output: Output) -> list[OutputTensor]:
    tensors = _split_output(model, method, output.for_rows(sparse=False))
    return [replace(tensor, on_demand=output.on_demand) for tensor in tensors]


def _split_output(model: Model, method: str, output: Output) -> list[OutputTensor]:
    """Return a tensor for each part of an output."""
    dtypes = _dtypes(output)
    if output.is_vector:
        return [OutputTensor(method, method, None, find_datatype(dtypes[0]), (ROWS,))]
    shape = getattr(output.form, "shape", None)
    if shape is not None:
        labels = _labels(model, method, shape)
        return [
            OutputTensor(method, method, None, find_datatype(dtypes[0]), (ROWS, *shape), labels)
        ]
    widths = output.widths
    if not widths:
        shape = (output.node.type.width,)
        labels = _labels(model, method, shape)
        return [
            OutputTensor(method, method, None, find_datatype(dtypes[0]), (ROWS, *shape), labels)
        ]
    return [
        OutputTensor(f"{method}_{i}", method, i, find_datatype(dtype), (ROWS, width))
        for i, (width, dtype) in enumerate(zip(widths, dtypes, strict=True))
    ]


def _dtypes(output: Output) -> list[np.dtype[Any]]:
    """Return the dtype of each part of an output."""
    count = max(len(output.widths), 1)
    if output.dtype is not None:
        common = np.dtype(output.dtype)
    elif isinstance(output.classes, Array):
        common = output.classes.data.dtype
    elif output.classes is not None:
        # Labels of several targets are columns of one array, whose dtype holds them all.
        common = np.result_type(*(table.data.dtype for table in output.classes))
    else:
        common = np.dtype(output.node.type.dtype)
    if isinstance(output.form, MatrixTuple):
        return [np.dtype(dtype) if dtype else common for _, dtype in output.form.parts]
    return [common] * count


def _labels(model: Model, method: str, shape: tuple[int, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the names along each axis, where they are classes or explained features."""
    classes = getattr(model, "classes_", None)
    count = len(classes) if isinstance(classes, np.ndarray) else 0
    of_classes = method.startswith(("predict_", "decision_")) and count == shape[-1]
    if not (of_classes or method in EXPLANATIONS):
        return ()
    axes = name_axes(model.parsed, method)
    # Equal names would hide values of each other in an object of JSON.
    return axes if all(len(set(names)) == len(names) for names in axes) else ()
