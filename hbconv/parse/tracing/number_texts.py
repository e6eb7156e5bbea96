"""Texts of numbers, as ``astype(str)`` writes them, and numbers of texts as pandas reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Cast,
    Choose,
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
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = ["TEXTS", "is_of_number", "number_text", "require_edits", "to_numeric"]

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
