"""The columns that the trees of a YDF model read, made from the input by its data specification.

A number is compared as float32. A category is the number of its item: 0 for one out of the
dictionary, and the number of items for a missing one. Oblique splits compare weighted sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Choose,
    Codes,
    Columns,
    Compare,
    ConstantRows,
    Impute,
    IsMissing,
    IsOutside,
    Map,
    Node,
    Not,
    Recode,
    Relation,
    Schema,
    Vocabulary,
)
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.step import Step, concat, select

__all__ = ["TreeColumns", "least_factor", "read_columns"]

NUMBERS = ("NUMERICAL", "DISCRETIZED_NUMERICAL")
KINDS = (*NUMBERS, "BOOLEAN", "CATEGORICAL")

_WIDE = {"DTYPE_FLOAT64": "float64", "DTYPE_INT64": "int64"}
"""Dtypes of numbers in training that float32 does not hold."""

_Key = tuple[Any, ...]


def read_columns(model: Any) -> Schema:
    """Return the features of a model, which YDF finds by name, with dtypes as in training."""
    features = model.input_features()
    columns = model.data_spec().columns
    dtypes = [_dtype(columns[feature.column_idx], feature) for feature in features]
    return Schema.table([str(feature.name) for feature in features]).with_dtypes(dtypes)


def _dtype(column: Any, feature: Any) -> str:
    if feature.semantic.name in NUMBERS:
        dtype = column.DESCRIPTOR.fields_by_name["dtype"].enum_type.values_by_number[column.dtype]
        return _WIDE.get(dtype.name, "float32")
    # Integerized categories are numbers of the user's own; all others are known by their text.
    is_text = (
        feature.semantic.name == "CATEGORICAL" and not column.categorical.is_already_integerized
    )
    return "string" if is_text else "int64"


@dataclass(frozen=True)
class TreeColumns:
    """Collect the columns that conditions ask for; each is numbered as it is first asked for.

    Parameters
    ----------
    step : Step
    columns : sequence of protobuf Column
        All columns of the data specification.
    features : dict of int to (int, str)
        Place in the input, and kind, of each feature by its number in the specification.
    asked : dict of tuple to int
        Numbers of the columns asked for.
    """

    step: Step
    columns: Any
    features: dict[int, tuple[int, str]]
    asked: dict[_Key, int] = field(default_factory=dict)

    @staticmethod
    def of(step: Step) -> TreeColumns:
        """Start without columns."""
        features = {
            feature.column_idx: (place, str(feature.semantic.name))
            for place, feature in enumerate(step.estimator.input_features())
        }
        columns = TreeColumns(step, step.estimator.data_spec().columns, features)
        for attribute, (_, kind) in features.items():
            if kind not in KINDS:
                hint = f"hbconv handles {', '.join(KINDS)}."
                raise columns.refuse("features", f"{columns.name(attribute)}: {kind}", hint)
        return columns

    def refuse(self, parameter: str, value: object, hint: str) -> UnsupportedError:
        """Return the error that refuses a part of the model; the caller raises it."""
        return self.step.refuse(parameter, value, hint)

    def damaged(self, what: str) -> ConversionError:
        """Return the error for a model that contradicts itself; the caller raises it."""
        return self.step.damaged(what)

    def name(self, attribute: int) -> str:
        """Return the name of a column of the specification."""
        return str(self.columns[attribute].name)

    def kind(self, attribute: int) -> str:
        """Return the kind of a feature."""
        if attribute not in self.features:
            raise self.damaged(f"a split reads {self.name(attribute)!r}, which is no feature")
        return self.features[attribute][1]

    def mean(self, attribute: int) -> np.float32:
        """Return what stands for a missing number in a sum."""
        return np.float32(self.columns[attribute].numerical.mean)

    def boundaries(self, attribute: int) -> npt.NDArray[np.float32]:
        """Return the boundaries of a discretized column."""
        return np.array(self.columns[attribute].discretized_numerical.boundaries, np.float32)

    def n_categories(self, attribute: int) -> int:
        """Return the number of items of a column of categories, with the one for others."""
        return int(self.columns[attribute].categorical.number_of_unique_values)

    def number(self, attribute: int) -> int:
        """Ask for a number."""
        return self._ask("number", attribute, *NUMBERS)

    def flag(self, attribute: int) -> int:
        """Ask whether a number is missing."""
        return self._ask("flag", attribute, *NUMBERS)

    def truth(self, attribute: int) -> int:
        """Ask for a bool, as 0 and 1."""
        return self._ask("truth", attribute, "BOOLEAN")

    def category(self, attribute: int) -> int:
        """Ask for the number of a category."""
        return self._ask("category", attribute, "CATEGORICAL")

    def projection(self, attributes: tuple[int, ...], weights: tuple[float, ...]) -> int:
        """Ask for a weighted sum of numbers."""
        places = tuple(self._place(attribute, "NUMERICAL") for attribute in attributes)
        return self.asked.setdefault(("projection", attributes, places, weights), len(self.asked))

    def _ask(self, what: str, attribute: int, *kinds: str) -> int:
        key = (what, attribute, self._place(attribute, *kinds))
        return self.asked.setdefault(key, len(self.asked))

    def _place(self, attribute: int, *kinds: str) -> int:
        if self.kind(attribute) not in kinds:
            what = f"a split reads {self.name(attribute)!r} of kind {self.kind(attribute)}"
            raise self.damaged(f"{what} as {kinds[0]}")
        return self.features[attribute][0]

    def side_by_side(self) -> tuple[Node, npt.NDArray[np.int64]]:
        """Return the columns asked for in one node of float32, and the place of each number.

        Trees that are single leaves ask for none, so one column gives the number of rows.
        """
        if not self.asked:
            attribute, (_, kind) = next(iter(self.features.items()))
            {"BOOLEAN": self.truth, "CATEGORICAL": self.category}.get(kind, self.number)(attribute)
        # Columns of one kind are made together, so they leave the
        # order in which they were asked for.
        keys = [[key for key in self.asked if key[0] == what] for what in _MAKERS]
        parts = [
            _MAKERS[what](self, of_kind)
            for what, of_kind in zip(_MAKERS, keys, strict=True)
            if of_kind
        ]
        order = [self.asked[key] for of_kind in keys for key in of_kind]
        places = np.zeros(len(order), np.int64)
        # The inverse of the order: where the column of each number stands now.
        places[order] = np.arange(len(order))
        return concat(parts), places

    def values(self, places: list[int]) -> Node:
        """Return columns of the input, each converted from its own dtype to float32."""
        return Columns(schema_of(self.step), Array.of(places, np.int32), "float32")


def _numbers(columns: TreeColumns, keys: list[_Key]) -> Node:
    return columns.values([place for _, _, place in keys])


def _flags(columns: TreeColumns, keys: list[_Key]) -> Node:
    return Cast(IsMissing(_numbers(columns, keys)), "float32")


def _truths(columns: TreeColumns, keys: list[_Key]) -> Node:
    return truths(columns.step, [place for _, _, place in keys])


def _categories(columns: TreeColumns, keys: list[_Key]) -> Node:
    return concat(
        [
            category_numbers(columns.step, place, columns.columns[attribute])
            for _, attribute, place in keys
        ]
    )


def _projections(columns: TreeColumns, keys: list[_Key]) -> Node:
    # A sum replaces missing numbers by the mean; each column is filled once for all sums.
    means = {
        place: columns.mean(attribute)
        for _, attributes, places, _ in keys
        for attribute, place in zip(attributes, places, strict=True)
    }
    used = sorted(means)
    fill = Array.of([means[place] for place in used], np.float32)
    terms = [(np.searchsorted(used, list(of_sum)), weights) for _, _, of_sum, weights in keys]
    return project(columns.values(used), fill, terms)


_MAKERS: dict[str, Callable[[TreeColumns, list[_Key]], Node]] = {
    "number": _numbers,
    "flag": _flags,
    "truth": _truths,
    "category": _categories,
    "projection": _projections,
}
"""What makes the columns of each kind, in the order in which they are concatenated."""


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
    # The vocabulary leaves item 0 out, so the last place is the empty text: missing.
    missing = size - 1
    values = (*(texts[item] for item in range(1, size)), "")
    vocabulary = Vocabulary(values, missing, missing, missing, spelled=True)
    # YDF takes 7, "7" and b"7" for one category, so the vocabulary spells numbers.
    codes = Codes(schema_of(step), place, vocabulary)
    return Recode(codes, (Array(np.arange(size + 1, dtype=np.float32)),))


def _own_numbers(step: Step, place: int, size: int) -> Node:
    """Take numbers as they are, and -1 for missing.

    YDF reads past the end of its sets at a number that it did not see in training, so no answer to
    such a row is right.
    """
    x = _whole(step, place)
    message = f"{_name_column(step, place)} holds a category below -1 or above {size - 1}."
    step.check(IsOutside(x, _single(-1.0), _single(size - 1.0)), message)
    missing = ConstantRows(x, _single(float(size)))
    return Cast(Choose(Compare.of(x, "eq", -1.0), missing, x), "float32")


def truths(step: Step, places: list[int]) -> Node:
    """Return bools as 0 and 1, in float32; refuse other numbers."""
    for place in places:
        x = _whole(step, place)
        message = f"{_name_column(step, place)} holds numbers other than 0 and 1. Give bools."
        step.check(IsOutside(x, _single(0.0), _single(1.0)), message)
    return Columns(schema_of(step), Array.of(places, np.int32), "float32")


def _whole(step: Step, place: int) -> Node:
    """Return a column as float64, and refuse numbers with a fraction, and missing ones."""
    x = Columns(schema_of(step), Array.of([place], np.int32), "float64")
    message = f"{_name_column(step, place)} holds a number that is not whole, or a missing one."
    step.check(Not(Relation(x, Map(x, "floor"), "eq")), message)
    return x


def _name_column(step: Step, place: int) -> str:
    return f"Column {schema_of(step).columns[place].name!r} (step {step.where!r})"


def _single(value: float) -> Array:
    return Array(np.array([value]))


Terms = tuple[npt.NDArray[Any], tuple[float, ...]]
"""Columns of a sum, and their weights."""


def project(x: Node, fill: Array, sums: Sequence[Terms]) -> Node:
    """Compute ``weights[0] * x[0] + weights[1] * x[1] + ...`` for each sum, in float32.

    Missing numbers are filled before. Each product and each sum is rounded, one after another.
    A product of matrices would add in another order, and would make NaN of infinity times 0.

    1. Sums of as many terms are computed together.
    2. All first terms are one node, all second terms another.
    3. The sums go back to their order.
    """
    filled = Impute(x, fill)
    # Thousands of sums have few lengths, so few nodes hold them.
    lengths = np.array([len(weights) for _, weights in sums])
    groups = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]  # 1
    parts = [_of_length(filled, [sums[i] for i in group.tolist()]) for group in groups]
    order = np.argsort(np.concatenate(groups))
    return select(concat(parts), order.tolist())  # 3


def _of_length(x: Node, sums: Sequence[Terms]) -> Node:
    places = np.array([entry for entry, _ in sums], np.int64)
    weights = np.array([entry for _, entry in sums], np.float32)
    # A sum of nothing is 0, and has no first term to start from.
    if not weights.shape[1]:
        return ConstantRows(x, Array(np.zeros(len(sums), np.float32)))
    terms = [
        Affine.of(select(x, entry.tolist()), mul=weight)
        for entry, weight in zip(places.T, weights.T, strict=True)
    ]  # 2
    return terms[0] if len(terms) == 1 else Add(tuple(terms))


def least_factor(weight: float, bound: float) -> float:
    """Return the least float32 x for which ``weight * x``, rounded to float32, reaches a bound.

    The weight is positive, so the product never falls. Floats are halved by their order.

    Examples
    --------
    >>> least_factor(0.5, 3.0)
    6.0
    """
    # Positive floats are ordered as their bits are, and negative ones the other way round.
    low = -_INFINITE - 1
    high = _INFINITE
    while high - low > 1:
        middle = (low + high) // 2
        # A product beyond float32 is infinite, which reaches any bound, as it does in YDF.
        with np.errstate(over="ignore", under="ignore"):
            reached = np.float32(weight) * _float_at(middle) >= np.float32(bound)
        if reached:
            high = middle
        else:
            low = middle
    return float(_float_at(high))


_INFINITE = 0x7F800000
"""Place of infinity among the floats of float32, of which 0 is the one of zero."""


def _float_at(place: int) -> np.float32:
    """Return the float at a place in their order; negative places have negative floats."""
    # The bits of a positive float are its place.
    magnitude = np.array(abs(place), np.uint32).view(np.float32)
    return np.float32(-magnitude if place < 0 else magnitude)
