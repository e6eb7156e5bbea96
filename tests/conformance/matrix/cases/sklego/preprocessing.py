"""Transformers of columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matrix.case import Case
from matrix.data import fit_rows, fit_table, rows, table_rows
from matrix.fitting import Entries, fit, missing_rows
from sklego import preprocessing
from sklego.preprocessing.repeatingbasis import _RepeatingBasisFunction

NAMES = ["count", "decimal", "normal", "skewed"]


def _numbers(n: int) -> pd.DataFrame:
    return table_rows(n)[NAMES]


def _two(n: int) -> pd.DataFrame:
    return table_rows(n)[["skewed", "count"]]


def _one(n: int) -> np.ndarray:
    return rows(n)[:, :1]


def _fit(transformer: Any, columns: list[str]) -> Callable[[], Any]:
    return lambda: transformer.fit(fit_table()[columns])


def _repeating(**options: Any) -> Callable[[], Any]:
    def fitted() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return preprocessing.RepeatingBasisFunction(**options).fit(fit_rows())

    return fitted


def _ask(transformer: Any, method: str, x: Any) -> Any:
    return np.asarray(getattr(transformer, method)(x))


def _with_texts(transformer: Any, method: str, x: pd.DataFrame) -> Any:
    return _ask(transformer, method, x.assign(colour="red", size="S"))


def transformers() -> Iterator[Case]:
    """Each of them, in a few settings."""
    name = "sklego.preprocessing.{}".format
    every = [*NAMES, "colour", "size"]
    chosen = _fit(preprocessing.ColumnSelector(["skewed", "count"]), every)
    yield Entries(name("ColumnSelector"), "two", chosen, rows=_two, ask=_ask)
    others = _fit(preprocessing.ColumnDropper(["colour", "size"]), every)
    yield Entries(name("ColumnDropper"), "texts", others, rows=_numbers, ask=_with_texts)
    typed = _fit(preprocessing.TypeSelector(include="number"), NAMES)
    kept = partial(Entries, name("TypeSelector"), dtypes=("float64",))
    yield kept("numbers", typed, rows=_numbers, ask=_ask)
    yield Entries(name("IdentityTransformer"), "plain", fit(preprocessing.IdentityTransformer()))
    checked = preprocessing.IdentityTransformer(check_X=True)
    yield Entries(name("IdentityTransformer"), "checked", fit(checked))
    yield Entries(name("ColumnCapper"), "plain", fit(preprocessing.ColumnCapper()))
    capper = preprocessing.ColumnCapper((20.0, 60.0), "lower", discard_infs=True)
    missing = fit(capper, missing=True)
    yield Entries(name("ColumnCapper"), "infinite ones discarded", missing, rows=missing_rows)
    orthogonal = preprocessing.OrthogonalTransformer
    yield Case(name("OrthogonalTransformer"), "plain", fit(orthogonal()))
    yield Case(name("OrthogonalTransformer"), "normalized", fit(orthogonal(normalize=True)))
    yield Entries(name("LinearEmbedder"), "ridge", fit(preprocessing.LinearEmbedder(), "value"))
    encoder = preprocessing.IntervalEncoder
    yield Entries(name("IntervalEncoder"), "normal", fit(encoder(), "value"))
    few = encoder(n_chunks=4, method="average")
    yield Entries(name("IntervalEncoder"), "average", fit(few, "value"))
    basis = partial(Entries, name("RepeatingBasisFunction"))
    yield basis("fitted range", _repeating(column=1, n_periods=5))
    ranged = _repeating(column=0, remainder="passthrough", input_range=(0, 7), width=0.7)
    yield basis("given range, others passed", ranged)
    alone = _RepeatingBasisFunction(n_periods=3)
    inner = name("repeatingbasis._RepeatingBasisFunction")
    yield Entries(inner, "alone", lambda: alone.fit(fit_rows()[:, :1]), rows=_one)


CASES = (*transformers(),)
