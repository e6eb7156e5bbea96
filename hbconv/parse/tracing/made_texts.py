"""Texts that a function makes of its constants: chosen by codes, by conditions, and joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Cast, Choose, ChooseText, ChosenText, Compare, ConstantRows, Node
from hbconv.parse.tracing.arrays import TracedVector
from hbconv.parse.tracing.functions import truth
from hbconv.parse.tracing.labels import TracedLabels, is_text
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = ["choose_texts", "text_at", "text_node"]


def text_node(value: Any) -> Node:
    """Return a text, a missing one or a column of texts as a node."""
    if isinstance(value, TracedLabels):
        return ChosenText(value.codes, (None, *map(str, value.table.tolist())))
    if isinstance(value, TracedVector) and is_text(value):
        return value.node
    is_missing = isinstance(value, float) and value != value
    if not (isinstance(value, str) or is_missing):
        refuse("chooses among texts and other values", "Use texts alone, and np.nan.")
    text = None if is_missing else str(value)
    nothing = ConstantRows(current_trace().x, Array.of([-1], np.int32))
    return ChosenText(nothing, (text,))


def choose_texts(condition: Any, x: Any, y: Any) -> Node:
    """Return the text of x where a condition holds, and of y elsewhere."""
    node = condition.node if isinstance(condition, TracedVector) else condition
    if not isinstance(node, Node) or node.type.width != 1:
        refuse("chooses texts by a table of conditions", "Choose by a column: df['a'] > 1.")
    return ChooseText(text_node(x), text_node(y), truth(node))


def text_at(number: Node, texts: Sequence[str], least: int = 0) -> Node:
    """Return the text at the place that a whole number tells, missing for NaN and below.

    ``least`` is the number of the first text.
    """
    known = Compare.of(number, "ge", float(least))
    place = Choose(known, number, ConstantRows(current_trace().x, Array([float(least - 1)])))
    codes = Cast(place, "int32")
    if least:
        table = (None,) * least + tuple(texts)
        return ChosenText(codes, (None, *table))
    return ChosenText(codes, (None, *texts))
