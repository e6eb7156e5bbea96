"""The inputs and outputs that an ONNX file declares."""

from __future__ import annotations

import onnx

from hbconv.backends.onnx.writer import DTYPES

__all__ = ["read_signature"]

Signature = list[tuple[str, str, tuple[int, ...]]]
"""Name, dtype, and shape of one row of each tensor."""


def read_signature(model: bytes) -> tuple[Signature, Signature]:
    """Return the inputs and the outputs of a model whose first dimension is the rows."""
    graph = onnx.load_model_from_string(model).graph
    return _tensors(graph.input), _tensors(graph.output)


def _tensors(values: list[onnx.ValueInfoProto]) -> Signature:
    names = {code: name for name, code in DTYPES.items()}
    found = []
    for value in values:
        kind = value.type.tensor_type
        shape = tuple(dim.dim_value for dim in kind.shape.dim[1:])
        found.append((value.name, names[kind.elem_type], shape))
    return found
