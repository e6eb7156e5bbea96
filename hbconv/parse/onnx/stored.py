"""Tensors and attributes that a file stores, as arrays and Python values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hbconv.errors import UnsupportedError
from hbconv.parse.onnx.values import KnownTensor, Value

__all__ = ["attribute_value", "constants", "plain", "require_inside"]


def constants(graph: Any) -> Iterator[tuple[str, Value]]:
    """Yield the initializers of a graph by name."""
    from onnx import numpy_helper

    if graph.sparse_initializer:
        raise UnsupportedError("initializer", "sparse", hint="Store it as a dense tensor.")
    for tensor in graph.initializer:
        yield tensor.name, KnownTensor(plain(numpy_helper.to_array(tensor)))


def plain(data: Any) -> Any:
    """Return texts as ``U`` strings, and everything else as it is."""
    array = np.asarray(data)
    if array.dtype.kind != "O":
        return array
    texts = [v.decode("utf-8") if isinstance(v, bytes) else str(v) for v in array.ravel()]
    return np.array(texts, str).reshape(array.shape)


def attribute_value(attribute: Any) -> Any:
    """Return an attribute of an operator; a tensor as an array."""
    from onnx import TensorProto, helper, numpy_helper

    value = helper.get_attribute_value(attribute)
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def require_inside(graph: Any) -> None:
    """Refuse tensors whose data lie in another file, of which a model in memory has no folder.

    ``onnx.load`` reads them beside the file that it opens, and nowhere else.
    """
    for tensor in _tensors(graph):
        if tensor.data_location == tensor.EXTERNAL:
            hint = "Open the file by its path, or by onnx.load with its external data."
            raise UnsupportedError("tensor", tensor.name, "data_location", "EXTERNAL", hint)


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for stored in graph.sparse_initializer:
        yield from (stored.values, stored.indices)
    for attribute in (each for node in graph.node for each in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        if attribute.HasField("g"):
            yield from _tensors(attribute.g)
        for inner in attribute.graphs:
            yield from _tensors(inner)
