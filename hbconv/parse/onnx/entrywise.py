"""Operators that read each entry alone: they read rows put behind one another too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.values import FlatTensor, KnownTensor, LabelTensor, RowTensor, Value

__all__ = ["entrywise", "over_flat"]

Reader = Callable[[OnnxOperator], Value]


def entrywise(*names: str) -> Callable[[Reader], Reader]:
    """Register the decorated function as the reader of operators of ``ai.onnx``."""

    def register(reader: Reader) -> Reader:
        operator(*names)(lambda op: over_flat(op, reader))
        return reader

    return register


def over_flat(op: OnnxOperator, reader: Reader) -> Value:
    """Read an operator; where an input is rows behind one another, so is the result.

    Entries of such inputs stand in one order, which the operator leaves as it is. Beside them
    constants of one entry may stand, and no others: where they would go depends on the rows.
    """
    flat = [x.values for x in op.inputs if isinstance(x, FlatTensor)]
    if not flat:
        return reader(op)
    inputs = tuple(None if x is None else _inner(op, x, flat[0]) for x in op.inputs)
    found = reader(replace(op, inputs=inputs))
    if not isinstance(found, RowTensor | LabelTensor):
        raise op.refuse("input", "rows behind one another", "Reshape them before.")
    return FlatTensor(found)


def _inner(op: OnnxOperator, value: Value, first: RowTensor | LabelTensor) -> Value:
    if isinstance(value, FlatTensor) and _order(value.values) == _order(first):
        return value.values
    if isinstance(value, KnownTensor) and value.data.size == 1:
        return KnownTensor(np.reshape(value.data, ()))
    raise op.refuse("inputs", "rows behind one another, and others", "Reshape them before.")


def _order(x: RowTensor | LabelTensor) -> tuple[tuple[int, ...], int]:
    return x.dims, x.axis
