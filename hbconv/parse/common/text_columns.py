"""Read text and object columns as codes of a vocabulary, or as sparse rows of terms.

Such a column never enters a program: the host encodes it.
Containers between the input and its encoder, such as a selection or an imputer, only move it.
What they do is folded into the vocabulary by which the host encodes the column.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Beside,
    CleanText,
    Codes,
    Columns,
    Compare,
    Entries,
    FillObjects,
    FindCode,
    KeepText,
    Node,
    Recode,
    Schema,
    Vocabulary,
)
from hbconv.containers.extractors import (
    Buckets,
    Extractor,
    Mappings,
    Name,
    Pairs,
    Terms,
    Texts,
    Tokens,
)
from hbconv.containers.moved_columns import columns_of, find_origin
from hbconv.parse.common.edited_texts import text_codes
from hbconv.parse.step import Step

__all__ = [
    "BLANK",
    "MISSING",
    "NA",
    "UNKNOWN",
    "TextColumn",
    "are_numbers",
    "category_codes",
    "columns_of",
    "entry_name",
    "extract_entries",
    "is_missing_text",
    "is_nan",
    "item_column",
    "object_codes",
    "plain",
    "refuse_na",
    "text_column",
    "with_nan",
    "with_nulls",
]

Raw = str | bytes | float | None
"""A raw value, or one of the two ways (None and NaN) to say that it is missing."""

NA = "\0NA"
"""Stands for ``pandas.NA`` among raw values, to sources that take it for missing."""

MISSING = "\0missing"
"""The category of every missing value: None, NaN and NA are one to the encoder."""

BLANK = "\0blank"
"""Stands for every text of whitespace alone that a step or an encoder does not name."""

UNKNOWN = "\0unknown"
"""Stands for every value that neither an encoder nor a step before it names."""

_NAN = float("nan")
_ODD: tuple[Raw, ...] = (UNKNOWN, None, _NAN, NA, BLANK)
_PLAIN = (str, bytes, int, float, np.number, np.bool_)


@dataclass(frozen=True)
class Edit:
    """A step that replaces some values of a text column: those of a list, or all others."""

    values: tuple[Raw, ...]
    replacement: Raw
    others: bool = False
    texts_only: bool = False

    @property
    def needs_objects(self) -> bool:
        """Whether it distinguishes None or a text from NaN, which numbers do not."""
        is_number = any(isinstance(value, int | float) for value in self.values)
        return not (is_number or self.texts_only)

    def apply(self, value: Raw) -> Raw:
        """Return the (canonical) value as the next step sees it."""
        listed_values = tuple(map(_canonical, self.values))
        listed = value in listed_values or (value == MISSING and _NAN in listed_values)
        return self.replacement if listed != self.others else value


@dataclass(frozen=True)
class TextColumn:
    """A column of the input, and what steps on the way replace in it, in order."""

    schema: Schema
    column: int
    edits: tuple[Edit, ...] = ()
    only_texts: bool = False

    @property
    def markers(self) -> tuple[Raw, ...]:
        """Return the values that a step treats unlike others."""
        return tuple(m for edit in self.edits for m in edit.values if _is_present(m) and m != BLANK)

    def apply_edits(self, value: Raw) -> Raw:
        """Return the value as the encoder sees it."""
        value = _canonical(value)
        for edit in self.edits:
            value = edit.apply(value)
        return value


def text_column(x: Node, position: int) -> TextColumn | None:
    """Follow one column of x back to the input; None where it was computed on the way."""
    x, position = find_origin(x, position)
    if isinstance(x, Columns):
        return TextColumn(x.schema, x.columns[position])
    if not isinstance(x, FillObjects | KeepText | CleanText):
        return None
    column = text_column(x.x, position)
    return column and replace(
        column,
        edits=(*column.edits, _edit(x, position)),
        only_texts=column.only_texts or isinstance(x, CleanText),
    )


def _edit(x: FillObjects | KeepText | CleanText, position: int) -> Edit:
    if isinstance(x, CleanText):
        blank = (BLANK,) if x.blank else ()
        return Edit((*x.nulls, *blank, None, _NAN, NA), MISSING)
    if isinstance(x, FillObjects):
        return Edit(x.missing, x.fill[position], texts_only=x.texts_only)
    return Edit(x.kept, x.other, others=True)


def category_codes(step: Step, position: int, categories: Any) -> Node:
    """Return the position of each value of a column among the categories, -1 for others."""
    values = np.asarray(categories)
    if are_numbers(values) and not _needs_objects(step.x, position):
        if values.dtype.kind != "O" and not _ascend(values):
            raise step.damaged(
                f"the categories of column {position} do not ascend, and the source model "
                "does a binary search in them"
            )
        return _number_codes(columns_of(step.x, [position]), Array(_as_numbers(values)))
    odd = sorted(
        {type(v).__name__ for v in values.tolist() if v is not None and not isinstance(v, _PLAIN)}
    )
    if values.dtype.kind not in "OUS" or odd:
        odd = odd or [values.dtype.name]
        raise step.refuse(
            "categories_",
            odd,
            f"Column {position} must hold texts, bytes or numbers. Convert it before fitting.",
        )
    return _value_codes(step, position, [plain(v) for v in values.tolist()])


def with_nulls(x: Node) -> Node:
    """Make None of each missing text, as a frame of polars does, where columns may be texts."""
    return FillObjects(x, (None,) * x.type.width, (None, _NAN, NA)) if _has_texts(x) else x


def with_nan(x: Node) -> Node:
    """Make NaN of each missing text, as pandas does where it makes a frame of objects.

    From version 3 on it infers that objects are texts, of which only NaN is missing. Each column of
    a table keeps its dtype.
    """
    if isinstance(x, Beside):
        return Beside(tuple(with_nan(part) for part in x.xs))
    pandas = sys.modules.get("pandas")
    is_old = pandas is not None and int(pandas.__version__.partition(".")[0]) < 3
    if is_old or not _has_texts(x):
        return x
    return FillObjects(x, (_NAN,) * x.type.width, (None, NA), texts_only=True)


def _has_texts(x: Node) -> bool:
    return any(text_column(x, j) is not None for j in range(x.type.width))


def _needs_objects(x: Node, position: int) -> bool:
    column = text_column(x, position)
    return column is not None and any(edit.needs_objects for edit in column.edits)


def _number_codes(x: Node, numbers: Array) -> Node:
    """Find the codes of numbers; a text that a step fills in is none of them."""
    if not isinstance(x, FillObjects) or x.type.dtype != "string":
        return FindCode(x, (numbers,))
    codes = _number_codes(x.x, numbers)
    filled = [
        value in x.missing or (is_nan(value) and any(map(is_nan, x.missing)))
        for value in numbers.data.tolist()
    ]
    table = np.append(-1, np.where(filled, -1, np.arange(len(filled)))).astype(np.int32)
    return Recode(codes, (Array(table),)) if any(filled) else codes


def object_codes(step: Step, position: int, categories: Any) -> Node:
    """Return the codes of a source that compares objects as they are, whatever was fitted."""
    codes = category_codes(step, position, categories)
    return replace(codes, among_objects=True) if isinstance(codes, FindCode) else codes


def are_numbers(categories: Any) -> bool:
    """Tell whether a program can compare the categories of a column.

    They must be numbers; objects must ascend and have one dtype that holds them exactly.
    """
    values = np.asarray(categories)
    if values.dtype.kind != "O":
        # Extended floats (longdouble) have no type in a program.
        return values.dtype.kind in "biuf" and values.dtype.itemsize <= 8
    objects = values.tolist()
    if all(is_nan(v) for v in objects) or not all(
        isinstance(v, int | float | np.number) for v in objects
    ):
        return False
    # numpy finds one dtype for ints and floats, which rounds ints beyond 2**53.
    exact = np.array(objects)
    if exact.dtype.kind not in "biuf" or any(
        a != b and not is_nan(b) for a, b in zip(exact.tolist(), objects, strict=True)
    ):
        return False
    return _ascend(exact)


def _ascend(values: npt.NDArray[Any]) -> bool:
    """Whether each number is above the one before it; NaN may be anywhere."""
    numbers = values[~np.isnan(values)]
    return bool(np.all(numbers[1:] > numbers[:-1]))


def is_missing_text(step: Step, position: int, missing: tuple[Raw, ...]) -> Node:
    """Return whether each value of a text column of the step's input is missing, as bool."""
    return Compare.of(_value_codes(step, position, list(missing)), "ge", 0)


