"""Texts that a function makes: constants, those that codes or conditions choose, dates, numbers.

``astype(str)`` writes numbers as texts, and ``to_numeric`` reads them back as pandas does.
"""

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
    Columns,
    Compare,
    Concat,
    ConstantRows,
    EditText,
    IsMissing,
    IsOtherDtype,
    JoinText,
    Map,
    Node,
    NumberText,
    Relation,
    TextEdit,
    TextNumber,
)
from hbconv.parse.common.edited_texts import EDITS_OF_NUMBERS, text_codes
from hbconv.parse.tracing.arrays import TracedVector
from hbconv.parse.tracing.functions import truth
from hbconv.parse.tracing.labels import TracedLabels, is_text
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = [
    "TEXTS",
    "choose_texts",
    "is_of_number",
    "number_text",
    "require_edits",
    "text_at",
    "text_node",
    "to_numeric",
    "written_date",
]


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


TEXTS = (str, "str")
"""What ``astype`` is given to write values as texts."""
_EXACT = 2.0**53


def number_text(node: Node) -> Node:
    """Return the texts of a column of numbers."""
    trace = current_trace()
    if trace.kind_of(node) != "number":
        refuse(f"writes a column of {trace.kind_of(node)}s as texts", "Use .dt.strftime of dates.")
    if node.type.dtype == "bool":
        return ChosenText(Cast(node, "int32"), (None, "False", "True"))
    trace.checks.append((IsMissing(node), "A missing number is written as a text."))
    if node in trace.whole:
        return NumberText(Cast(node, "int64"))
    is_int = IsOtherDtype(node, "float")
    far = Compare.of(Map(Cast(node, "float64"), "abs"), "ge", _EXACT)
    trace.checks.append((Relation(is_int, far, "and"), "An int beyond 2**53 is written as a text."))
    below = Compare.of(Map(Cast(node, "float64"), "reciprocal"), "eq", -np.inf)
    negative = Relation(Compare.of(node, "eq", 0), below, "and")
    trace.checks.append((negative, "A zero with a sign is written as a text."))
    return NumberText(node)


def require_edits(node: Node, edits: Sequence[TextEdit]) -> None:
    """Refuse edits of the texts of numbers, behind which two numbers may have one text."""
    origin = node
    while isinstance(origin, EditText):
        origin = origin.x
    if not isinstance(origin, NumberText) or {e.name for e in edits} <= EDITS_OF_NUMBERS:
        return
    trace, numbers = current_trace(), origin.x
    if isinstance(numbers, Columns) and not trace.given.get(numbers.columns[0]):
        # No rows told that it holds numbers, so it holds texts.
        trace.learn([numbers], "text")
    refuse(
        f"edits texts of numbers by {edits[0].name}",
        "Use .str.zfill, or compute with the number.",
    )


def is_of_number(node: Node) -> bool:
    """Tell whether a text is one of a number, edited or joined."""
    if isinstance(node, EditText):
        return is_of_number(node.x)
    if isinstance(node, JoinText):
        return any(map(is_of_number, node.parts))
    return isinstance(node, NumberText)


def to_numeric(arg: Any, errors: str = "raise", downcast: Any = None) -> Any:
    """``pd.to_numeric`` of a column of texts; one of numbers stays as it is."""
    trace = current_trace()
    if downcast is not None or errors not in ("raise", "coerce"):
        refuse("reads numbers of texts with such options", "Use errors='coerce' alone.")
    if not hasattr(arg, "to_frame") or trace.kind_of(arg.node) not in ("number", "text"):
        refuse("reads numbers of this", "Give a column: pd.to_numeric(df['a']).")
    if trace.kind_of(arg.node) == "number":
        return arg
    ends = ("is_numeric", "float_high", "float_low", "float_scale")
    codes = [text_codes(arg.node, 0, {}, TextEdit(end), missing=-1) for end in ends]
    if any(code is None for code in codes):
        refuse("reads numbers of texts that are joined, or filled in part", "Read each column.")
    readable, *parts = (code for code in codes if code is not None)
    if errors == "raise":
        why = "A text that is no number is read as one."
        trace.checks.append((Compare.of(readable, "eq", 0), why))
    nothing = ConstantRows(trace.x, Array([np.nan]))
    number = TextNumber(Concat(tuple(parts)))
    return arg.like(Choose(Compare.of(readable, "eq", 1), number, nothing))
