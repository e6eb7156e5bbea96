"""Missing values filled, or shown, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows
from matrix.fitting import Entries, fit, missing_rows
from sklearn import impute, preprocessing


def imputers() -> Iterator[Case]:
    """SimpleImputer and MissingIndicator."""
    name = "sklearn.impute.{}".format
    simple = partial(Entries, name("SimpleImputer"), rows=missing_rows)
    for strategy in ("mean", "median", "most_frequent", "constant"):
        yield simple(strategy, fit(impute.SimpleImputer(strategy=strategy), missing=True))
    yield simple("mean, indicator", fit(impute.SimpleImputer(add_indicator=True), missing=True))
    yield simple(
        "constant -1, float32",
        fit(
            impute.SimpleImputer(strategy="constant", fill_value=-1), missing=True, dtype="float32"
        ),
    )
    yield Entries(
        name("SimpleImputer"), "zeros are missing", fit(impute.SimpleImputer(missing_values=0))
    )
    yield simple(
        "empty column", partial(_fit_empty_column, impute.SimpleImputer(strategy="median"))
    )
    yield simple(
        "empty column kept",
        partial(_fit_empty_column, impute.SimpleImputer(keep_empty_features=True)),
    )
    for features in ("missing-only", "all"):
        indicator = impute.MissingIndicator(features=features, error_on_new=False)
        yield Entries(
            name("MissingIndicator"), features, fit(indicator, missing=True), rows=missing_rows
        )


def _fit_empty_column(estimator: Any) -> Any:
    x = fit_rows().copy()
    x[:, 2] = np.nan
    return estimator.fit(x)


def features() -> Iterator[Case]:
    """Polynomials and bins."""
    name = "sklearn.preprocessing.{}".format
    p = preprocessing
    yield Entries(name("PolynomialFeatures"), "2", fit(p.PolynomialFeatures(2)))
    yield Entries(
        name("PolynomialFeatures"),
        "3, interactions",
        fit(p.PolynomialFeatures(3, interaction_only=True)),
    )
    yield Entries(
        name("PolynomialFeatures"),
        "2 ... 3, no bias",
        fit(p.PolynomialFeatures((2, 3), include_bias=False)),
    )
    bins = partial(p.KBinsDiscretizer, subsample=None, random_state=0)
    averaged = {"strategy": "quantile", "quantile_method": "averaged_inverted_cdf"}
    yield Entries(name("KBinsDiscretizer"), "one-hot, quantile", fit(bins(4, **averaged)))
    yield Entries(
        name("KBinsDiscretizer"),
        "ordinal, uniform",
        fit(bins(5, encode="ordinal", strategy="uniform")),
    )
    yield Entries(
        name("KBinsDiscretizer"),
        "dense, kmeans",
        fit(bins(3, encode="onehot-dense", strategy="kmeans")),
    )
    yield Entries(
        name("KBinsDiscretizer"),
        "float32 out",
        fit(bins(4, encode="ordinal", dtype=np.float32, **averaged)),
    )


CASES = (*imputers(),)
