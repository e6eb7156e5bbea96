"""An operator of an ONNX graph while it is read: its inputs, attributes, and refusals.

Operators that read each entry alone also read rows that are stacked in one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Check, ConstantRows, Node, Schema
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.onnx.values import FlatTensor, KnownTensor, LabelTensor, RowTensor, Value

__all__ = ["OPERATORS", "OnnxOperator", "entrywise", "operator", "over_flat"]

Numbers = npt.NDArray[Any]
Reader = Callable[["OnnxOperator"], "Value | tuple[Value | None, ...]"]

OPERATORS: dict[tuple[str, str], Reader] = {}
"""The reader of each operator, by domain ("" for ``ai.onnx``) and name."""


def operator(*names: str, domain: str = "") -> Callable[[Reader], Reader]:
    """Register the decorated function as the reader of operators of a domain."""

    def register(reader: Reader) -> Reader:
        OPERATORS.update({(domain, name): reader for name in names})
        return reader

    return register


@dataclass(frozen=True)
class OnnxOperator:
    """One operator under reading.

    Parameters
    ----------
    kind : str
        Name of the operator, such as ``"Scaler"``.
    name : str
        Name of the node in the file; that of its first output where it has none.
    inputs : tuple of Value or None
    attributes : mapping
        Python values, numpy arrays and lists of these.
    opset : int
        Version of its domain.
    schema : Schema
        Columns of the input.
    row : Node
        A node of the input, which has the number of rows.
    outputs : int
        Number of outputs.
    checks : list of Check
        What rows are refused for; readers append to it.
    """

    kind: str
    name: str
    inputs: tuple[Value | None, ...]
    attributes: Mapping[str, Any]
    opset: int
    schema: Schema
    row: Node
    outputs: int = 1
    checks: list[Check] = field(default_factory=list)

    @property
    def where(self) -> str:
        """Return the place of the operator, as messages name it."""
        return f"{self.name}"

    def refuse(self, attribute: str | None, value: object, hint: str) -> UnsupportedError:
        """Return the error that refuses an attribute or input; the caller raises it."""
        return UnsupportedError(self.kind, self.where, attribute, value, hint)

    def damaged(self, what: str) -> ConversionError:
        """Return the error that refuses contradicting attributes; the caller raises it."""
        return ConversionError(
            f"The ONNX file is damaged: {self.kind} (node {self.name!r:.100}) {what}. Export it "
            "again."
        )

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, texts as str."""
        value = self.attributes.get(name, default)
        # onnx keeps texts of attributes as bytes.
        return value.decode("utf-8") if isinstance(value, bytes) else value

    def one_of(self, name: str, default: Any, *allowed: Any) -> Any:
        """Return an attribute if it is one of the allowed values, else refuse it."""
        value = self.get(name, default)
        if value not in allowed:
            raise self.refuse(name, value, f"hbconv handles {', '.join(map(repr, allowed))}.")
        return value

    def numbers(self, name: str, dtype: str = "float32") -> Numbers:
        """Return an attribute of numbers as a vector; its ``_as_tensor`` form comes first."""
        tensor = self.attributes.get(f"{name}_as_tensor")
        if tensor is not None:
            return np.asarray(tensor).ravel()
        return np.asarray(self.attributes.get(name, ()), dtype).ravel()

    def tensor(self, name: str) -> Numbers:
        """Return an attribute that is a tensor as a vector, in its own dtype."""
        return np.asarray(self.attributes.get(name, np.zeros(0, np.float32))).ravel()

    def texts(self, name: str) -> list[str]:
        """Return an attribute of texts."""
        return [text.decode("utf-8") for text in self.attributes.get(name, ())]

    def has(self, place: int) -> bool:
        """Tell whether an optional input is given."""
        return place < len(self.inputs) and self.inputs[place] is not None

    def value(self, place: int = 0) -> Value:
        """Return an input of any kind."""
        value = self.inputs[place] if place < len(self.inputs) else None
        if value is None:
            raise self.damaged(f"lacks input {place}")
        return value

    def rows(self, place: int = 0) -> RowTensor:
        """Return an input of numbers over the rows; a constant is repeated for each."""
        value = self.value(place)
        if isinstance(value, LabelTensor) and value.table.data.dtype.kind in "ifb":
            return value.numbers
        if isinstance(value, KnownTensor) and value.data.dtype.kind in "ifb":
            return self.repeat(value.data)
        if not isinstance(value, RowTensor):
            raise self.refuse(f"input {place}", type(value).__name__, "It must be numbers.")
        return value

    def repeat(self, data: Numbers) -> RowTensor:
        """Return a constant as a tensor over the rows, which must not have rows itself."""
        # No node computes in float16, and float32 holds its numbers exactly.
        dtype = data.dtype.name if data.dtype.name != "float16" else "float32"
        values = Array.of(data.ravel(), dtype)
        return RowTensor((1, *data.shape), 0, ConstantRows(self.row, values))

    def matrix(self, place: int = 0) -> RowTensor:
        """Return an input of shape (n_rows, width); a vector of the rows has width 1."""
        x = self.rows(place)
        if x.axis != 0 or len(x.dims) > 2:
            shape = ["N" if i == x.axis else size for i, size in enumerate(x.dims)]
            raise self.refuse("input shape", shape, "It must be (rows, columns).")
        return RowTensor((1, x.width), 0, x.node)

    def constant(self, place: int) -> Numbers:
        """Return an input that does not depend on the rows."""
        value = self.value(place)
        if not isinstance(value, KnownTensor):
            raise self.refuse(
                f"input {place}", "computed from the rows", "It must be a constant of the file."
            )
        return value.data

    def ints(self, name: str, place: int) -> list[int] | None:
        """Return ints of an attribute, or of the input that newer opsets have for it."""
        if name in self.attributes:
            return [int(i) for i in np.ravel(self.attributes[name])]
        return [int(i) for i in self.constant(place).ravel()] if self.has(place) else None

    def axis(self, value: int, rank: int) -> int:
        """Return an axis counted from the front."""
        if not -rank <= value < rank:
            raise self.damaged(f"has axis {value} of {rank}")
        return value % rank


