"""Encoders of text, numbers and missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import category_encoders as ce
import numpy as np
import pandas as pd
from matrix.case import Case
from matrix.data import fit_table, table_rows, target
from matrix.fitting import Entries

_COLUMNS = ["normal", "colour", "count", "size"]
_ENCODED = ["colour", "count", "size"]
_PLAIN = (
    "BackwardDifference",
    "BaseN",
    "Binary",
    "Gray",
    "Helmert",
    "Polynomial",
    "RankHot",
    "Sum",
)
_SUPERVISED = (
    "CatBoost",
    "CountTarget",
    "GLMM",
    "JamesStein",
    "LeaveOneOut",
    "MEstimate",
    "Quantile",
    "Target",
    "WOE",
)

_BY_DTYPE = ("CatBoost", "LeaveOneOut")
"""Encoders that take a number among texts for missing rather than unknown (docs/fidelity.md)."""


def _fit_rows() -> pd.DataFrame:
    return _with_none(fit_table()[_COLUMNS])


def _rows(n: int) -> pd.DataFrame:
    """Rows with a colour and counts never seen, and missing text and numbers."""
    table = _with_none(table_rows(n)[_COLUMNS])
    table["count"] = np.where(np.arange(n) % 5 == 3, np.nan, table["count"].clip(-2, 9))
    return table


def _seen_rows(n: int) -> pd.DataFrame:
    """Rows of categories that were seen in fitting."""
    table = _rows(n)
    table["colour"] = table["colour"].replace({"mauve": "red"}).fillna("blue")
    return table.assign(count=table["count"].abs().fillna(0) // 1 % 6)


def _with_none(table: pd.DataFrame) -> pd.DataFrame:
    colours = table["colour"].where(np.arange(len(table)) % 7 != 4, None)
    return table.assign(colour=colours.astype(object))


def _fit(name: str, y: str = "flag", **options: Any) -> Callable[[], Any]:
    cols = options.pop("cols", _ENCODED)
    return lambda: getattr(ce, name)(cols=cols, **options).fit(_fit_rows(), target(y))


def encoders() -> Iterator[Case]:
    """Each encoder as it is, then settings that change what becomes of odd values."""
    case = partial(Entries, rows=_rows)
    for kind in (*_PLAIN, *_SUPERVISED):
        module = "glmm." if kind == "GLMM" else ""
        odd = {"handle_unknown": "return_nan"} if kind in _BY_DTYPE else {}
        yield case(
            f"category_encoders.{module}{kind}Encoder", "default", _fit(f"{kind}Encoder", **odd)
        )
    one_hot = partial(case, "category_encoders.OneHotEncoder")
    yield one_hot("default", _fit("OneHotEncoder", use_cat_names=True))
    indicator = {"handle_unknown": "indicator", "handle_missing": "indicator"}
    yield one_hot("indicators", _fit("OneHotEncoder", **indicator))
    ordinal = partial(case, "category_encoders.OrdinalEncoder")
    yield ordinal("default", _fit("OrdinalEncoder"))
    nan = {"handle_unknown": "return_nan", "handle_missing": "return_nan"}
    yield ordinal("NaN for both, an array", _fit("OrdinalEncoder", return_df=False, **nan))
    error = {"handle_unknown": "error", "handle_missing": "error", "cols": ["count", "size"]}
    seen = partial(Entries, rows=lambda n: _seen_rows(n).drop(columns="colour"))
    plain = _fit_rows().drop(columns="colour")
    yield seen(
        "category_encoders.OrdinalEncoder",
        "errors",
        lambda: ce.OrdinalEncoder(**error).fit(plain, target("flag")),
    )
    count = partial(case, "category_encoders.CountEncoder")
    yield count("default", _fit("CountEncoder"))
    grouped = {"min_group_size": 60, "normalize": True, "handle_missing": "return_nan"}
    yield count("shares, small groups joined", _fit("CountEncoder", **grouped))
    values = partial(case, "category_encoders.TargetEncoder")
    yield values(
        "invariant columns dropped, NaN", _fit("TargetEncoder", drop_invariant=True, **nan)
    )
    groups = _fit("TargetEncoder", "value", min_group_size=60, min_group_name="rest")
    yield values("small groups joined", groups)
    array = np.asarray(_fit_rows()[["count", "normal"]])
    yield Entries(
        "category_encoders.CatBoostEncoder",
        "fitted on an array",
        lambda: ce.CatBoostEncoder(cols=[0], return_df=False).fit(array, target("value")),
        rows=lambda n: np.asarray(_rows(n)[["count", "normal"]]),
    )


CASES = (*encoders(),)
