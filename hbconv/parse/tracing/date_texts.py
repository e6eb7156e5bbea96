"""Dates that a function writes as texts: parts whose texts are known, one after another."""

from __future__ import annotations

import calendar
import re
from functools import reduce

from hbconv.containers import CalendarField, Compare, JoinText, Node
from hbconv.parse.tracing.made_texts import text_at, text_node
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = ["written_date"]

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
