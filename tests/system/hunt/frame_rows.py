"""Rows made to hurt a model that was fitted on a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from hunt.array_rows import HARD_NUMBERS as HARD
from hunt.array_rows import LARGEST_INTEGER
from hunt.dice import Dice
from hunt.draw_data import columns_of

__all__ = ["frame_rows"]

Named = Iterator[tuple[str, Any]]

CATEGORIES: dict[str, Any] = {
    "unseen": "never seen",
    "None": None,
    "nan": np.nan,
    "empty": "",
    "number": 1,
    "float": 1.0,
    "bool": True,
    "pd.NA": pd.NA,
    "long": "x" * 5000,
    "nul": "a\0b",
    "surrogate": "\ud800",
    "combining": "e\u0301",
}
"""What stands for a category in every second row, by name."""

TEXTS: dict[str, Any] = {
    "empty": "",
    "nul": "a\0b cat",
    "long": "cat dog " * 3000,
    "emoji": "cat 🐱 dog\u200d",
    "upper": "CAT İSTANBUL ß ǅ",
    "surrogate": "\ud800 cat",
    "nan": np.nan,
    "None": None,
    "number": 3,
    "bytes": b"cat",
    "newlines": "cat\u2028dog\x85the\x1fa",
    "underscore": "_cat __ dog_the ²³ ٣",
}
"""What stands for a text in every second row, by name."""


def frame_rows(dice: Dice, fitted_on: pd.DataFrame) -> Named:
    """Yield rows by name: usual ones first, then one kind of hurt after another."""
    base = fitted_on.sample(20, random_state=1).reset_index(drop=True)
    yield "plain", base
    yield "one row", base[:1]
    yield "no rows", base[:0]
    yield "again", base
    yield "many", pd.concat([base] * 20, ignore_index=True)
    yield from _other_columns(base)
    yield from _numbers(dice, base)
    yield from _replaced("category", base, columns_of(base, "c")[:1], CATEGORIES)
    yield from _other_texts(base)
    yield from _replaced("text", base, columns_of(base, "t"), TEXTS)
    yield "index", base.set_index(pd.Index([f"r{i}" for i in range(len(base))]))
    yield "array", base.to_numpy()
    yield "records", base.to_dict("records")


def _other_columns(base: pd.DataFrame) -> Named:
    """Frames whose columns are others, more, fewer or elsewhere."""
    names = list(base)
    extra = base.assign(extra=1.0)
    yield "reversed columns", base[names[::-1]]
    yield "extra column", extra
    yield "extra column first", extra[["extra", *names]]
    if len(names) > 1:
        yield "missing column", base[names[1:]]
    yield "column twice", pd.concat([base, base[names[:1]]], axis=1)
    yield "renamed column", base.rename(columns={names[0]: "zz"})


def _numbers(dice: Dice, base: pd.DataFrame) -> Named:
    """Frames whose numbers have other dtypes, or are hard ones."""
    names = columns_of(base, "ni")
    floats = base[names].astype(np.float64)
    integers = np.nan_to_num(floats).round().clip(-LARGEST_INTEGER, LARGEST_INTEGER)
    hard = dice.numbers.choice(np.array(HARD), (len(base), len(names)))
    some = pd.array([None if i % 3 == 0 else 1 for i in range(len(base))], dtype="Int64")
    yield "float32", _with(base, floats.astype(np.float32))
    yield "object numbers", _with(base, floats.astype(object))
    yield "integers", _with(base, pd.DataFrame(integers.astype(np.int64), columns=names))
    yield "Float64", _with(base, base[names].astype("Float64"))
    yield "Int64 with NA", base.assign(**{names[0]: some})
    yield "hard", _with(base, pd.DataFrame(hard, columns=names))
    yield "nan numbers", base.assign(**dict.fromkeys(names, np.nan))


def _with(base: pd.DataFrame, columns: pd.DataFrame) -> pd.DataFrame:
    return base.assign(**{name: columns[name] for name in columns})


def _replaced(what: str, base: pd.DataFrame, names: list[str], values: dict[str, Any]) -> Named:
    """Frames with each of some values in every second row of a column."""
    for name in names:
        for value_name, value in values.items():
            column = base[name].astype(object)
            column[::2] = [value] * len(column[::2])
            yield f"{what} {value_name}", base.assign(**{name: column})


CLASSES: dict[str, Callable[[Any], Any]] = {
    "category dtype": lambda column: column.astype("category"),
    "string dtype": lambda column: column.astype(object).astype("string"),
}
"""Dtypes of pandas that hold texts."""


def _other_texts(base: pd.DataFrame) -> Named:
    for name in columns_of(base, "c")[:1]:
        for what, converted in CLASSES.items():
            yield what, base.assign(**{name: converted(base[name])})
