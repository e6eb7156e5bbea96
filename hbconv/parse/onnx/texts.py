"""Texts of the input become codes where an operator knows some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Choose,
    Codes,
    Compare,
    Concat,
    ConstantRows,
    Node,
    Recode,
    Vocabulary,
)
from hbconv.parse.onnx.operator import OnnxOperator
from hbconv.parse.onnx.values import KnownTensor, LabelTensor, RowTensor, TextTensor, Value

__all__ = ["chosen_texts", "equal_texts", "is_text", "text_codes"]


def is_text(value: Value) -> bool:
    """Tell whether a value holds texts."""
    if isinstance(value, KnownTensor):
        return value.data.dtype.kind in "UO"
    return isinstance(value, TextTensor) or (
        isinstance(value, LabelTensor) and value.table.data.dtype.kind in "UO"
    )


def text_codes(op: OnnxOperator, x: TextTensor, known: Sequence[Sequence[str]]) -> Node:
    """Return the position of each text among those known for it, -1 for any other."""
    if x.folded:
        raise op.refuse("input", "texts in lower case", "hbconv looks up texts as they come.")
    nodes = tuple(
        _codes(op, column, edits, texts)
        for column, edits, texts in zip(x.columns, x.edits_of, known, strict=True)
    )
    return nodes[0] if len(nodes) == 1 else Concat(nodes)


def _codes(op: OnnxOperator, column: int, edits: Mapping[str, str], known: Sequence[str]) -> Node:
    """Return the codes of one column, whose texts are replaced first."""
    if not edits:
        return Codes(op.schema, column, Vocabulary(tuple(known)))
    read = tuple(dict.fromkeys([*known, *edits]))
    place = {text: i for i, text in enumerate(known)}
    codes = [-1, *(place.get(edits.get(text, text), -1) for text in read)]
    found = Codes(op.schema, column, Vocabulary(read))
    return Recode(found, (Array(np.array(codes, np.int32)),))


def equal_texts(op: OnnxOperator) -> RowTensor:
    """Compare texts, or entries of a table, with one constant text."""
    values = [op.value(0), op.value(1)]
    constants = [v for v in values if isinstance(v, KnownTensor)]
    if len(constants) != 1 or constants[0].data.size != 1:
        raise op.refuse("inputs", "two columns of texts", "hbconv compares with one text.")
    known = str(constants[0].data.ravel()[0])
    (x,) = (v for v in values if isinstance(v, LabelTensor | TextTensor))
    if isinstance(x, TextTensor):
        codes = text_codes(op, x, [(known,)] * x.width)
    else:
        codes = x.recoded(np.where(x.table.data.astype(str) == known, 0, -1).astype(np.int32))
    return RowTensor(x.dims, x.axis, Compare.of(codes, "eq", 0))


def chosen_texts(op: OnnxOperator) -> LabelTensor | TextTensor:
    """Choose between constant texts, or replace some texts of the input by one."""
    if isinstance(op.value(2), TextTensor):
        return _replaced(op)
    return _chosen_labels(op)


def _chosen_labels(op: OnnxOperator) -> LabelTensor:
    condition = op.rows()
    tables: list[npt.NDArray[Any]] = []
    codes: list[Node] = []
    for place in (1, 2):
        value = op.value(place)
        first = sum(len(table) for table in tables)
        if isinstance(value, LabelTensor) and value.dims == condition.dims:
            tables.append(value.table.data)
            codes.append(value.recoded(np.arange(len(value.table), dtype=np.int32) + first))
        elif isinstance(value, KnownTensor) and value.data.size == 1:
            tables.append(value.data.ravel())
            codes.append(_repeated(op, condition.width, first))
        else:
            raise op.refuse(f"input {place}", "texts", "hbconv chooses between class labels.")
    node = Choose(condition.node, codes[0], codes[1])
    table = np.concatenate([np.asarray(t, str) for t in tables])
    return LabelTensor(condition.dims, condition.axis, node, Array(table))


def _repeated(op: OnnxOperator, width: int, code: int) -> Node:
    return ConstantRows(op.row, Array(np.full(width, code, np.int32)))


def _replaced(op: OnnxOperator) -> TextTensor:
    """Replace the texts of one column for which a condition on them holds."""
    condition, fill, x = op.value(0), op.value(1), op.value(2)
    told = _told_by_text(condition) if isinstance(condition, LabelTensor) else None
    if not isinstance(x, TextTensor) or x.width != 1 or told is None or told[0] != x.columns[0]:
        raise op.refuse("condition", "of other values", "It must be one on the texts it replaces.")
    if not isinstance(fill, KnownTensor) or fill.data.size != 1 or told[2]:
        raise op.refuse("input 1", "for unknown texts", "hbconv replaces known texts by one.")
    text = str(fill.data.ravel()[0])
    (edits,) = x.edits_of
    made = {known: text if holds else edits.get(known, known) for known, holds in told[1].items()}
    return replace(x, edits=(tuple((edits | made).items()),))


def _told_by_text(value: LabelTensor) -> tuple[int, dict[str, Any], Any] | None:
    """Return the column that an entry is computed of, its value for each text, and for others."""
    tables: list[npt.NDArray[Any]] = []
    node = value.node
    while isinstance(node, Recode) and len(node.tables) == 1:
        tables.append(node.tables[0].data)
        node = node.codes
    if not isinstance(node, Codes) or not isinstance(node.vocabulary, Vocabulary):
        return None
    texts = [str(text) for text in node.vocabulary.values]
    codes = np.arange(-1, len(texts))
    for table in reversed(tables):
        codes = table[codes + 1]
    found = value.table.data[codes].tolist()
    return node.column, dict(zip(texts, found[1:], strict=True)), found[0]
