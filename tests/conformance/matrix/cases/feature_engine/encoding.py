"""Encoders of text, which refuse or number what they never saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
from feature_engine import encoding
from matrix.case import Case
from matrix.data import fit_table, table_rows, target
from matrix.fitting import Entries
from sklearn.pipeline import make_pipeline


def _seen(n: int) -> pd.DataFrame:
    return table_rows(n).replace({"mauve": "red"})


def _fit(encoder: Any, y: str = "flag") -> Callable[[], Any]:
    return lambda: encoder.fit(fit_table(), target(y))


def encoders() -> Iterator[Case]:
    """Each encoder, and what becomes of a colour never seen."""
    name = "feature_engine.encoding.{}".format
    seen = partial(Entries, rows=_seen)
    odd = partial(Entries, rows=table_rows)
    ordinal = partial(encoding.OrdinalEncoder, encoding_method="arbitrary")
    yield odd(name("OrdinalEncoder"), "unseen as a number", _fit(ordinal(unseen="encode")))
    yield seen(name("OrdinalEncoder"), "unseen refused", _fit(ordinal(unseen="raise")))
    yield odd(name("CountFrequencyEncoder"), "NaN", _fit(encoding.CountFrequencyEncoder()))
    shares = encoding.CountFrequencyEncoder(encoding_method="frequency", unseen="encode")
    yield odd(name("CountFrequencyEncoder"), "shares", _fit(shares))
    yield odd(name("MeanEncoder"), "smooth", _fit(encoding.MeanEncoder(smoothing=3.0), "value"))
    yield odd(name("WoEEncoder"), "NaN", _fit(encoding.WoEEncoder()))
    rare = encoding.RareLabelEncoder(tol=0.3, n_categories=2, variables=["colour"])
    chain = make_pipeline(rare, encoding.OneHotEncoder())
    yield odd(name("RareLabelEncoder"), "before an encoder", _fit(chain))
    yield odd(name("OneHotEncoder"), "all", _fit(encoding.OneHotEncoder()))
    yield odd(name("OneHotEncoder"), "top", _fit(encoding.OneHotEncoder(top_categories=2)))


CASES = (*encoders(),)
