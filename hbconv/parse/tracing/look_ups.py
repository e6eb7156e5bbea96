"""Values of a column found among constants of the function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Cast, ChosenText, FindCode, Node, Recode
from hbconv.parse.common.members import is_frame
from hbconv.parse.common.text_columns import category_codes
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = ["codes_among", "look_up"]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def codes_among(node: Node, values: Sequence[Any]) -> Node:
    """Return the place of each value of a column among constants, -1 for others."""
    step = current_trace().step
    present = [v for v in values if v == v and v is not None]
    if len(present) < len(values):
        refuse("looks for missing values", "Use isna().")
    if any(map(_is_text, present)):
        if not is_frame(step.x):
            refuse("looks among texts in an array", "Use a frame, whose columns have names.")
        if not all(map(_is_text, present)):
            refuse("looks among texts and numbers", "Use values of one type.")
        texts = np.empty(len(present), object)
        texts[:] = present
        return category_codes(replace(step, x=node), 0, texts)
    order = np.argsort(np.asarray(present, np.float64), kind="stable")
    places = FindCode(Cast(node, "float64"), (Array(np.asarray(present, np.float64)[order]),))
    return Recode(places, (Array(np.concatenate([[-1], order]).astype(np.int32)),))


def look_up(node: Node, table: Mapping[Any, Any], default: Sequence[float]) -> Node:
    """Return what a dict holds for each value: a number or a text, and NaN for others."""
    if not isinstance(table, dict) or not table:
        refuse("looks up in what is no dict of constants", "Use a dict.")
    if all(map(_is_text, table.values())):
        return ChosenText(codes_among(node, list(table)), (None, *table.values()))
    if any(map(_is_text, table.values())):
        refuse("looks up numbers and texts", "Use a dict of either.")
    numbers = np.array([*default, *(float(v) for v in table.values())], np.float64)
    return Recode(codes_among(node, list(table)), (Array(numbers),))
