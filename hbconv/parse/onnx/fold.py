"""Compute operators on constants, with the reference implementation of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.onnx.values import holds_rows

__all__ = ["MOST_ENTRIES", "fold"]

MOST_ENTRIES = 1 << 26
"""Entries that a constant may have: a damaged file would ask for more memory than there is."""

_OF_SHAPES = frozenset(
    {"Gather", "Slice", "Concat", "Squeeze", "Unsqueeze", "Reshape", "Identity", "Cast", "Split"}
)
"""Operators that only move the entries of a shape."""

_BY_SIZE = frozenset(
    {"BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", "Resize", "Upsample",
     "CenterCropPad", "AffineGrid", "Col2Im", "Einsum", "GatherND", "MaxUnpool",
     "OneHot", "Scan", "SequenceMap"}
)  # fmt: skip
"""Operators whose constants may be of any size, which no model of this kind holds."""

_REFUSED = {
    "Loop": "hbconv reads no loops.",
    **dict.fromkeys(_BY_SIZE, "It makes a constant of any size. Store the constant instead."),
    **dict.fromkeys(
        (
            "Bernoulli",
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        ),
        "Answers that depend on chance cannot be repeated.",
    ),
}
"""Operators that are no constants though their inputs are, or may run without an end."""

_OF_TABLES = frozenset({"ArrayFeatureExtractor", "CategoryMapper", "LabelEncoder"})
"""Operators of ``ai.onnx.ml`` that exporters give constants."""

_GROWS = frozenset({"Expand", "Tile", "ConstantOfShape", "Range", "Pad"})

Numbers = npt.NDArray[Any]


def fold(node: Any, inputs: list[Numbers | None], opsets: Mapping[str, int]) -> tuple[Numbers, ...]:
    """Return the outputs of an operator whose inputs are constants.

    Parameters
    ----------
    node : onnx.NodeProto
    inputs : list of array or None
    opsets : mapping
        Version of each domain.

    Raises
    ------
    UnsupportedError
        It computes with the number of rows or with chance, or holds a graph to run.
    ConversionError
        A constant is larger than memory allows.
    """
    from onnx.reference import ReferenceEvaluator

    given = [x for x in inputs if x is not None]
    if node.op_type in _REFUSED:
        raise UnsupportedError(
            node.op_type, node.name or node.output[0], hint=_REFUSED[node.op_type]
        )
    if node.domain == "ai.onnx.ml" and node.op_type not in _OF_TABLES:
        hint = "It computes a constant. Store that instead."
        raise UnsupportedError(node.op_type, node.name or node.output[0], hint=hint)
    if any(map(holds_rows, given)) and node.op_type not in _OF_SHAPES:
        name = node.name or node.output[0]
        raise UnsupportedError(
            node.op_type, name, "input 0", "number of rows", "Answers are computed row by row."
        )
    _require_small(node, given)
    _require_inferred_small(node, given)
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    with np.errstate(all="ignore"):
        model = _model_of(node, inputs, opsets)
        return tuple(np.asarray(y) for y in ReferenceEvaluator(model).run(None, feeds))


def _model_of(node: Any, inputs: list[Numbers | None], opsets: Mapping[str, int]) -> Any:
    from onnx import NodeProto, helper

    alone = NodeProto()
    alone.CopyFrom(node)
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(len(node.output))]
    del alone.input[:]
    del alone.output[:]
    alone.input.extend(names)
    alone.output.extend(outputs)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
        if x is not None
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([alone], "constant", given, made)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports)


def _require_inferred_small(node: Any, inputs: list[Numbers]) -> None:
    """Refuse an output that the sizes of the inputs may make too large, before it is computed.

    onnx infers shapes too, but ends the process over some damaged operators.
    """
    size = _PRODUCTS.get(node.op_type, _broadcast_size)(node, inputs) if inputs else 0
    if size > MOST_ENTRIES:
        raise _too_large(node, size)


def _broadcast_size(node: Any, inputs: list[Numbers]) -> int:  # noqa: ARG001
    try:
        return prod(np.broadcast_shapes(*(x.shape for x in inputs)))
    except ValueError:
        return sum(x.size for x in inputs)


def _product(node: Any, inputs: list[Numbers]) -> int:  # noqa: ARG001
    shared = inputs[0].shape[-1] if inputs[0].ndim else 1
    return prod(x.size // max(shared, 1) for x in inputs[:2])


def _taken(node: Any, inputs: list[Numbers]) -> int:
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
    axis = -1 if node.op_type == "ArrayFeatureExtractor" else axis
    shape = inputs[0].shape
    size = shape[axis] if -len(shape) <= axis < len(shape) else 1
    return inputs[0].size // max(size, 1) * inputs[-1].size


def _sum(node: Any, inputs: list[Numbers]) -> int:  # noqa: ARG001
    return sum(x.size for x in inputs)


_PRODUCTS: Mapping[str, Callable[[Any, list[Numbers]], int]] = {
    "Concat": _sum,
    "MatMul": _product,
    "Gemm": _product,
    "Gather": _taken,
    "ArrayFeatureExtractor": _taken,
}
"""Sizes of outputs that are no broadcast of the inputs."""


def _too_large(node: Any, size: float) -> ConversionError:
    return ConversionError(
        f"The ONNX file is damaged: {node.op_type} (node {node.name!r:.100}) makes {size:g} "
        f"entries. hbconv takes up to {MOST_ENTRIES}."
    )


def _require_small(node: Any, inputs: list[Numbers]) -> None:
    if node.op_type not in _GROWS:
        return
    factors = [np.abs(x.astype(np.float64)) for x in inputs if x.dtype.kind in "if" and x.size]
    sizes = [float(np.prod(np.maximum(x, 1.0))) for x in factors[-1:]]
    size = max([1.0, *sizes]) * max([1, *(x.size for x in inputs[:1])])
    if not size <= MOST_ENTRIES:
        raise _too_large(node, size)
