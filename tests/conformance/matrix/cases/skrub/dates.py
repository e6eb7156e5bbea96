"""DatetimeEncoder of one column of dates that ToDatetime reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import skrub
from matrix.fitting import Entries
from sklearn.pipeline import make_pipeline

YEAR = 31_556_952
"""Seconds."""


def _dates(n: int) -> pd.Series:
    """Draw dates of 400 years, and leave some out: objects, as other values are put among them."""
    rng = np.random.default_rng(7)
    seconds = rng.integers(-200 * YEAR, 200 * YEAR, n)
    dates = pd.Series((seconds * 10**6 + rng.integers(0, 10**6, n)).view("datetime64[us]"))
    return dates.where(rng.random(n) > 0.1).rename("when").astype(object)


def _ask(encoder: Any, method: str, x: Any) -> Any:
    return np.asarray(getattr(encoder, method)(pd.Series(x, name="when", dtype=object)))


def encoders() -> Iterator[Any]:
    """All fields, both encodings of periods, and a time zone."""
    case = partial(Entries, rows=_dates, ask=_ask)
    every = {"resolution": "nanosecond", "add_weekday": True, "add_day_of_year": True}
    fitted = pd.to_datetime(_dates(80))
    for periodic in (None, "circular", "spline"):
        encoder = skrub.DatetimeEncoder(**every, periodic_encoding=periodic)
        read = make_pipeline(skrub.ToDatetime(), encoder)
        yield case("skrub.DatetimeEncoder", f"periods {periodic}", _fit(read, fitted))
    read = make_pipeline(skrub.ToDatetime(), skrub.DatetimeEncoder(resolution="second"))
    in_paris = fitted.dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")
    yield case("skrub.ToDatetime", "a time zone", _fit(read, in_paris))


def _fit(encoder: Any, column: pd.Series) -> Callable[[], Any]:
    return lambda: encoder.fit(column)


CASES = (*encoders(),)
