"""Missing values filled or shown: by a statistic, by neighbours, by prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, rows, with_missing
from matrix.fitting import NEAR, Entries, fit, missing_rows
from sklearn import impute, preprocessing
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.tree import DecisionTreeRegressor


def simple_imputers() -> Iterator[Case]:
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


def gaps(n: int) -> np.ndarray:
    """Rows with missing values, the last of nothing else."""
    x = with_missing(NEAR(n))
    x[8:][-1:] = np.nan
    return x


def fit_gaps(estimator: Any, dtype: str = "float64", missing: float = np.nan) -> Callable[[], Any]:
    """Return a function that fits the estimator on rows of which the second column is all
    missing.
    """
    x = with_missing(fit_rows()).astype(dtype)
    x[:, 1] = np.nan
    return lambda: estimator.fit(np.where(np.isnan(x), np.array(missing, dtype), x))


def knn_imputers() -> Iterator[Case]:
    """Means of neighbours."""
    case = partial(Case, "sklearn.impute.KNNImputer", rows=gaps)
    yield case("default", fit_gaps(KNNImputer()))
    yield case(
        "distance, empty columns",
        fit_gaps(KNNImputer(weights="distance", n_neighbors=3, keep_empty_features=True)),
    )
    yield case(
        "indicator, all donors, float32",
        fit_gaps(KNNImputer(n_neighbors=1000, add_indicator=True), "float32"),
    )
    yield case(
        "number",
        fit_gaps(KNNImputer(missing_values=-1), missing=-1.0),
        rows=lambda n: np.where(np.isnan(gaps(n)), -1.0, gaps(n)),
    )


def some_missing(n: int) -> np.ndarray:
    """Rows with missing values in the odd columns."""
    return with_missing(rows(n, large=30.0))


def fit_iterative(**settings: Any) -> Callable[[], Any]:
    """Return a function that fits an iterative imputer."""
    return lambda: IterativeImputer(**{"max_iter": 3, "random_state": 0, **settings}).fit(
        with_missing(fit_rows())
    )


def iterative_imputers() -> Iterator[Case]:
    """Missing values predicted from the other columns."""
    case = partial(Case, "sklearn.impute.IterativeImputer", rows=some_missing)
    yield case("ridge", fit_iterative())
    yield case(
        "bounds, indicator, neighbours",
        fit_iterative(
            min_value=-1,
            max_value=[2.0] * 8,
            add_indicator=True,
            n_nearest_features=3,
            skip_complete=True,
        ),
    )
    yield case(
        "trees",
        fit_iterative(
            estimator=DecisionTreeRegressor(max_depth=3),
            initial_strategy="median",
            imputation_order="random",
        ),
    )
    yield case("no rounds", fit_iterative(max_iter=0, initial_strategy="most_frequent"))
    yield case("an empty column, kept", lambda: fit_empty(keep_empty_features=True))
    yield case("an empty column", fit_empty)


def fit_empty(**settings: Any) -> Any:
    """Fit an iterative imputer on rows of which one column holds nothing."""
    x = with_missing(fit_rows())
    x[:, 2] = np.nan
    return IterativeImputer(max_iter=2, initial_strategy="median", **settings).fit(x)


CASES = (
    *simple_imputers(),
    *knn_imputers(),
    *iterative_imputers(),
)
