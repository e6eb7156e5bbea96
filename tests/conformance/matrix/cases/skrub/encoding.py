"""StringEncoder of one column of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import skrub
from matrix.case import Case
from matrix.texts import documents


def _column(n: int) -> pd.Series:
    return pd.Series(documents(n), name="text", dtype=object)


def _ask(encoder: Any, method: str, x: Any) -> Any:
    return getattr(encoder, method)(pd.Series(x, name="text", dtype=object)).to_numpy()


def encoders() -> Iterator[Case]:
    """Components of weighted n-grams, and the n-grams themselves."""
    case = partial(Case, "skrub.StringEncoder", rows=_column)
    yield case("components", _fit(skrub.StringEncoder(n_components=3, random_state=0)))
    words = skrub.StringEncoder(n_components=4, analyzer="word", ngram_range=(1, 1), random_state=0)
    yield case("words", _fit(words))


def _fit(encoder: Any) -> Callable[[], Any]:
    return lambda: encoder.fit(_column(80))


CASES = (*encoders(),)