def refuse_na(step: Step, x: Node, why: str) -> None:
    """Refuse ``pandas.NA`` in the columns of x, at which the source raises TypeError.

    It does so at all columns that it is given, whatever becomes of them. What a step before
    replaced is no NA.
    """
    for column in filter(None, (text_column(x, j) for j in range(x.type.width))):
        if column.apply_edits(NA) == NA:
            step.conditions.without_na.setdefault(column.column, why)


def is_nan(value: object) -> TypeGuard[float]:
    """Tell whether a value of any type is NaN."""
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _value_codes(step: Step, position: int, categories: list[Raw]) -> Node:
    """Return the codes of the raw values, through a table where imputers changed them."""
    column = text_column(step.x, position)
    made = text_codes(step.x, position, _positions(categories)) if column is None else None
    if made is not None:
        return made
    if column is None:
        raise step.refuse(
            "categories_",
            "objects",
            f"Column {position} is computed from numbers, yet held objects when fitting. "
            "Convert the input's columns.",
        )
    # Without a text among them pandas infers no texts, and such edits do nothing.
    if not any(isinstance(category, str) for category in categories):
        edits = tuple(edit for edit in column.edits if not edit.texts_only)
        column = replace(column, edits=edits)
    position_of = _positions(categories)
    code_of = {v: position_of.get(column.apply_edits(v), -1) for v in (*_ODD, *column.markers)}
    code_of |= {v: position_of.get(column.apply_edits(v), -1) for v in categories if _is_present(v)}
    unknown = code_of[UNKNOWN]
    named = dict.fromkeys([*(v for v in categories if _is_present(v)), *column.markers])
    texts = [v for v in column.markers if isinstance(v, str)]
    # Texts with the code of blanks are missing in columns of texts, so they are no values.
    nulls = tuple(v for v in texts if code_of[v] == code_of[BLANK] != unknown)
    left = [v for v in named if v not in nulls]
    # A value coded as all unnamed ones needs no entry.
    values = tuple(v for v in left if code_of[v] != code_of[BLANK if _is_blank(v) else UNKNOWN])
    codes = [code_of[v] for v in values]
    others: dict[str, Any] = {"none": code_of[None], "nan": code_of[_NAN], "na": code_of[NA]}
    others["blank"] = code_of[BLANK]
    vocabulary = Vocabulary(values, only_texts=column.only_texts, nulls=nulls)
    if codes == list(range(len(values))) and unknown == -1:
        return Codes(column.schema, column.column, replace(vocabulary, **others))
    special_codes = {name: code for name, code in others.items() if code != unknown}
    # None, NaN, NA and blanks share a place where the encoder gives them one code.
    distinct = list(dict.fromkeys(special_codes.values()))
    places: dict[str, Any] = {
        name: len(values) + distinct.index(code) for name, code in special_codes.items()
    }
    raw = Codes(column.schema, column.column, replace(vocabulary, **places))
    return Recode(raw, (Array(np.array([unknown, *codes, *distinct], dtype=np.int32)),))


