"""Transformers of frames, alone and before a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import skrub
from matrix.data import fit_table, table_rows, target
from matrix.fitting import Entries
from sklearn.preprocessing import StandardScaler

NUMBERS = ["count", "decimal", "normal", "skewed"]


def _numbers(n: int) -> pd.DataFrame:
    return table_rows(n)[NUMBERS]


def _two(n: int) -> pd.DataFrame:
    return table_rows(n)[["skewed", "count"]]


def _seen(n: int) -> pd.DataFrame:
    return table_rows(n).replace({"mauve": "red"})


def _fit(transformer: Any, columns: list[str]) -> Callable[[], Any]:
    return lambda: transformer.fit(fit_table()[columns], target("flag"))


def transformers() -> Iterator[Any]:
    """Each of them; those that only choose columns keep their dtypes."""
    name = "skrub.{}".format
    table = partial(Entries, rows=table_rows)
    numbers = partial(Entries, rows=_numbers)
    every = [*NUMBERS, "colour", "size"]
    encoded = skrub.TableVectorizer(high_cardinality="drop")
    yield Entries(name("TableVectorizer"), "low cardinality", _fit(encoded, every), rows=_seen)
    dropped = skrub.TableVectorizer(low_cardinality="drop", specific_transformers=[])
    yield table(name("TableVectorizer"), "numbers", _fit(dropped, every))
    cleaner = skrub.Cleaner(cast_to_float32=True)
    yield numbers(name("Cleaner"), "float32", _fit(cleaner, NUMBERS))
    scaled = skrub.ApplyToCols(StandardScaler(), cols=["count", "normal"])
    yield numbers(name("ApplyToCols"), "together", _fit(scaled, NUMBERS))
    chosen = _fit(skrub.SelectCols(["skewed", "count"]), every)
    yield Entries(name("SelectCols"), "some", chosen, rows=_two)
    yield numbers(name("DropCols"), "texts", _fit(skrub.DropCols(["colour", "size"]), every))


CASES = (*transformers(),)