EntryReader = Callable[[OnnxOperator], Value]


def entrywise(*names: str) -> Callable[[EntryReader], EntryReader]:
    """Register the decorated function as the reader of operators of ``ai.onnx``."""

    def register(reader: EntryReader) -> EntryReader:
        operator(*names)(lambda op: over_flat(op, reader))
        return reader

    return register


def over_flat(op: OnnxOperator, reader: EntryReader) -> Value:
    """Read an operator; where an input is rows behind one another, so is the result.

    Entries of such inputs are in one order, which the operator leaves as it is. Next to them
    are constants of one entry, and no others: where they would go depends on the rows.
    """
    flat = [x.values for x in op.inputs if isinstance(x, FlatTensor)]
    if not flat:
        return reader(op)
    inputs = tuple(None if x is None else _inner(op, x, flat[0]) for x in op.inputs)
    result = reader(replace(op, inputs=inputs))
    if not isinstance(result, RowTensor | LabelTensor):
        raise op.refuse("input", "rows behind one another", "Reshape them before.")
    return FlatTensor(result)


def _inner(op: OnnxOperator, value: Value, first: RowTensor | LabelTensor) -> Value:
    if isinstance(value, FlatTensor) and _order(value.values) == _order(first):
        return value.values
    if isinstance(value, KnownTensor) and value.data.size == 1:
        return KnownTensor(np.reshape(value.data, ()))
    raise op.refuse("inputs", "rows behind one another, and others", "Reshape them before.")


def _order(x: RowTensor | LabelTensor) -> tuple[tuple[int, ...], int]:
    return x.dims, x.axis
