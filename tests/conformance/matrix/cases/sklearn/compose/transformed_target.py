"""Transformed targets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import xgboost
from matrix.case import Case
from matrix.data import fit_rows, rows, target
from matrix.fitting import MODERATE, fit
from matrix.members import LINEAR, REGRESSION_TREE, RIDGE
from sklearn import (
    compose,
    pipeline,
    preprocessing,
)


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


CASES = (*transformed(),)
