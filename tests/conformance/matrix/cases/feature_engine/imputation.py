"""Imputers, alone and before encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
from feature_engine import encoding, imputation
from matrix.case import Case
from matrix.data import fit_table, table_rows, target
from matrix.fitting import Entries, fit, missing_rows
from sklearn.pipeline import make_pipeline

NUMBERS = ["count", "decimal", "normal", "skewed"]


def _numbers(n: int) -> pd.DataFrame:
    return table_rows(n)[NUMBERS]


def missing_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every fifth colour missing."""
    colours = [None if i % 5 == 2 else c for i, c in enumerate(table["colour"])]
    return table.assign(colour=pd.Series(colours, table.index, dtype=object))


def _texts(n: int) -> pd.DataFrame:
    return missing_text(table_rows(n))


def _fit(transformer: Any) -> Callable[[], Any]:
    return lambda: transformer.fit(fit_table()[NUMBERS])


def imputers() -> Iterator[Case]:
    """Numbers of a frame and of an array, and text before an encoder."""
    case = partial(Entries, rows=_numbers)
    name = "feature_engine.imputation.{}".format
    yield case(name("MeanMedianImputer"), "frame", _fit(imputation.MeanMedianImputer()))
    array = fit(imputation.MeanMedianImputer(imputation_method="mean"), missing=True)
    yield Entries(name("MeanMedianImputer"), "array", array, rows=missing_rows)
    some = imputation.ArbitraryNumberImputer(arbitrary_number=-7, variables=["decimal"])
    yield case(name("ArbitraryNumberImputer"), "one column", _fit(some))
    yield case(name("EndTailImputer"), "frame", _fit(imputation.EndTailImputer()))
    chain = make_pipeline(imputation.CategoricalImputer(), encoding.MeanEncoder(unseen="encode"))
    fitted = partial(chain.fit, missing_text(fit_table()), target("value"))
    yield Entries(name("CategoricalImputer"), "before an encoder", fitted, rows=_texts)


CASES = (*imputers(),)
