"""Columns read by transformers of their own, and transformed targets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import xgboost
from matrix.case import Case
from matrix.data import fit_rows, rows, table_rows, target
from matrix.fitting import MODERATE, fit
from matrix.members import LINEAR, REGRESSION_TREE, RIDGE
from matrix.tables import encode, fit_mixed
from matrix.texts import fit_texts, tables, text_beside_numbers
from sklearn import (
    compose,
    pipeline,
    preprocessing,
)
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    MinMaxScaler,
    OrdinalEncoder,
    StandardScaler,
)


def text_columns() -> Iterator[Case]:
    """Texts beside numbers."""
    yield Case(
        "sklearn.compose.ColumnTransformer",
        "text beside numbers",
        fit_texts(ColumnTransformer(text_beside_numbers(), remainder="drop"), tables),
        rows=tables,
    )


def columns() -> Iterator[Case]:
    """ColumnTransformer by names, positions, slices, masks and selectors."""
    case = partial(Case, "sklearn.compose.ColumnTransformer", kind="elementwise")
    yield case(
        "positions, remainder",
        fit(
            ColumnTransformer(
                [("a", StandardScaler(), [2, 0]), ("b", MinMaxScaler(), [-1])],
                remainder="passthrough",
            )
        ),
    )
    yield case(
        "slice, mask, drop",
        fit(
            ColumnTransformer(
                [
                    ("a", StandardScaler(), slice(1, 4)),
                    ("b", "drop", [0]),
                    ("c", "passthrough", np.arange(8) == 5),
                ]
            )
        ),
    )
    yield case(
        "remainder estimator",
        fit(ColumnTransformer([("a", "passthrough", [1])], remainder=MinMaxScaler())),
    )
    yield case("names", fit_mixed(encode(SimpleImputer())), rows=table_rows)
    by_type = [
        ("n", SimpleImputer(), make_column_selector(dtype_include="number")),
        ("t", ordinal(), make_column_selector(dtype_exclude="number")),
    ]
    yield case("selectors", fit_mixed(ColumnTransformer(by_type)), rows=table_rows)


def ordinal() -> OrdinalEncoder:
    """Return an encoder that takes unknown text."""
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)


def transformed() -> Iterator[Case]:
    """Targets transformed by functions and by transformers, of one and two columns."""
    case = partial(Case, "sklearn.compose.TransformedTargetRegressor")
    make = compose.TransformedTargetRegressor
    p = preprocessing
    yield case("nothing", fit(make(), "value"))
    for forth, back in ((np.log, np.exp), (np.log1p, np.expm1), (np.sqrt, np.square)):
        yield case(
            back.__name__,
            fit(make(RIDGE, func=forth, inverse_func=back), "positive"),
            rows=MODERATE,
        )
    scalers = (
        p.StandardScaler(),
        p.MinMaxScaler(),
        p.MaxAbsScaler(),
        p.RobustScaler(),
        p.PowerTransformer(),
        p.QuantileTransformer(n_quantiles=20),
    )
    for scaler in (
        *scalers,
        p.QuantileTransformer(n_quantiles=20, output_distribution="normal"),
        p.PowerTransformer(method="box-cox", standardize=False),
    ):
        y = "positive" if getattr(scaler, "method", "") == "box-cox" else "value"
        name = str(scaler).replace("Transformer", "")
        yield case(name, fit(make(RIDGE, transformer=scaler), y), rows=partial(rows, large=3.0))
    steps = pipeline.make_pipeline(p.StandardScaler(), "passthrough", p.PowerTransformer())
    yield case(
        "pipeline, two targets",
        fit(make(REGRESSION_TREE, transformer=steps), "values"),
        kind="trees",
    )
    yield case(
        "a column",
        lambda: make(LINEAR, transformer=p.StandardScaler()).fit(
            fit_rows(), target("value")[:, None]
        ),
    )
    boosted = xgboost.XGBRegressor(n_estimators=3, n_jobs=1)
    for scaler in (p.StandardScaler(), p.QuantileTransformer(n_quantiles=20), p.PowerTransformer()):
        yield case(
            f"{type(scaler).__name__}, xgboost",
            fit(make(boosted, transformer=scaler), "value"),
            kind="trees",
        )


CASES = (
    *text_columns(),
    *columns(),
    *transformed(),
)
