"""Inputs of an ONNX file become columns: those of one matrix, or named ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Cast,
    Check,
    Column,
    Columns,
    Compare,
    InputPort,
    IsOtherDtype,
    IsOutside,
    Node,
    Schema,
)
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.onnx.maps import OnnxMap, read_map
from hbconv.parse.onnx.values import (
    DTYPES,
    NARROW,
    NarrowTensor,
    RowTensor,
    TextTensor,
    Value,
    ends_of,
)

__all__ = ["FileInput", "OnnxInput", "read_inputs", "schema_of"]

_COLUMNS = {"float32": "float32", "float64": "float64", "string": "string"}
"""Dtype of the columns of an input; the others are int64."""


@dataclass(frozen=True)
class OnnxInput:
    """An input of the file that is a tensor.

    Parameters
    ----------
    name, dtype : str
    first : int
        Its first column.
    shape : tuple of int
        Shape of what it holds of each row; () for a vector over the rows.
    """

    name: str
    dtype: str
    first: int
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """Number of its columns."""
        return prod(self.shape)

    @property
    def port(self) -> InputPort:
        """Return how the session finds it."""
        columns = tuple(range(self.first, self.first + self.width))
        return InputPort(self.name, columns, self.shape)

    @property
    def columns(self) -> Iterator[Column]:
        """Its columns; those of a matrix are numbered."""
        dtype = _COLUMNS.get(self.dtype, "int64")
        if self.width == 1:
            yield Column(self.name, dtype)
            return
        for i in range(self.width):
            yield Column(f"{self.name}_{i}", dtype)

    def value(self, schema: Schema) -> Value:
        """Return what operators read: numbers in the dtype of the file, or texts."""
        dims = (1, *self.shape)
        if self.dtype == "string":
            return TextTensor(dims, 0, self.port.columns)
        if self.dtype in NARROW.values():
            return NarrowTensor(dims, 0, self._numbers(schema), self.dtype)
        return RowTensor(dims, 0, self._numbers(schema))

    def _numbers(self, schema: Schema) -> Node:
        indices = Array.of(self.port.columns, np.int32)
        wanted = _COLUMNS.get(self.dtype, "int64")
        read = Columns(schema, indices, wanted)
        if self.dtype == "bool":
            return Compare(read, "ne", Array(np.zeros(self.width, np.int64)))
        held = (wanted, *NARROW.values())
        return read if self.dtype in held else Cast(read, self.dtype)

    def checks(self, schema: Schema) -> Iterator[Check]:
        """Refuse floats where the file reads ints."""
        if _COLUMNS.get(self.dtype):
            return
        given = Columns(schema, Array.of(self.port.columns, np.int32))
        told = f"Input {self.name!r} of the ONNX file holds {self.dtype}. Give ints, not floats."
        yield Check(IsOtherDtype(given, "int64"), told, self.name)
        if self.dtype in NARROW.values():
            least, most = ends_of(self.dtype)
            told = f"Input {self.name!r} of the ONNX file holds {self.dtype}: {least} to {most}."
            read = replace(given, dtype="int64")
            yield Check(IsOutside.of(read, least, most), told, self.name)


FileInput = OnnxInput | OnnxMap


def read_inputs(graph: Any, known: frozenset[str], n_features: int | None) -> list[FileInput]:
    """Return the inputs that are no constants.

    Raises
    ------
    UnsupportedError
        An input is neither a tensor over the rows nor a mapping alone, or of a type that hbconv
        does not read.
    """
    sources = [v for v in graph.input if v.name not in known]
    if not sources:
        raise ConversionError("The ONNX file reads no input: it gives constants.")
    inputs: list[FileInput] = []
    for source in sources:
        if source.type.HasField("map_type"):
            inputs.append(read_map(source, alone=len(sources) == 1))
            continue
        dtype, shape = _form(source, n_features if len(sources) == 1 else None)
        first = inputs[-1].first + inputs[-1].width if inputs else 0
        inputs.append(OnnxInput(source.name, dtype, first, shape))
    return inputs


def _form(source: Any, n_features: int | None) -> tuple[str, tuple[int, ...]]:
    """Return the dtype of an input, and the shape of what it holds of each row."""
    tensor = source.type.tensor_type
    if not source.type.HasField("tensor_type"):
        kind = source.type.WhichOneof("value")
        raise _refused(source, "type", kind, "Give columns: export with an input for each key.")
    if tensor.elem_type not in DTYPES:
        raise _refused(source, "elem_type", tensor.elem_type, f"hbconv reads {_KNOWN}.")
    dtype = DTYPES[tensor.elem_type]
    known = tensor.HasField("shape")
    if known and not tensor.shape.dim:
        raise _refused(source, "shape", "()", "It must have rows.")
    sizes_told = (d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim[1:])
    rest = [size if size >= 0 else None for size in sizes_told]
    sizes = rest if known else [None]
    if len(sizes) == 1:
        sizes = [n_features if size is None else size for size in sizes]
    if any(size is None for size in sizes):
        raise ConversionError(
            f"The ONNX file does not tell how many columns {source.name!r} has. Pass "
            "sample=X[:5] to convert."
        )
    return dtype, tuple(int(size) for size in sizes if size is not None)


_KNOWN = ", ".join(DTYPES.values())


def _refused(source: Any, what: str, value: object, hint: str) -> UnsupportedError:
    return UnsupportedError("input", source.name, what, value, hint)


def schema_of(inputs: Sequence[FileInput]) -> Schema:
    """Return the columns of one matrix by position, else all by their names."""
    if isinstance(inputs[0], OnnxMap):
        return Schema.items()
    if len(inputs) == 1 and inputs[0].width != 1:
        width = inputs[0].width
        return Schema.matrix(width, next(inputs[0].columns).dtype)
    total = sum(source.width for source in inputs)
    Schema.matrix(total)
    columns = tuple(column for source in inputs for column in source.columns)
    if len({column.name for column in columns}) != len(columns):
        raise ConversionError("The ONNX file is damaged: it has two inputs of one name.")
    return Schema(columns, named=len(inputs) > 1)
