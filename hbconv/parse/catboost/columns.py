"""From the columns of a table to those that CatBoost's trees read, and the splits on them.

Most statistics are about some categories and the outcomes of a few tests of other columns. CatBoost
hashes all of these together, again for each statistic. A hash is a sum of multiples by odd numbers,
modulo 2**64, so it can be taken apart again. So categories get a code, which is found once, and the
outcomes choose among the values that a statistic has for that code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
    current_step,
)
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.catboost.statistics import (
    CATEGORY,
    ONE,
    TEST,
    Element,
    Statistic,
    read_statistics,
    require_ascending,
)
from hbconv.parse.common.text_columns import columns_of, text_column
from hbconv.parse.step import Step, concat

__all__ = ["ONE_HOT", "TOLD", "Inputs", "tree_inputs"]


def tree_inputs(step: Step, inputs: Inputs) -> Node:
    """Read numbers as float32, each rounded from its own dtype, beside categories and statistics.

    Hashes of categories are columns where statistics mix them. Else the host finds the categories.
    """
    if not inputs.width:
        hint = "No tree reads a feature: the answer is one constant, which needs no model."
        raise step.refuse("cat_features", "unused by all trees", hint)
    numbers = _numbers(step, inputs)
    # Without statistics nothing mixes hashes, so the host may find the codes of the texts.
    if not inputs.statistics:
        categories = [
            Recode(_codes(step, place, Hashes(hashes)), (_code_numbers(hashes),))
            for place, hashes in inputs.categories.items()
        ]
        return concat([numbers, *categories])
    return concat(
        [
            numbers,
            *(_find_code(step, place, hashes) for place, hashes in inputs.categories.items()),
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
    # Replacing texts needs a vocabulary of texts, and here only their hashes are known.
    if column is None or column.edits:
        raise step.refuse(
            "cat_features",
            place,
            "Categories are known by hashes of their texts alone: give them to CatBoost as "
            "they come.",
        )
    return Codes(column.schema, column.column, vocabulary)


def _find_code(step: Step, place: int, hashes: tuple[int, ...]) -> Node:
    code = FindCode(_codes(step, place, HashCodes()), (Array.of(hashes, np.int32),))
    return Recode(code, (_code_numbers(hashes),))


def _code_numbers(hashes: tuple[int, ...]) -> Array:
    """Return the codes as the tables of trees have them: 0 for unknown categories."""
    # float32, since the codes are columns next to the numbers that trees compare.
    return Array(np.arange(len(hashes) + 1, dtype=np.float32))


def _statistics(step: Step, inputs: Inputs, numbers: Node) -> Node:
    """Find the code of each combination of categories, and read all statistics by these.

    1. Hash the elements of each combination, and find the hash among the known ones.
    2. The entries of a statistic for one code are consecutive.
    3. Outcomes of tests choose among them.
    """
    combinations = combine(inputs.statistics)
    operands = _list_elements(inputs, combinations.elements)
    weights = np.zeros((len(operands), len(combinations.elements)), np.uint64)
    for output, elements in enumerate(combinations.elements):
        rows = [operands.index(element) for element in elements]
        # An element may be in a combination twice: its weights must add up.
        np.add.at(weights, (rows, output), weights_of(len(elements)))
    hashed = _operands(step, inputs, numbers, operands, "int64")
    # int64 wraps as uint64 does, so one product computes all hashes modulo 2**64.
    codes = FindCode(WrappedLinear(hashed, Array(weights.view(np.int64))), combinations.hashes)  # 1
    first = Recode(
        codes, tuple(Array.of(np.arange(len(h) + 1), np.int32) for h in combinations.hashes)
    )
    tests = _list_elements(inputs, [reading.tests for reading in combinations.readings])
    chosen = np.zeros((len(combinations.hashes) + len(tests), len(combinations.readings)), np.int32)
    for output, reading in enumerate(combinations.readings):
        # The scale of a code is a weight: a selection before FindCode
        # would have it search once per statistic.
        chosen[reading.combination, output] = 1 << len(reading.tests)  # 2
        # Each outcome of a test is a bit below the code, so a sum is the place of an entry.
        for bit, test in enumerate(reading.tests):
            chosen[len(combinations.hashes) + tests.index(test), output] += 1 << bit
    parts = [first, _operands(step, inputs, numbers, tests, "int32")] if tests else [first]
    places = WrappedLinear(concat(parts), Array(chosen))  # 3
    return Recode(places, tuple(reading.values for reading in combinations.readings))


def _list_elements(inputs: Inputs, combinations: Sequence[Elements]) -> list[Element]:
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
    parts: list[Node] = []
    for (kind, nan_right), group in groupby(operands, lambda e: _group(inputs, e)):
        elements = list(group)
        if kind == TEST:
            x: Node = Select(numbers, Array.of([element.feature for element in elements], np.int32))
            borders = Array.of([element.value for element in elements], np.float32)
            above = Not(Compare(x, "le", borders)) if nan_right else Compare(x, "gt", borders)
            parts.append(above)
            continue
        hashes = concat([_codes(step, inputs.places[e.feature], HashCodes()) for e in elements])
        if kind == CATEGORY:
            parts.append(hashes)
        else:
            values = Array.of([element.value for element in elements], np.int32)
            parts.append(Compare(hashes, "eq", values))
    return concat([Cast(part, dtype) if part.type.dtype != dtype else part for part in parts])


MULTIPLIER = 0x4906BA494954CB65
"""Hashes are mixed by ``h = m * (h + m * next)``, modulo 2**64."""
# The multiplier is odd, so it has an inverse modulo 2**64, and hashes can be taken apart.
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
# A code has 2**3 entries at most. The bound was not tuned.
MOST_TESTS = 3
"""Tests of which a code of categories is multiplied by all outcomes."""

Words = npt.NDArray[np.uint64]
Elements = tuple[Element, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """How a statistic is read: ``values[1 + (code + 1) * 2**len(tests) + outcomes]``.

    Parameters
    ----------
    combination : int
        What the code is of.
    tests : tuple of Element
        The outcome of the first is the lowest bit.
    values : Array of float32
    """

    combination: int
    tests: Elements
    values: Array


@dataclass(frozen=True, eq=False)
class Combinations:
    """What is hashed, the known hashes of each, ascending, and how each statistic is read."""

    elements: tuple[Elements, ...]
    hashes: tuple[Array, ...]
    readings: tuple[Reading, ...]


def combine(statistics: Sequence[Statistic]) -> Combinations:
    """Share the codes of categories among statistics.

    A statistic shares them if the categories that are known explain each hash of its table. Others
    are read by the hash of all their elements.

    A row of unknown categories whose hash is that of other categories with other outcomes, one of
    2**64, may be read as unknown.
    """
    tables = _tables(statistics)
    seen_in_training = _known_categories(tables)
    read_by = {e: _read_by(e, table, seen_in_training) for e, table in tables.items()}
    hashes = {
        by: seen_in_training[by] if by in seen_in_training else tables[by]
        for by in dict.fromkeys(read_by.values())
    }
    # FindCode compares as int64, so the order is that of signed numbers.
    ascending = {by: np.sort(words.view(np.int64)) for by, words in hashes.items()}
    order = list(ascending)
    readings = [
        _lay_out_reading(s, order.index(by), ascending[by], s.elements[len(by) :])
        for s, by in ((s, read_by[s.elements]) for s in statistics)
    ]
    return Combinations(tuple(order), tuple(map(Array, ascending.values())), tuple(readings))


def weights_of(count: int) -> Words:
    """Return what each of several elements is multiplied by: the last by the square."""
    # h = m * (h + m * next), unrolled: the last element is
    # multiplied by m**2, the one before by m**3.
    return np.array([_power(power) for power in range(count + 1, 1, -1)], np.uint64)


def _power(power: int) -> np.uint64:
    return np.uint64(pow(MULTIPLIER if power >= 0 else INVERSE, abs(power), 1 << 64))


def _tables(statistics: Sequence[Statistic]) -> dict[Elements, Words]:
    """Return all hashes that tables of the same elements hold, of each kind of statistic."""
    hashes: dict[Elements, list[Words]] = {}
    for statistic in statistics:
        hashes.setdefault(statistic.elements, []).append(statistic.hashes.data.view(np.uint64))
    return {elements: np.unique(np.concatenate(parts)) for elements, parts in hashes.items()}


def _known_categories(tables: Mapping[Elements, Words]) -> dict[Elements, Words]:
    """Return the hashes of the categories alone that were seen in training.

    A table without tests holds them. Else each of them is in all tables of these categories, and
    few others are: each outcome of a test suggests other categories, of which one is right.
    """
    # Measured with tables that all have tests: 1,300 codes for 50
    # categories, and 18 ms where 12 are enough.
    suggested: dict[Elements, Words] = {}
    # Short ones first: a table without tests settles its
    # categories, and all others of them are skipped.
    for elements in sorted(tables, key=len):
        categories = _categories(elements)
        tests = len(elements) - len(categories)
        if not categories or tests > MOST_TESTS or categories in tables.keys() & suggested.keys():
            continue
        # Take each outcome of the tests off the hash, and undo the multiplications of the tests.
        candidates = np.unique((tables[elements][:, None] - _outcomes(tests)) * _power(-tests))
        # A false category must be suggested by every table. Two
        # tables with tests may still agree on some.
        suggested[categories] = np.intersect1d(suggested.get(categories, candidates), candidates)
    return suggested


def _read_by(
    elements: Elements, table: Words, seen_in_training: Mapping[Elements, Words]
) -> Elements:
    """Return the elements whose code a statistic is read by."""
    categories = _categories(elements)
    tests = len(elements) - len(categories)
    if not categories or tests > MOST_TESTS:
        return elements
    # Refuse the shortcut unless it explains the whole table:
    # otherwise known rows would be read as unknown.
    explained = np.isin(table, _mix_outcomes(seen_in_training[categories], tests))
    return categories if explained.all() else elements


def _categories(elements: Elements) -> Elements:
    return tuple(element for element in elements if element.kind == CATEGORY)


def _outcomes(tests: int) -> Words:
    """Return what the outcomes of tests add to a hash: (2**tests,); the first is the lowest bit."""
    bits = np.arange(1 << tests)[:, None] >> np.arange(tests) & 1
    added: Words = (bits.astype(np.uint64) * weights_of(tests)).sum(axis=1, dtype=np.uint64)
    return added


def _mix_outcomes(categories: Words, tests: int) -> Words:
    """Return the hashes of categories with all outcomes of tests: (n, 2**tests)."""
    hashes: Words = categories[:, None] * _power(tests) + _outcomes(tests)
    return hashes


def _lay_out_reading(
    statistic: Statistic, combination: int, hashes: npt.NDArray[np.int64], tests: Elements
) -> Reading:
    """Lay out the values of a statistic by code and outcomes; the code -1 knows none.

    Look-ups have a first entry for unknown places, which there are none of.
    """
    mixed = _mix_outcomes(hashes.view(np.uint64), len(tests)).view(np.int64)
    held = statistic.hashes.data
    # A hash beyond the last one has no place in the table: look at the last, which differs.
    place = np.minimum(np.searchsorted(held, mixed), max(len(held) - 1, 0))
    entry = np.where(held[place] == mixed, place + 1, 0) if len(held) else np.zeros_like(place)
    # Entry 0 is the value of no category: for code -1 with each
    # outcome, and for places that cannot occur.
    unknown = np.zeros(1 + entry.shape[1], np.intp)
    values = statistic.values.data[np.concatenate([unknown, entry.ravel()])]
    return Reading(combination, tests, Array(values))


class Split(NamedTuple):
    """A test of one column.

    Parameters
    ----------
    kind : str
    named : int
        What a tree names next to the kind: a feature of numbers or categories by its number among
        these, or for a statistic the class whose share it is.
    value : float
        The border, or the hash of the category.
    column : int
    """

    kind: str
    named: int
    value: float
    column: int


NUMBER, ONE_HOT, STATISTIC = "FloatFeature", "OneHotFeature", "OnlineCtr"
TOLD: Mapping[str, tuple[str, str]] = {
    NUMBER: ("float_feature_index", "border"),
    ONE_HOT: ("cat_feature_index", "value"),
    STATISTIC: ("ctr_target_border_idx", "border"),
}
"""Keys under which a tree has the two numbers of a split, by its kind."""
SPLITS: Mapping[str, str] = {TEST: NUMBER, ONE: ONE_HOT}
"""Kind of the split that an element of a statistic is the outcome of."""


@dataclass(frozen=True)
class Inputs:
    """The columns that trees read: numbers, categories that some split knows, then statistics.

    Parameters
    ----------
    names : tuple of str
        Of all features, as the model was fitted; empty texts where they have no names.
    numbers : tuple of int
        Place of each numeric feature among all.
    nan_right : tuple of bool
        Whether NaN in it is larger than all numbers; else it is smaller.
    categories : mapping of int to tuple of int
        Place of a feature of categories among all, and the hashes that tests know, ascending.
    places : tuple of int
        Place of each feature of categories among all.
    statistics : tuple of Statistic
    splits : tuple of Split
        Those that CatBoost knows by their numbers.
    """

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    nan_right: tuple[bool, ...]
    categories: Mapping[int, tuple[int, ...]]
    places: tuple[int, ...]
    statistics: tuple[Statistic, ...]
    splits: tuple[Split, ...]

    @staticmethod
    def of(features: Mapping[str, Any], tables: Mapping[str, Any] | None) -> Inputs:
        """Read ``features_info`` and ``ctr_data``."""
        numeric = features.get("float_features") or ()
        listed = features.get("categorical_features") or ()
        _require_once("flat_feature_index", (*numeric, *listed))
        _require_once("feature_index", numeric)
        _require_once("feature_index", listed)
        names = {
            int(f["flat_feature_index"]): str(f.get("feature_id", "")) for f in (*numeric, *listed)
        }
        # Positions in the table of the user are lost where features were dropped from the file.
        if sorted(names) != list(range(len(names))) or [
            f["feature_index"] for f in numeric
        ] != list(range(len(numeric))):
            hint = (
                "The model lacks features that it was fitted on. Convert the model as it was "
                "before drop_unused_features."
            )
            raise UnsupportedError(
                "CatBoost", current_step(), "feature_names_", sorted(names)[:9], hint
            )
        used = [f for f in listed if f.get("values")]
        statistics = read_statistics(features, tables)
        splits = tuple(_list_splits(numeric, used, statistics))
        _require_known(statistics, splits, len(listed))
        return Inputs(
            tuple(names[i] for i in range(len(names))),
            tuple(int(f["flat_feature_index"]) for f in numeric),
            # AsTrue: NaN passes "above the border", as a number larger than all.
            tuple(f["nan_value_treatment"] == "AsTrue" for f in numeric),
            {
                int(f["flat_feature_index"]): tuple(sorted({int(v) for v in f["values"]}))
                for f in used
            },
            tuple(int(f["flat_feature_index"]) for f in listed),
            statistics,
            splits,
        )

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return len(self.numbers) + len(self.categories) + len(self.statistics)

    @property
    def features(self) -> tuple[tuple[int, ...], ...]:
        """Return the features that each column is of: a statistic is of its categories alone."""
        of_statistics = (
            {self.places[e.feature] for e in statistic.elements if e.kind == CATEGORY}
            for statistic in self.statistics
        )
        alone = ((place,) for place in (*self.numbers, *self.categories))
        return (*alone, *(tuple(sorted(places)) for places in of_statistics))

    @property
    def shared(self) -> tuple[tuple[int, ...], ...]:
        """Return the sets of several features that columns are of, each once."""
        return tuple(dict.fromkeys(places for places in self.features if len(places) > 1))


def _require_once(key: str, features: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a file in which two features have one place: its library reads one of them."""
    ((place, count),) = Counter(int(f[key]) for f in features).most_common(1) or [(0, 1)]
    if count > 1:
        raise ValueError(f"{count} features have {key} {place}")


