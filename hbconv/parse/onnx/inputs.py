"""Inputs of an ONNX file become columns: of one matrix, named ones, or mappings.

Of mappings DictVectorizer and CastMap make columns of the names that they know. SequenceConstruct
lists matrices, such as the probabilities of several targets.
"""

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
    Entries,
    InputPort,
    IsOtherDtype,
    IsOutside,
    Node,
    Schema,
)
from hbconv.containers.extractors import Extractor, Name, Terms, TypedMappings
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.values import (
    DTYPES,
    NARROW,
    MapRows,
    NarrowTensor,
    RowTensor,
    TensorList,
    TextTensor,
    Value,
    ends_of,
)

__all__ = ["FileInput", "OnnxInput", "OnnxMap", "read_inputs", "row_of", "schema_of"]

ML = "ai.onnx.ml"

KEYS = {"string": "text", "int64": "int"}
"""Types of names, as ``TypedMappings`` calls them."""

VALUES = ("float32", "float64", "int64")

_ALONE = "A mapping must be the only input: export with an input for each key."


@dataclass(frozen=True)
class OnnxMap:
    """An input of the file that holds a mapping of names to numbers for each row.

    onnxruntime takes one mapping a run; hbconv takes a list of them too.
    """

    name: str
    names: TypedMappings
    dtype: str
    first: int = 0
    width: int = 1

    @property
    def port(self) -> InputPort:
        """Return how the session finds it."""
        return InputPort(self.name, (0,), ())

    @property
    def columns(self) -> Iterator[Column]:
        """Its only column, which holds the mappings."""
        yield from Schema.items().columns

    def value(self, schema: Schema) -> Value:  # noqa: ARG002
        """Return what operators read."""
        return MapRows(self.names, self.dtype)

    def checks(self, schema: Schema) -> Sequence[Check]:  # noqa: ARG002
        """Return nothing: the host reads mappings, and refuses others."""
        return ()


def read_map(source: Any, *, alone: bool) -> OnnxMap:
    """Return an input of a mapping.

    Raises
    ------
    UnsupportedError
        The types of names and values are not read, or there are other inputs.
    """
    map_type = source.type.map_type
    key = DTYPES.get(map_type.key_type, map_type.key_type)
    value = DTYPES.get(map_type.value_type.tensor_type.elem_type, "?")
    kind = f"map({key} -> {value})"
    if key not in KEYS or value not in VALUES:
        hint = f"hbconv reads maps of {', '.join(KEYS)} to {', '.join(VALUES)}."
        raise UnsupportedError("input", source.name, "type", kind, hint)
    if not alone:
        raise UnsupportedError("input", source.name, "type", kind, _ALONE)
    return OnnxMap(source.name, TypedMappings("text" if key == "string" else "int"), value)


def row_of(schema: Schema, rows: MapRows) -> Node:
    """Return a node that tells the number of rows: it has a column for no name that counts."""
    return _entries(schema, rows, ("",) if rows.names.names == "text" else (0,))


def _entries(schema: Schema, rows: MapRows, names: tuple[Name, ...]) -> Node:
    return Entries(schema, 0, Extractor(rows.names, Terms(names), rows.dtype))


@operator("DictVectorizer", domain=ML)
def read_dict_vectorizer(op: OnnxOperator) -> RowTensor:
    """Give each known name its column; others are left out, and absent ones are 0."""
    rows = _maps(op)
    texts: list[Name] = [*op.texts("string_vocabulary")]
    vocabulary = texts or op.numbers("int64_vocabulary", "int64").tolist()
    if len(set(vocabulary)) != len(vocabulary) or bool(texts) != (rows.names.names == "text"):
        raise op.damaged(f"has a name twice, or no names that are {rows.names.names}")
    return RowTensor((1, len(vocabulary)), 0, _entries(op.schema, rows, tuple(vocabulary)))


