"""Imputers, scalers, encoders, selectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import WIDTH, draw, fit_rows, fit_table, rows, table_rows, target, with_missing
from sklearn import feature_selection, impute, preprocessing
from sklearn.linear_model import LogisticRegression, Ridge

Entries = partial(Case, kind="elementwise")


def fit(
    estimator: Any, y: str | None = None, *, missing: bool = False, dtype: str = "float64"
) -> Callable[[], Any]:
    """Return a function that fits the estimator."""
    x = (with_missing(fit_rows()) if missing else fit_rows()).astype(dtype)
    return lambda: estimator.fit(x, None if y is None else target(y))


def missing_rows(n: int) -> np.ndarray:
    """Rows with missing values."""
    return with_missing(rows(n))


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


def scalers() -> Iterator[Case]:
    """Scalers, which keep the input's dtype."""
    name, p = "sklearn.preprocessing.{}".format, preprocessing
    yield Entries(name("StandardScaler"), "default", fit(p.StandardScaler()))
    yield Entries(name("StandardScaler"), "no mean", fit(p.StandardScaler(with_mean=False)))
    yield Entries(
        name("StandardScaler"),
        "no scale, float32",
        fit(p.StandardScaler(with_std=False), dtype="float32"),
    )
    yield Entries(
        name("StandardScaler"), "neither", fit(p.StandardScaler(with_mean=False, with_std=False))
    )
    yield Entries(name("MinMaxScaler"), "default", fit(p.MinMaxScaler()))
    yield Entries(
        name("MinMaxScaler"),
        "clip to -2 ... 3",
        fit(p.MinMaxScaler(feature_range=(-2, 3), clip=True)),
    )
    yield Entries(name("MaxAbsScaler"), "default", fit(p.MaxAbsScaler()))
    yield Entries(name("RobustScaler"), "default", fit(p.RobustScaler()))
    yield Entries(
        name("RobustScaler"),
        "wide, unit variance",
        fit(p.RobustScaler(quantile_range=(5, 95), unit_variance=True)),
    )
    yield Entries(name("RobustScaler"), "no centre", fit(p.RobustScaler(with_centering=False)))
    for norm in ("l2", "l1", "max"):
        yield Case(name("Normalizer"), norm, fit(p.Normalizer(norm)), rows=rows_with_zeros)
    yield Entries(name("Binarizer"), "0", fit(p.Binarizer()))
    yield Entries(name("Binarizer"), "0.5", fit(p.Binarizer(threshold=0.5)))


def rows_with_zeros(n: int) -> np.ndarray:
    """Rows of which some are all zeros."""
    x = rows(n)
    x[2::5] = 0.0
    return x


def features() -> Iterator[Case]:
    """Polynomials and bins."""
    name, p = "sklearn.preprocessing.{}".format, preprocessing
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


def small_counts(n: int) -> np.ndarray:
    """Whole numbers from 0 to 7, of which the last two were not seen in fitting."""
    return np.random.default_rng(n).integers(0, 8, (n, WIDTH)).astype(np.float64)


def seen_counts(n: int) -> np.ndarray:
    """Whole numbers from 0 to 5, all seen in fitting."""
    return small_counts(n) % 6


def text_rows(n: int) -> Any:
    """Text columns, with a colour never seen."""
    return table_rows(n)[["colour", "size"]]


def seen_text(n: int) -> Any:
    """Text columns, all seen in fitting."""
    return text_rows(n).replace({"mauve": "red"})


