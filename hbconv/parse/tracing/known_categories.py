"""Categories that the function knows, and what a column of them is made of."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbconv.containers import ChosenText, Node, Recode
from hbconv.parse.tracing.look_ups import look_up
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = ["CategoryColumn", "KnownCategories", "as_categories", "category_column"]
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
