"""What columns of a table hold: numbers, dates, spans or texts, and how a run finds it out."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from hbconv.containers import Add, Map, Node
from hbconv.parse.tracing.trace import Kind

__all__ = ["MAPS", "SERIES", "is_iso_date", "is_moment", "terms_of"]

SERIES: dict[Kind, Any] = {}
"""Class of series of each kind, which the modules of these add."""

MAPS: dict[str, Callable[..., Any]] = {}
"""What applies functions to cells and to rows, which ``cells`` adds."""

_ISO_DATE = re.compile(r"\d{4}-\d{2}")


def is_moment(value: Any) -> bool:
    """Tell whether a constant is a date or a span."""
    return isinstance(value, dt.datetime | dt.timedelta | np.datetime64 | np.timedelta64)


def is_iso_date(text: str) -> bool:
    """Tell whether a text begins as a date does."""
    return _ISO_DATE.match(text) is not None


def terms_of(node: Node) -> list[Node]:
    """Return a column, or both sides of a difference of two.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema
    >>> x = Columns.of(Schema.table(["a"]))
    >>> terms_of(Add((x, Map(x, "neg")))) == [x, x]
    True
    """
    if isinstance(node, Add) and len(node.xs) == 2 and isinstance(node.xs[1], Map):
        return [node.xs[0], node.xs[1].x]
    return [node]