@operator("CastMap", domain=ML)
def read_cast_map(op: OnnxOperator) -> RowTensor:
    """Write the values of the names 0, 1, 2... up to ``max_map``; absent ones are 0."""
    rows = _maps(op)
    if op.get("map_form", "DENSE") != "SPARSE":
        raise op.refuse("map_form", "DENSE", "Rows would differ in width. Use SPARSE and max_map.")
    to = op.one_of("cast_to", "TO_FLOAT", "TO_FLOAT", "TO_INT64")
    width = op.get("max_map", 1)
    # The bound of a row's entries, as for tensors (MOST_OF_ROW).
    if rows.names.names != "int" or not 0 < width < 1 << 22:
        raise op.damaged(f"has {width} columns of {rows.names.names}s")
    # CastMap ignores names beyond the columns, and positions are their own places.
    rows = replace(rows, names=TypedMappings("position"))
    table = RowTensor((1, width), 0, _entries(op.schema, rows, tuple(range(width))))
    return table.cast("float32" if to == "TO_FLOAT" else "int64")


def _maps(op: OnnxOperator) -> MapRows:
    rows = op.value()
    if not isinstance(rows, MapRows):
        raise op.refuse("input", type(rows).__name__, "It must be an input of the file.")
    return rows


@operator("SequenceConstruct")
def read_sequence(op: OnnxOperator) -> TensorList:
    """List matrices of one dtype."""
    values = tuple(op.matrix(i) for i in range(len(op.inputs)))
    if not values or len({x.dtype for x in values}) != 1:
        raise op.damaged("lists tensors of several types, or none")
    return TensorList(values)


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
        columns = Columns(schema, Array.of(self.port.columns, np.int32))
        message = f"Input {self.name!r} of the ONNX file holds {self.dtype}. Give ints, not floats."
        yield Check(IsOtherDtype(columns, "int64"), message, self.name)
        if self.dtype in NARROW.values():
            least, most = ends_of(self.dtype)
            message = f"Input {self.name!r} of the ONNX file holds {self.dtype}: {least} to {most}."
            read = replace(columns, dtype="int64")
            yield Check(IsOutside.of(read, least, most), message, self.name)


FileInput = OnnxInput | OnnxMap


def read_inputs(graph: Any, constants: frozenset[str], n_features: int | None) -> list[FileInput]:
    """Return the inputs that are no constants.

    Raises
    ------
    UnsupportedError
        An input is neither a tensor over the rows nor a mapping alone, or of a type that hbconv
        does not read.
    """
    sources = [v for v in graph.input if v.name not in constants]
    if not sources:
        raise ConversionError("The ONNX file reads no input: it gives constants.")
    inputs: list[FileInput] = []
    for source in sources:
        if source.type.HasField("map_type"):
            inputs.append(read_map(source, alone=len(sources) == 1))
            continue
        dtype, shape = _read_form(source, n_features if len(sources) == 1 else None)
        first = inputs[-1].first + inputs[-1].width if inputs else 0
        inputs.append(OnnxInput(source.name, dtype, first, shape))
    return inputs


def _read_form(source: Any, n_features: int | None) -> tuple[str, tuple[int, ...]]:
    """Return the dtype of an input, and the shape of what it holds of each row."""
    tensor = source.type.tensor_type
    if not source.type.HasField("tensor_type"):
        kind = source.type.WhichOneof("value")
        raise _refusal(source, "type", kind, "Give columns: export with an input for each key.")
    if tensor.elem_type not in DTYPES:
        raise _refusal(source, "elem_type", tensor.elem_type, f"hbconv reads {_KNOWN}.")
    dtype = DTYPES[tensor.elem_type]
    has_shape = tensor.HasField("shape")
    if has_shape and not tensor.shape.dim:
        raise _refusal(source, "shape", "()", "It must have rows.")
    sizes_told = (d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim[1:])
    rest = [size if size >= 0 else None for size in sizes_told]
    sizes = rest if has_shape else [None]
    if len(sizes) == 1:
        # Exporters leave the number of columns open where they had no sample.
        sizes = [n_features if size is None else size for size in sizes]
    if any(size is None for size in sizes):
        raise ConversionError(
            f"The ONNX file does not tell how many columns {source.name!r} has. Pass "
            "sample=X[:5] to convert."
        )
    return dtype, tuple(int(size) for size in sizes if size is not None)


_KNOWN = ", ".join(DTYPES.values())


def _refusal(source: Any, what: str, value: object, hint: str) -> UnsupportedError:
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
