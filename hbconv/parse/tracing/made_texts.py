"""Texts that a function makes: constants, those that codes or conditions choose, and dates."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    CalendarField,
    Cast,
    Choose,
    ChooseText,
    ChosenText,
    Compare,
    ConstantRows,
    JoinText,
    Node,
)
from hbconv.parse.tracing.arrays import TracedVector
from hbconv.parse.tracing.functions import truth
from hbconv.parse.tracing.labels import TracedLabels, is_text
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = ["choose_texts", "text_at", "text_node", "written_date"]


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


_FORMAT = re.compile("%.|[^%]+")
_PARTS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "%Y": ("year", tuple(map(str, range(1000, 10_000))), 1000),
    "%m": ("month", tuple(f"{n:02}" for n in range(1, 13)), 1),
    "%d": ("day", tuple(f"{n:02}" for n in range(1, 32)), 1),
    "%H": ("hour", tuple(f"{n:02}" for n in range(24)), 0),
    "%M": ("minute", tuple(f"{n:02}" for n in range(60)), 0),
    "%j": ("day_of_year", tuple(f"{n:03}" for n in range(1, 367)), 1),
    "%b": ("month", tuple(calendar.month_abbr)[1:], 1),
    "%B": ("month", tuple(calendar.month_name)[1:], 1),
    "%a": ("weekday", tuple(calendar.day_abbr), 1),
    "%A": ("weekday", tuple(calendar.day_name), 1),
}
"""Parts of formats: the field, its texts, and the number of the first of these."""


def written_date(instants: Node, date_format: str) -> Node:
    """Return dates as texts, by a format of parts whose texts are known."""
    pieces = _FORMAT.findall(date_format)
    unknown = [piece for piece in pieces if piece[0] == "%" and piece not in _PARTS]
    if unknown or "".join(pieces) != date_format or not pieces:
        refuse(f"writes dates by {date_format!r}", f"Use {' '.join(_PARTS)}.")
    return reduce(JoinText, [_written(instants, piece) for piece in pieces])


def _written(instants: Node, piece: str) -> Node:
    if piece not in _PARTS:
        return text_node(piece)
    field, texts, least = _PARTS[piece]
    number = CalendarField(instants, field)
    if field == "year":
        short = Compare.of(number, "lt", float(least))
        current_trace().checks.append((short, "A year has fewer than four digits."))
    return text_at(number, texts, least)