def _list_splits(
    numeric: Sequence[Mapping[str, Any]],
    used: Sequence[Mapping[str, Any]],
    statistics: Sequence[Statistic],
) -> Iterator[Split]:
    """List the splits as CatBoost numbers them; the borders of a feature must ascend."""
    for column, feature in enumerate(numeric):
        borders = feature.get("borders") or ()
        require_ascending(borders, f"feature {feature['feature_index']}")
        yield from (Split(NUMBER, feature["feature_index"], border, column) for border in borders)
    for column, feature in enumerate(used, len(numeric)):
        if len(set(feature["values"])) != len(feature["values"]):
            raise ConversionError(
                "The CatBoost model is damaged: the values of category feature "
                f"{feature['feature_index']} hold one twice."
            )
        yield from (
            Split(ONE_HOT, feature["feature_index"], value, column) for value in feature["values"]
        )
    for column, statistic in enumerate(statistics, len(numeric) + len(used)):
        yield from (
            Split(STATISTIC, statistic.target, border, column) for border in statistic.borders
        )


def _require_known(
    statistics: Sequence[Statistic], splits: Sequence[Split], categories: int
) -> None:
    """Refuse statistics of features, borders and categories that the model does not list."""
    listed = {split[:3] for split in splits}
    for element in {e for statistic in statistics for e in statistic.elements}:
        if element.kind == CATEGORY:
            is_known = type(element.feature) is int and 0 <= element.feature < categories
        else:
            is_known = (SPLITS[element.kind], element.feature, element.value) in listed
        if not is_known:
            raise ConversionError(
                f"The CatBoost model is damaged: a statistic is about {element.kind} "
                f"{element.feature!r:.20} {'' if element.value is None else element.value!r:.20}, "
                "which its features do not list."
            )
