"""Constants among which values of a column are found: those of a dict, and known categories."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Cast, ChosenText, FindCode, Node, Recode
from hbconv.parse.common.members import is_frame
from hbconv.parse.common.text_columns import category_codes
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = [
    "CategoryColumn",
    "KnownCategories",
    "as_categories",
    "category_column",
    "codes_among",
    "look_up",
]


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


__all__ += ["known_categories"]


@dataclass(frozen=True)
class KnownCategories:
    """The double of ``pd.CategoricalDtype``: all texts, or all numbers.

    Parameters
    ----------
    values : tuple of str or of numbers
    ordered : bool or None
    """

    values: tuple[Any, ...]
    ordered: Any = False

    @property
    def categories(self) -> Any:
        """The categories as an index."""
        return sys.modules["pandas"].Index(list(self.values))


@dataclass(frozen=True)
class CategoryColumn:
    """Categories of a column, and their places in each row: -1 where the value is none of them."""

    known: KnownCategories
    codes: Node


def known_categories(categories: Any = None, ordered: Any = False) -> KnownCategories:
    """Return categories that the function gives, or those of a ``CategoricalDtype``."""
    if categories is None:
        refuse("finds the categories in the rows", "Give them: pd.CategoricalDtype([...]).")
    listed = categories.tolist() if hasattr(categories, "tolist") else list(categories)
    are_texts = all(isinstance(value, str) for value in listed)
    are_numbers = all(type(value) in (int, float) and value == value for value in listed)
    if not listed or not (are_texts or are_numbers) or len(set(listed)) < len(listed):
        refuse("uses categories that are not all texts, or all numbers", "Give a list of either.")
    return KnownCategories(tuple(listed), ordered)


def category_column(node: Node, known: KnownCategories) -> Node:
    """Return a column as categories: a value that is none of them is missing."""
    made = look_up(node, {value: value for value in known.values}, [np.nan])
    return as_categories(made, known.values, known.ordered)


def as_categories(node: Node, values: Sequence[Any], ordered: Any = False) -> Node:
    """Return a column of values at places of a table, of which the trace knows that it is such."""
    codes = node.x if isinstance(node, ChosenText) else None
    codes = node.codes if isinstance(node, Recode) else codes
    if codes is not None:
        known = KnownCategories(tuple(values), ordered)
        current_trace().categories[node] = CategoryColumn(known, codes)
    return node
