"""Columns of categories and of bools as the numbers by which YDF knows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Cast,
    Choose,
    Codes,
    Columns,
    Compare,
    ConstantRows,
    IsOutside,
    Map,
    Node,
    Not,
    Recode,
    Relation,
    Schema,
    Vocabulary,
)
from hbconv.parse.step import Step

__all__ = ["category_numbers", "schema_of", "truths"]


def schema_of(step: Step) -> Schema:
    """Return the columns of the table that the model reads."""
    if not isinstance(step.x, Columns):
        raise step.refuse(None, None, "A model of YDF reads a table, not what a step makes of it.")
    return step.x.schema


def category_numbers(step: Step, place: int, column: Any) -> Node:
    """Return the number of each item as float32."""
    if column.categorical.is_already_integerized:
        return _own_numbers(step, place, int(column.categorical.number_of_unique_values))
    return _items(step, place, column)


def _items(step: Step, place: int, column: Any) -> Node:
    """Find texts in the dictionary; YDF takes whole numbers and bools for their text.

    The empty text is missing, as None and NaN are.
    """
    size = int(column.categorical.number_of_unique_values)
    texts = {int(entry.index): str(text) for text, entry in column.categorical.items.items()}
    if sorted(texts) != list(range(size)):
        raise step.damaged(f"the dictionary of {column.name!r} does not number {size} items")
    missing = size - 1
    values = (*(texts[item] for item in range(1, size)), "")
    known = Vocabulary(values, missing, missing, missing, spelled=True)
    codes = Codes(schema_of(step), place, known)
    return Recode(codes, (Array(np.arange(size + 1, dtype=np.float32)),))


def _own_numbers(step: Step, place: int, size: int) -> Node:
    """Take numbers as they are, and -1 for missing.

    YDF reads past the end of its sets at a number that it did not see in training, so no answer to
    such a row is right.
    """
    x = _whole(step, place)
    message = f"{_named(step, place)} holds a category below -1 or above {size - 1}."
    step.check(IsOutside(x, _single(-1.0), _single(size - 1.0)), message)
    missing = ConstantRows(x, _single(float(size)))
    return Cast(Choose(Compare.of(x, "eq", -1.0), missing, x), "float32")


def truths(step: Step, places: list[int]) -> Node:
    """Return bools as 0 and 1, in float32; refuse other numbers."""
    for place in places:
        x = _whole(step, place)
        message = f"{_named(step, place)} holds numbers other than 0 and 1. Give bools."
        step.check(IsOutside(x, _single(0.0), _single(1.0)), message)
    return Columns(schema_of(step), Array.of(places, np.int32), "float32")


def _whole(step: Step, place: int) -> Node:
    """Return a column as float64, and refuse numbers with a fraction, and missing ones."""
    x = Columns(schema_of(step), Array.of([place], np.int32), "float64")
    message = f"{_named(step, place)} holds a number that is not whole, or a missing one."
    step.check(Not(Relation(x, Map(x, "floor"), "eq")), message)
    return x


def _named(step: Step, place: int) -> str:
    return f"Column {schema_of(step).columns[place].name!r} (step {step.where!r})"


def _single(value: float) -> Array:
    return Array(np.array([value]))
