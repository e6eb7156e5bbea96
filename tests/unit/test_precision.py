"""``precision="fast"``: float32 throughout, the decisions of float32 rows exact."""

from __future__ import annotations

import numpy as np
import pytest
from fitted import available_backends
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import hbconv

X = np.random.default_rng(0).normal(size=(400, 5)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)


@pytest.mark.parametrize("backend", available_backends())
def test_fast_computes_in_float32(backend):
    for estimator in (
        make_pipeline(StandardScaler(), LogisticRegression()),
        LGBMClassifier(n_estimators=30, verbose=-1),
    ):
        source = estimator.fit(X.astype(np.float64), Y)
        fast = hbconv.convert(source, backend, precision="fast")
        for rows in (X, X.astype(np.float64)):
            answer = fast.predict_proba(rows)
            assert answer.dtype == np.float32
            # Sums of 30 float32 terms and one exp: a few units in the seventh digit.
            np.testing.assert_allclose(answer, source.predict_proba(rows), atol=2e-6)


@pytest.mark.parametrize("backend", available_backends())
def test_fast_reaches_the_leaves_of_the_source(backend):
    forest = RandomForestClassifier(20, random_state=0).fit(X, Y)
    thresholds = np.concatenate(
        [t.tree_.threshold[t.tree_.feature >= 0] for t in forest.estimators_]
    )
    rows = np.resize(thresholds, (len(thresholds) // 5, 5)).astype(np.float32)
    rows = np.concatenate(
        [X, rows, np.nextafter(rows, np.float32(np.inf)), np.nextafter(rows, np.float32(-np.inf))]
    )
    np.testing.assert_array_equal(
        hbconv.convert(forest, backend, precision="fast").apply(rows), forest.apply(rows)
    )


TEXTS = ["the cat sat", "a dog ran", "the dog sat", "cats and dogs"] * 5
RECORDS = [{"animal": text.split()[1], "words": float(len(text.split()))} for text in TEXTS]


@pytest.mark.parametrize("backend", available_backends())
@pytest.mark.parametrize(
    ("vectorizer", "given"),
    [
        (TfidfVectorizer(), TEXTS),
        (CountVectorizer(), TEXTS),
        (HashingVectorizer(n_features=32), TEXTS),
        (DictVectorizer(), RECORDS),
    ],
    ids=["tfidf", "counts", "hashes", "records"],
)
def test_fast_takes_sparse_rows(vectorizer, given, backend):
    source = make_pipeline(vectorizer, LogisticRegression()).fit(given, [0, 1, 1, 0] * 5)
    fast = hbconv.convert(source, backend, precision="fast")
    np.testing.assert_allclose(fast.predict_proba(given), source.predict_proba(given), atol=2e-6)


def test_fast_holds_constants_beyond_float32():
    """Distances of support vectors are clipped at numbers that float32 has not."""
    source = SVR().fit(X, X[:, 0])
    fast = hbconv.convert(source, "reference", precision="fast")
    np.testing.assert_allclose(fast.predict(X), source.predict(X), atol=1e-5)
