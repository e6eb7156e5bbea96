"""Rows that are mappings: DictVectorizer and CastMap make columns of the names that they know.

Sequences of tensors: the probabilities of several targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hbconv.containers import Check, Column, Entries, InputPort, Node, Schema
from hbconv.containers.extractors import Extractor, Name, Terms, TypedMappings
from hbconv.errors import UnsupportedError
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.values import DTYPES, MapRows, RowTensor, TensorList, Value

__all__ = ["OnnxMap", "read_map", "row_of"]

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
    given = source.type.map_type
    key = DTYPES.get(given.key_type, given.key_type)
    value = DTYPES.get(given.value_type.tensor_type.elem_type, "?")
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
    known = texts or op.numbers("int64_vocabulary", "int64").tolist()
    if len(set(known)) != len(known) or bool(texts) != (rows.names.names == "text"):
        raise op.damaged(f"has a name twice, or no names that are {rows.names.names}")
    return RowTensor((1, len(known)), 0, _entries(op.schema, rows, tuple(known)))


@operator("CastMap", domain=ML)
def read_cast_map(op: OnnxOperator) -> RowTensor:
    """Write the values of the names 0, 1, 2... up to ``max_map``; absent ones are 0."""
    rows = _maps(op)
    if op.get("map_form", "DENSE") != "SPARSE":
        raise op.refuse("map_form", "DENSE", "Rows would differ in width. Use SPARSE and max_map.")
    to = op.one_of("cast_to", "TO_FLOAT", "TO_FLOAT", "TO_INT64")
    width = op.get("max_map", 1)
    if rows.names.names != "int" or not 0 < width < 1 << 22:
        raise op.damaged(f"has {width} columns of {rows.names.names}s")
    rows = replace(rows, names=TypedMappings("position"))
    found = RowTensor((1, width), 0, _entries(op.schema, rows, tuple(range(width))))
    return found.cast("float32" if to == "TO_FLOAT" else "int64")


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
