"""Sequences of tensors: the probabilities of several targets."""

from __future__ import annotations

from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.values import TensorList

__all__: list[str] = []


@operator("SequenceConstruct")
def read_sequence(op: OnnxOperator) -> TensorList:
    """List matrices of one dtype."""
    values = tuple(op.matrix(i) for i in range(len(op.inputs)))
    if not values or len({x.dtype for x in values}) != 1:
        raise op.damaged("lists tensors of several types, or none")
    return TensorList(values)
