"""Text columns: found through the containers that only move them, and read as codes of a vocabulary.

A text column never enters a program. What stands between the input and its encoder (a selection, a concatenation, an
imputer) is folded into the vocabulary by which the host encodes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeGuard

import numpy as np

from hbconv.array import Array
from hbconv.containers import Node, Schema
from hbconv.containers.columns import Codes, Columns, FillText, Vocabulary
from hbconv.containers.decide import Compare
from hbconv.containers.find_code import FindCode
from hbconv.containers.recode import Recode
from hbconv.containers.wiring import Concat, Select
from hbconv.parse.step import Step, concat, select

__all__ = ["are_numbers", "category_codes", "columns_of", "is_missing_text", "is_nan", "text_column"]

Raw = str | float | None
"""A raw text, or one of the two ways to say that it is missing."""

_NAN = float("nan")


@dataclass(frozen=True)
class TextColumn:
    """A column of the input, and the (missing values, replacement) of the imputers it passed, in order."""

    schema: Schema
    column: int
    fills: tuple[tuple[tuple[Raw, ...], str], ...] = ()

    @property
    def markers(self) -> tuple[str, ...]:
        """Texts that an imputer replaces."""
        return tuple(m for missing, _ in self.fills for m in missing if isinstance(m, str))

    def filled(self, value: Raw) -> Raw:
        """Return the (canonical) value as the encoder sees it."""
        for missing, fill in self.fills:
            value = fill if value in map(_canonical, missing) else value
        return value


def text_column(x: Node, position: int) -> TextColumn | None:
    """Follow one column of x back to the input; None where it was computed on the way."""
    x, position = _origin(x, position)
    if isinstance(x, Columns):
        return TextColumn(x.schema, x.columns[position])
    if not isinstance(x, FillText):
        return None
    found = text_column(x.x, position)
    return found and TextColumn(found.schema, found.column, (*found.fills, (x.missing, x.fill[position])))


def category_codes(step: Step, position: int, categories: Any) -> Node:
    """Code of one column of the step's input: the position of its value among the categories, -1 for others."""
    values = np.asarray(categories)
    known = {type(v) for v in values.tolist() if v is not None and not is_nan(v)}
    if are_numbers(values):
        return FindCode(columns_of(step.x, [position]), Array(_numbers(step, position, values)))
    if values.dtype.kind in "OU" and known <= {str, np.str_}:
        return _text_codes(step, position, [v if v is None or is_nan(v) else str(v) for v in values.tolist()])
    raise step.refuse("categories_", sorted(t.__name__ for t in known), f"Column {position} must hold texts alone or numbers alone.")


def are_numbers(categories: Any) -> bool:
    """Whether the categories of a column are numbers, also where the source holds them as objects."""
    values = np.asarray(categories)
    known = [v for v in values.tolist() if v is not None and not is_nan(v)] if values.dtype.kind == "O" else []
    return values.dtype.kind in "biuf" or (bool(known) and all(isinstance(v, int | float | np.number) for v in known))


def columns_of(x: Node, positions: Sequence[int]) -> Node:
    """Columns of x, each followed back as far as it was only moved: texts may stand beside it on the way."""
    runs = groupby((_origin(x, j) for j in positions), key=itemgetter(0))
    return concat([select(made, [position for _, position in run]) for made, run in runs])


def is_missing_text(step: Step, position: int, missing: tuple[Raw, ...]) -> Node:
    """Whether one text column of the step's input is missing: bool."""
    return Compare.of(_text_codes(step, position, list(missing)), "ge", 0)


def is_nan(value: object) -> TypeGuard[float]:
    """Whether a value of any type is NaN."""
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _text_codes(step: Step, position: int, categories: list[Raw]) -> Node:
    """Codes of the raw texts, which become the categories' codes directly, or through a table where imputers moved them."""
    column = text_column(step.x, position)
    if column is None:
        raise step.refuse("categories_", "text", f"Column {position} is computed from numbers, yet text was seen when fitting. Convert the input's columns.")
    position_of = {_canonical(category): i for i, category in enumerate(categories)}
    values = tuple(dict.fromkeys([*(v for v in categories if isinstance(v, str)), *column.markers]))
    codes = [position_of.get(column.filled(v), -1) for v in values]
    none, nan = (position_of.get(column.filled(v), -1) for v in (None, _NAN))
    if codes == list(range(len(values))):
        return Codes(column.schema, column.column, Vocabulary(values, none, nan))
    raw = Codes(column.schema, column.column, Vocabulary(values, len(values), len(values) + 1))
    return Recode(raw, (Array(np.array([-1, *codes, none, nan], dtype=np.int32)),))


def _numbers(step: Step, position: int, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Categories that are numbers, also where the source holds them as objects."""
    if values.dtype.kind != "O":
        return values
    if any(v is None for v in values):
        raise step.refuse("categories_", None, f"Column {position} mixes numbers with None. Use NaN for missing numbers.")
    exact = np.array(values.tolist())
    if exact.dtype.kind not in "biuf" or any(a != b and not is_nan(b) for a, b in zip(exact.tolist(), values.tolist(), strict=True)):
        raise step.refuse("categories_", values.tolist()[:3], f"Column {position} holds numbers too large to compare exactly.")
    if np.any(np.diff(exact[~np.isnan(exact)]) <= 0):
        raise step.refuse("categories", values.tolist()[:3], f"Column {position} must list its numbers in ascending order.")
    return exact


def _canonical(value: Raw) -> Raw:
    """Make every NaN the same one, so that it equals itself."""
    return _NAN if is_nan(value) else value


def _origin(x: Node, position: int) -> tuple[Node, int]:
    """Node that made a column, behind the selections and concatenations, and the column's place in it."""
    if isinstance(x, Select):
        return _origin(x.x, int(x.indices[position]))
    if not isinstance(x, Concat):
        return x, position
    ends = np.cumsum([part.type.width for part in x.xs])
    owner = int(np.searchsorted(ends, position, side="right"))
    return _origin(x.xs[owner], position - int(ends[owner]) + x.xs[owner].type.width)
