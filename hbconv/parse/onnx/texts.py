"""Texts of the input become codes where an operator knows some of them."""

from __future__ import annotations

from collections.abc import Sequence

from hbconv.containers import Codes, Concat, Node, Vocabulary
from hbconv.parse.onnx.operator import OnnxOperator
from hbconv.parse.onnx.values import KnownTensor, LabelTensor, TextTensor, Value

__all__ = ["is_text", "text_codes"]


def is_text(value: Value) -> bool:
    """Tell whether a value holds texts."""
    if isinstance(value, KnownTensor):
        return value.data.dtype.kind in "UO"
    return isinstance(value, TextTensor) or (
        isinstance(value, LabelTensor) and value.table.data.dtype.kind in "UO"
    )


def text_codes(op: OnnxOperator, x: TextTensor, known: Sequence[Sequence[str]]) -> Node:
    """Return the position of each text among those known for it, -1 for any other."""
    nodes = tuple(
        Codes(op.schema, column, Vocabulary(tuple(texts)))
        for column, texts in zip(x.columns, known, strict=True)
    )
    return nodes[0] if len(nodes) == 1 else Concat(nodes)