def _positions(categories: list[Raw]) -> dict[Raw, int]:
    """Return the position of each category, of all missing values where they are one."""
    position_of = {_canonical(category): i for i, category in enumerate(categories)}
    if MISSING in position_of:
        return position_of | dict.fromkeys((None, _NAN, NA), position_of[MISSING])
    if _NAN in position_of:
        return position_of | {MISSING: position_of[_NAN]}
    return position_of


def _is_present(value: Raw) -> bool:
    return value is not None and value not in (MISSING, NA) and not is_nan(value)


def _is_blank(value: Raw) -> bool:
    return isinstance(value, str) and not value.strip()


def _as_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.array(values.tolist()) if values.dtype.kind == "O" else values


def plain(value: Any) -> Raw:
    """Return numpy scalars as Python values, which equal them and can be stored."""
    return _canonical(value.item() if isinstance(value, np.generic) else value)


def _canonical(value: Raw) -> Raw:
    """Make every NaN the same one, so that it equals itself."""
    return _NAN if is_nan(value) else value


def item_column(_: Any) -> Schema:
    """Return the schema of an estimator that iterates over its input."""
    return Schema.items()


def extract_entries(
    step: Step,
    rows: Texts | Mappings | Pairs | Tokens,
    columns: Terms | Buckets,
    dtype: str,
    *,
    binary: bool,
) -> Node:
    """Extract sparse rows from the one column that the step reads as it comes."""
    column = text_column(step.x, 0) if step.x.type.width == 1 else None
    read = None if column is None else _read(rows, column)
    if column is None or read is None:
        raise step.refuse(None, None, "It must read a column of the input as it comes.")
    return Entries(
        column.schema,
        column.column,
        Extractor(read, columns, dtype, binary=binary),
    )


def _read(
    rows: Texts | Mappings | Pairs | Tokens, column: TextColumn
) -> Texts | Mappings | Pairs | Tokens | None:
    """Return how rows are read behind the steps that edit the column; None where they are not."""
    if not column.edits:
        return rows
    return _read_emptied(rows, column) if isinstance(rows, Texts) else None


def _read_emptied(texts: Texts, column: TextColumn) -> Texts | None:
    """Return how documents are cut where steps before make some of them empty.

    None where a step changes a document to another one.
    """
    # A vectorizer raises at None and NaN, so each must have become an empty text.
    missing = {column.apply_edits(value) for value in (None, float("nan"), NA)}
    changed = {text: column.apply_edits(text) for text in (*column.markers, UNKNOWN)}
    empty = tuple(
        text for text, replacement in changed.items() if replacement == "" and isinstance(text, str)
    )
    others = {text for text, replacement in changed.items() if replacement not in ("", text)}
    if missing != {""} or others:
        return None
    blank = column.apply_edits(BLANK) == ""
    return replace(texts, empty=empty, missing_is_empty=True, blank_is_empty=blank)


def entry_name(step: Step, name: Any) -> Name:
    """Return the name of an entry as plain Python values, or refuse it."""
    plain = name.item() if isinstance(name, np.generic) else name
    if isinstance(plain, tuple):
        return tuple(entry_name(step, part) for part in plain)
    if plain is not None and not isinstance(plain, str | int | float):
        raise step.refuse("vocabulary_", name, "Names must be texts or numbers.")
    return str(plain) if isinstance(plain, str) else plain
