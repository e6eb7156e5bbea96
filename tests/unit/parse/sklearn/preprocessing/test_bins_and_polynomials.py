import warnings

import numpy as np
import pytest
from agreement import agree, hostile, refuses_as_source
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, PolynomialFeatures

RNG = np.random.default_rng(11)
TRAIN = np.column_stack(
    [
        RNG.normal(0, 1, 120),
        RNG.integers(0, 4, 120) / 10,
        np.full(120, 2.5),
        RNG.exponential(3, 120),
    ]
)
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])


def fitted(transformer, X=TRAIN):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformer.fit(X)


@DTYPES
@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal"])
@pytest.mark.parametrize("options", [
    {"strategy": "uniform"}, {"strategy": "quantile"}, {"strategy": "kmeans"},
    {"n_bins": [2, 3, 4, 7]}, {"dtype": np.float32}, {"dtype": np.float64},
], ids=str)  # fmt: skip
def test_bins_at_their_edges(options, encode, dtype):
    bins = fitted(
        KBinsDiscretizer(encode=encode, quantile_method="averaged_inverted_cdf", **options)
    )
    rows = hostile(
        TRAIN,
        *np.concatenate(bins.bin_edges_)[np.isfinite(np.concatenate(bins.bin_edges_))],
        0.0,
        -0.0,
        1e30,
        -1e30,
    )
    agree(bins, (np.clip(rows, -1e9, 1e9) if dtype == "int64" else rows).astype(dtype))


def test_bins_fitted_on_float32():
    bins = fitted(
        KBinsDiscretizer(encode="ordinal", quantile_method="averaged_inverted_cdf"),
        TRAIN.astype(np.float32),
    )
    rows = hostile(
        TRAIN,
        *np.concatenate(bins.bin_edges_)[np.isfinite(np.concatenate(bins.bin_edges_))].astype(
            float
        ),
    )
    agree(bins, rows)
    agree(bins, rows.astype(np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bins_refuse(value):
    refuses_as_source(
        fitted(KBinsDiscretizer(quantile_method="averaged_inverted_cdf")),
        np.full((1, 4), value),
        "NaN, infinity",
    )


def test_bins_refuse_what_overflows_their_dtype():
    bins = fitted(KBinsDiscretizer(dtype=np.float32, quantile_method="averaged_inverted_cdf"))
    with np.errstate(over="ignore"):
        refuses_as_source(bins, np.full((1, 4), 1e300), "too large")


@DTYPES
@pytest.mark.parametrize("options", [
    {}, {"degree": 1}, {"degree": 3}, {"degree": 4}, {"degree": (2, 3)}, {"degree": (0, 2)},
    {"degree": (3, 3), "include_bias": False}, {"degree": 0},
    {"interaction_only": True}, {"degree": 3, "interaction_only": True},
    {"degree": 6, "interaction_only": True, "include_bias": False},
    {"degree": 3, "include_bias": False}, {"degree": 2, "order": "F"},
], ids=str)  # fmt: skip
def test_polynomials(options, dtype):
    rows = hostile(RNG.normal(0, 3, (40, 4)), 0.0, 0.1, -1e5)
    agree(PolynomialFeatures(**options).fit(TRAIN), rows.astype(dtype))


def test_polynomials_refuse_nan():
    refuses_as_source(PolynomialFeatures().fit(TRAIN), np.full((1, 4), np.nan), "NaN")


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_polynomials_of_a_sparse_matrix(degree):
    X = np.array([["a", "x", "1"], ["b", "y", "2"], ["b", "x", "1"]])
    agree(make_pipeline(OneHotEncoder(), PolynomialFeatures(degree)).fit(X), X[::-1])
