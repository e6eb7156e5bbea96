"""Models that the source answers by without a fit; those it does not are refused as not fitted,
whatever they lack.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import MissingIndicator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors, RadiusNeighborsClassifier
from sklearn.preprocessing import Normalizer, StandardScaler
from sources import ask, dense

import hbconv
from hbconv.errors import NotFittedError, UnsupportedError

RNG = np.random.default_rng(2)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] > 0.3).astype(int)
TEXTS = np.array(["red red blue", "green", "", "blue red"], dtype=object)
LOGISTIC = LogisticRegression(C=0.1).fit(X, Y)

USABLE = {
    "selector": (SelectFromModel(LOGISTIC, prefit=True), X),
    "selector of two": (
        SelectFromModel(LOGISTIC, prefit=True, threshold=-np.inf, max_features=2),
        X,
    ),
    "terms": (CountVectorizer(vocabulary=["red", "blue"]), TEXTS),
    "terms by place": (CountVectorizer(vocabulary={"blue": 1, "red": 0}), TEXTS),
    "set of terms": (CountVectorizer(vocabulary={"blue", "red"}, binary=True), TEXTS),
    "hashes": (HashingVectorizer(n_features=16), TEXTS),
    "prior": (GaussianProcessRegressor(), X),
    "prior of two": (GaussianProcessRegressor(RBF(2.0), n_targets=2), X),
    "frozen": (FrozenEstimator(LOGISTIC), X),
    "threshold": (FixedThresholdClassifier(LOGISTIC, threshold=0.4), X),
    "rows": (Normalizer(), X),
}


@pytest.mark.parametrize("name", USABLE)
def test_answers_as_the_source_without_a_fit(name):
    source, rows = USABLE[name]
    known = (
        {} if not isinstance(source, GaussianProcessRegressor | Normalizer) else {"sample": X[:5]}
    )
    model = hbconv.convert(source, backend="reference", **known)
    for method in model.methods:
        got = dense(getattr(model, method)(rows))
        want = dense(ask(source, method, rows))
        np.testing.assert_allclose(got, want, rtol=1e-12)
        assert got.dtype == want.dtype


LACKING = {
    "selector": SelectFromModel(LogisticRegression(), prefit=True),
    "selector to be fitted": SelectFromModel(LOGISTIC),
    "terms": CountVectorizer(),
    "weighed terms": TfidfVectorizer(vocabulary=["red"]),
    "threshold": FixedThresholdClassifier(LogisticRegression()),
    "frozen": FrozenEstimator(LogisticRegression()),
}


@pytest.mark.parametrize("name", LACKING)
def test_refused_as_not_fitted(name):
    with pytest.raises(NotFittedError):
        hbconv.convert(LACKING[name])


def test_an_attribute_that_is_missing_late_is_named():
    """An attempt of the source that failed leaves some of the attributes by which it counts as
    fitted.
    """
    vectorizer = CountVectorizer()
    vectorizer.fixed_vocabulary_ = False
    with pytest.raises(NotFittedError, match="vocabulary_"):
        hbconv.convert(vectorizer)
    scaler = StandardScaler().fit(X)
    del scaler.mean_
    with pytest.raises(NotFittedError, match="'mean_'"):
        hbconv.convert(scaler)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_vector_becomes_a_frame_of_one_column(library):
    source = (
        IsotonicRegression(out_of_bounds="clip").set_output(transform=library).fit(X[:, 0], X[:, 1])
    )
    model = hbconv.convert(source, "reference")
    got = model.transform(X[:, 0])
    want = source.transform(X[:, 0])
    assert type(got) is type(want)
    assert list(got.columns) == list(want.columns)
    np.testing.assert_array_equal(got.to_numpy(), want.to_numpy())
    assert isinstance(got, pd.DataFrame) == (library == "pandas")


def quietly_fitted(estimator):
    """Fit, whatever scikit-learn warns of parameters given twice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, Y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("radius", [None, 3.5], ids=["nearest", "radius"])
@pytest.mark.parametrize(
    ("p", "given"),
    [
        (3, {"p": 3}),
        (1, {"p": 1}),
        (3, {"w": np.arange(1.0, 5.0)}),
        (2, {"w": np.arange(1.0, 5.0)}),
        (2, {"p": 1}),
        (2, {"p": 3, "w": np.arange(4.0)}),
    ],
    ids=["3", "1", "weights", "2, weights", "1 for 2", "3 for 2, weights"],
)
def test_one_power_given_twice_is_no_contradiction(p, given, radius, dtype):
    options = {"p": p, "metric_params": dict(given), "algorithm": "brute"}
    estimator = (
        KNeighborsClassifier(**options)
        if radius is None
        else RadiusNeighborsClassifier(radius, **options)
    )
    source = quietly_fitted(estimator)
    model = hbconv.convert(source, "reference")
    np.testing.assert_allclose(
        model.predict_proba(X.astype(dtype)), source.predict_proba(X.astype(dtype)), atol=1e-7
    )


def masked(indicator):
    indicator._fit(X < 0, precomputed=True)
    return indicator


REFUSED = {
    "Give the same p": lambda: quietly_fitted(
        KNeighborsClassifier(p=1, algorithm="brute", metric_params={"p": 3})
    ),
    "of two columns": lambda: NearestNeighbors(metric="haversine", algorithm="brute").fit(X),
    "fitted on a mask": lambda: masked(MissingIndicator()),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_the_source_contradicts_is_refused(message):
    source = REFUSED[message]()
    with pytest.raises(UnsupportedError, match=message):
        hbconv.convert(source)