def encoders() -> Iterator[Case]:
    """Encoders of numbers and of text."""
    name, p = "sklearn.preprocessing.{}".format, preprocessing
    counts = draw(np.random.default_rng(0), 200)[:, [0]].repeat(WIDTH, axis=1)
    text = fit_table()[["colour", "size"]]
    one_hot, ordinal = (
        partial(Entries, name("OneHotEncoder")),
        partial(Entries, name("OrdinalEncoder")),
    )
    yield one_hot(
        "text, unknown ignored",
        lambda: p.OneHotEncoder(handle_unknown="ignore").fit(text),
        rows=text_rows,
    )
    yield one_hot("text, error", lambda: p.OneHotEncoder().fit(text), rows=seen_text)
    yield one_hot(
        "text, dense, drop first",
        lambda: p.OneHotEncoder(drop="first", sparse_output=False).fit(text),
        rows=seen_text,
    )
    yield one_hot(
        "text, infrequent",
        lambda: p.OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist").fit(text),
        rows=text_rows,
    )
    yield one_hot(
        "numbers, unknown ignored",
        lambda: p.OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(counts),
        rows=small_counts,
    )
    yield one_hot(
        "numbers, min frequency, float32 out", partial(_frequent, counts), rows=small_counts
    )
    yield ordinal("text, error", lambda: p.OrdinalEncoder().fit(text), rows=seen_text)
    yield ordinal(
        "text, unknown -1",
        lambda: p.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(text),
        rows=text_rows,
    )
    yield ordinal(
        "numbers", lambda: p.OrdinalEncoder(dtype=np.float32).fit(counts), rows=seen_counts
    )
    labels = partial(Entries, name("LabelEncoder"), ask=_ask_labels, methods=("transform",))
    yield labels(
        "numbers", lambda: p.LabelEncoder().fit(counts[:, 0]), rows=lambda n: seen_counts(n)[:, :1]
    )


def _frequent(counts: np.ndarray) -> Any:
    encoder = preprocessing.OneHotEncoder(
        min_frequency=0.15,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
        dtype=np.float32,
    )
    return encoder.fit(counts)


def _ask_labels(estimator: Any, method: str, x: Any) -> Any:
    return getattr(estimator, method)(x[:, 0])


def selectors() -> Iterator[Case]:
    """Feature selectors."""
    name, s = "sklearn.feature_selection.{}".format, feature_selection
    yield Entries(name("SelectKBest"), "3", fit(s.SelectKBest(s.f_classif, k=3), "three"))
    yield Entries(name("SelectKBest"), "all", fit(s.SelectKBest(s.f_regression, k="all"), "value"))
    yield Entries(
        name("SelectPercentile"), "40", fit(s.SelectPercentile(s.f_classif, percentile=40), "two")
    )
    yield Entries(name("VarianceThreshold"), "0.3", fit(s.VarianceThreshold(0.3)))
    l1 = LogisticRegression(solver="liblinear", l1_ratio=1, C=0.1)
    yield Entries(name("SelectFromModel"), "l1", fit(s.SelectFromModel(l1), "two"))
    yield Entries(name("SelectFromModel"), "prefit", partial(_prefit, l1))
    select = partial(Entries, same_as="SelectKBest")
    for each in ("SelectFpr", "SelectFdr", "SelectFwe"):
        yield select(name(each), "default", fit(getattr(s, each)(s.f_classif), "three"))
    yield select(
        name("GenericUnivariateSelect"),
        "k best",
        fit(s.GenericUnivariateSelect(s.f_classif, mode="k_best", param=2), "three"),
    )
    yield select(
        name("SequentialFeatureSelector"),
        "ridge",
        fit(s.SequentialFeatureSelector(Ridge(), n_features_to_select=2, cv=2), "value"),
    )
    yield Case(
        name("RFE"),
        "logistic",
        fit(s.RFE(LogisticRegression(), n_features_to_select=3), "three_text"),
    )
    yield Case(name("RFECV"), "ridge", fit(s.RFECV(Ridge(), cv=2), "value"), same_as="RFE")


def _prefit(estimator: Any) -> Any:
    return feature_selection.SelectFromModel(
        estimator.fit(fit_rows(), target("two")), prefit=True, max_features=3
    ).fit(fit_rows(), target("two"))


CASES = (*imputers(), *scalers(), *features(), *encoders(), *selectors())
