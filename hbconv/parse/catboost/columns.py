"""From the columns of a table to those that CatBoost's trees read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Cast,
    Codes,
    Columns,
    Compare,
    FindCode,
    HashCodes,
    Hashes,
    Node,
    Not,
    Recode,
    Select,
    WrappedLinear,
)
from hbconv.parse.catboost.combinations import Elements, combine, weights_of
from hbconv.parse.catboost.inputs import Inputs
from hbconv.parse.catboost.statistics import CATEGORY, TEST, Element
from hbconv.parse.common.text_columns import columns_of, text_column
from hbconv.parse.step import Step, concat

__all__ = ["tree_inputs"]


def tree_inputs(step: Step, inputs: Inputs) -> Node:
    """Read numbers as float32, each rounded from its own dtype, beside categories and statistics.

    Hashes of categories are columns where statistics mix them. Else the host finds the categories.
    """
    if not inputs.width:
        hint = "No tree reads a feature: the answer is one constant, which needs no model."
        raise step.refuse("cat_features", "unused by all trees", hint)
    numbers = _numbers(step, inputs)
    if not inputs.statistics:
        found = [
            Recode(_codes(step, place, Hashes(hashes)), (_code_numbers(hashes),))
            for place, hashes in inputs.categories.items()
        ]
        return concat([numbers, *found])
    return concat(
        [
            numbers,
            *(_found(step, place, hashes) for place, hashes in inputs.categories.items()),
            _statistics(step, inputs, numbers),
        ]
    )


def _numbers(step: Step, inputs: Inputs) -> Node:
    numbers = columns_of(step.x, inputs.numbers)
    return (
        replace(numbers, dtype="float32")
        if isinstance(numbers, Columns)
        else Cast(numbers, "float32")
    )


def _codes(step: Step, place: int, vocabulary: Hashes | HashCodes) -> Node:
    """Read one column of categories by the hashes of their texts."""
    column = text_column(step.x, place)
    if column is None or column.edits:
        raise step.refuse(
            "cat_features",
            place,
            "Categories are known by hashes of their texts alone: give them to CatBoost as "
            "they come.",
        )
    return Codes(column.schema, column.column, vocabulary)


def _found(step: Step, place: int, hashes: tuple[int, ...]) -> Node:
    code = FindCode(_codes(step, place, HashCodes()), (Array.of(hashes, np.int32),))
    return Recode(code, (_code_numbers(hashes),))


def _code_numbers(hashes: tuple[int, ...]) -> Array:
    """Return the codes as the tables of trees have them: 0 for unknown categories."""
    return Array(np.arange(len(hashes) + 1, dtype=np.float32))


def _statistics(step: Step, inputs: Inputs, numbers: Node) -> Node:
    """Find the code of each combination of categories, and read all statistics by these.

    1. Hash the elements of each combination, and find the hash among the known ones.
    2. The entries of a statistic for one code stand together.
    3. Outcomes of tests choose among them.
    """
    found = combine(inputs.statistics)
    operands = _ordered(inputs, found.elements)
    weights = np.zeros((len(operands), len(found.elements)), np.uint64)
    for output, elements in enumerate(found.elements):
        rows = [operands.index(element) for element in elements]
        np.add.at(weights, (rows, output), weights_of(len(elements)))
    hashed = _operands(step, inputs, numbers, operands, "int64")
    codes = FindCode(WrappedLinear(hashed, Array(weights.view(np.int64))), found.hashes)  # 1
    first = Recode(codes, tuple(Array.of(np.arange(len(h) + 1), np.int32) for h in found.hashes))
    tests = _ordered(inputs, [reading.tests for reading in found.readings])
    chosen = np.zeros((len(found.hashes) + len(tests), len(found.readings)), np.int32)
    for output, reading in enumerate(found.readings):
        chosen[reading.combination, output] = 1 << len(reading.tests)  # 2
        for bit, test in enumerate(reading.tests):
            chosen[len(found.hashes) + tests.index(test), output] += 1 << bit
    parts = [first, _operands(step, inputs, numbers, tests, "int32")] if tests else [first]
    places = WrappedLinear(concat(parts), Array(chosen))  # 3
    return Recode(places, tuple(reading.values for reading in found.readings))


def _ordered(inputs: Inputs, combinations: Sequence[Elements]) -> list[Element]:
    """Return each element once, those that are computed together side by side."""
    distinct = dict.fromkeys(e for elements in combinations for e in elements)
    return sorted(distinct, key=lambda element: _group(inputs, element))


def _group(inputs: Inputs, element: Element) -> tuple[str, bool]:
    """Say what elements have in common that are computed together."""
    return element.kind, element.kind == TEST and inputs.nan_right[element.feature]


def _operands(
    step: Step, inputs: Inputs, numbers: Node, operands: Sequence[Element], dtype: str
) -> Node:
    """Write hashes of categories, and outcomes of tests as zeros and ones."""
    found: list[Node] = []
    for (kind, nan_right), group in groupby(operands, lambda e: _group(inputs, e)):
        own = list(group)
        if kind == TEST:
            x: Node = Select(numbers, Array.of([element.feature for element in own], np.int32))
            borders = Array.of([element.value for element in own], np.float32)
            above = Not(Compare(x, "le", borders)) if nan_right else Compare(x, "gt", borders)
            found.append(above)
            continue
        hashes = concat([_codes(step, inputs.places[e.feature], HashCodes()) for e in own])
        if kind == CATEGORY:
            found.append(hashes)
        else:
            values = Array.of([element.value for element in own], np.int32)
            found.append(Compare(hashes, "eq", values))
    return concat([Cast(part, dtype) if part.type.dtype != dtype else part for part in found])
