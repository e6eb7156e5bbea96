"""The rows that LightGBM reads: numbers as floats, pandas categories as codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Beside, Cast, CategoryNumbers, Columns, Conventions, Node, Schema
from hbconv.parse.common.text_columns import are_numbers, category_codes, columns_of
from hbconv.parse.step import Step, concat

__all__ = ["read_features", "read_schema"]


def read_schema(names: Sequence[str], *, categories: bool) -> Schema:
    """Return columns found by position, whatever the names of a table.

    Arrays of ints are read as float32, and LightGBM has no spaces in names.
    """
    made_up = list(names) == [f"Column_{i}" for i in range(len(names))]
    conventions = Conventions(
        tables_only=categories, other_arrays="float32", underscored=True, names_as_text=True
    )
    return replace(
        Schema.table(names, finds="positions"), named=not made_up, conventions=conventions
    )


def read_features(step: Step, categories: Mapping[int, Sequence[Any]]) -> Node:
    """Return all features as floats."""
    runs = [
        (is_category, list(run))
        for is_category, run in groupby(range(step.x.type.width), categories.__contains__)
    ]
    return concat(
        [
            node
            for is_category, run in runs
            for node in (_codes(step, run, categories) if is_category else [_floats(step.x, run)])
        ]
    )


def _floats(x: Node, positions: list[int]) -> Node:
    """Cast ints: of a table to float64, of an array to float32.

    Another step makes an array of its input.
    """
    is_table = isinstance(x, Beside) or (
        isinstance(x, Columns) and (x.schema.named or bool(x.schema.conventions.other_arrays))
    )
    return Cast(columns_of(x, positions), "float", "float64" if is_table else "float32")


def _codes(step: Step, positions: list[int], categories: Mapping[int, Sequence[Any]]) -> list[Node]:
    return [_code(step, position, list(categories[position])) for position in positions]


def _code(step: Step, position: int, categories: list[Any]) -> Node:
    """Return the place of the value among the categories, NaN for other values."""
    numbers = are_numbers(categories)
    if numbers and not (isinstance(step.x, Columns) and step.x.schema.conventions.tables_only):
        raise step.refuse(
            "pandas_categorical",
            categories[:5],
            "Convert the LightGBM model by itself: after another step its categories could "
            "be codes.",
        )
    ordered = sorted(categories) if numbers else categories
    place_of = {value: place for place, value in enumerate(categories)}
    table = np.array([np.nan, *(place_of[value] for value in ordered)], np.float32)
    return CategoryNumbers(category_codes(step, position, ordered), (Array(table),), "float")
