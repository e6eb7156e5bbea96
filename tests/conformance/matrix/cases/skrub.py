"""Transformers of frames, dates, texts and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import skrub
from matrix.case import Case
from matrix.data import fit_table, table_rows, target
from matrix.fitting import Entries, fit, missing_rows
from matrix.texts import documents
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

YEAR = 31_556_952
"""Seconds."""


def _dates(n: int) -> pd.Series:
    """Draw dates of 400 years, and leave some out: objects, as other values are put among them."""
    rng = np.random.default_rng(7)
    seconds = rng.integers(-200 * YEAR, 200 * YEAR, n)
    dates = pd.Series((seconds * 10**6 + rng.integers(0, 10**6, n)).view("datetime64[us]"))
    return dates.where(rng.random(n) > 0.1).rename("when").astype(object)


def _ask_dates(encoder: Any, method: str, x: Any) -> Any:
    return np.asarray(getattr(encoder, method)(pd.Series(x, name="when", dtype=object)))


def encoders_dates() -> Iterator[Any]:
    """All fields, both encodings of periods, and a time zone."""
    case = partial(Entries, rows=_dates, ask=_ask_dates)
    every = {"resolution": "nanosecond", "add_weekday": True, "add_day_of_year": True}
    fitted = pd.to_datetime(_dates(80))
    for periodic in (None, "circular", "spline"):
        encoder = skrub.DatetimeEncoder(**every, periodic_encoding=periodic)
        read = make_pipeline(skrub.ToDatetime(), encoder)
        yield case("skrub.DatetimeEncoder", f"periods {periodic}", _fit_dates(read, fitted))
    read = make_pipeline(skrub.ToDatetime(), skrub.DatetimeEncoder(resolution="second"))
    in_paris = fitted.dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")
    yield case("skrub.ToDatetime", "a time zone", _fit_dates(read, in_paris))


def _fit_dates(encoder: Any, column: pd.Series) -> Callable[[], Any]:
    return lambda: encoder.fit(column)


_DATES = (*encoders_dates(),)


def _column(n: int) -> pd.Series:
    return pd.Series(documents(n), name="text", dtype=object)


def _ask_encoding(encoder: Any, method: str, x: Any) -> Any:
    return getattr(encoder, method)(pd.Series(x, name="text", dtype=object)).to_numpy()


def encoders_encoding() -> Iterator[Case]:
    """Components of weighted n-grams, and the n-grams themselves."""
    case = partial(Case, "skrub.StringEncoder", rows=_column)
    yield case("components", _fit_encoding(skrub.StringEncoder(n_components=3, random_state=0)))
    words = skrub.StringEncoder(n_components=4, analyzer="word", ngram_range=(1, 1), random_state=0)
    yield case("words", _fit_encoding(words))


def _fit_encoding(encoder: Any) -> Callable[[], Any]:
    return lambda: encoder.fit(_column(80))


_ENCODING = (*encoders_encoding(),)


NUMBERS = ["count", "decimal", "normal", "skewed"]


def _numbers(n: int) -> pd.DataFrame:
    return table_rows(n)[NUMBERS]


def _two(n: int) -> pd.DataFrame:
    return table_rows(n)[["skewed", "count"]]


def _seen(n: int) -> pd.DataFrame:
    return table_rows(n).replace({"mauve": "red"})


def _fit_frames(transformer: Any, columns: list[str]) -> Callable[[], Any]:
    return lambda: transformer.fit(fit_table()[columns], target("flag"))


def transformers() -> Iterator[Any]:
    """Each of them; those that only choose columns keep their dtypes."""
    name = "skrub.{}".format
    table = partial(Entries, rows=table_rows)
    numbers = partial(Entries, rows=_numbers)
    every = [*NUMBERS, "colour", "size"]
    encoded = skrub.TableVectorizer(high_cardinality="drop")
    yield Entries(
        name("TableVectorizer"), "low cardinality", _fit_frames(encoded, every), rows=_seen
    )
    dropped = skrub.TableVectorizer(low_cardinality="drop", specific_transformers=[])
    yield table(name("TableVectorizer"), "numbers", _fit_frames(dropped, every))
    cleaner = skrub.Cleaner(cast_to_float32=True)
    yield numbers(name("Cleaner"), "float32", _fit_frames(cleaner, NUMBERS))
    scaled = skrub.ApplyToCols(StandardScaler(), cols=["count", "normal"])
    yield numbers(name("ApplyToCols"), "together", _fit_frames(scaled, NUMBERS))
    chosen = _fit_frames(skrub.SelectCols(["skewed", "count"]), every)
    yield Entries(name("SelectCols"), "some", chosen, rows=_two)
    yield numbers(name("DropCols"), "texts", _fit_frames(skrub.DropCols(["colour", "size"]), every))


_FRAMES = (*transformers(),)


_SCALING = (
    Entries("skrub.SquashingScaler", "default", fit(skrub.SquashingScaler())),
    Entries(
        "skrub.SquashingScaler",
        "missing, a low limit",
        fit(skrub.SquashingScaler(0.5, quantile_range=(40.0, 60.0)), missing=True),
        rows=missing_rows,
    ),
)


CASES = (
    *_DATES,
    *_ENCODING,
    *_FRAMES,
    *_SCALING,
)
