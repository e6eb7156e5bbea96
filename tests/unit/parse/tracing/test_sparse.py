"""Functions and classes of users behind a step that makes a sparse matrix."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from tolerances import FUNCTION, assert_units

import hbconv
from hbconv.errors import UnsupportedError

DOCUMENTS = ["aa bb cc", "bb cc dd dd", "xx yy", "aa xx yy", "", "dd dd dd ee"] * 5
LABELS = np.arange(len(DOCUMENTS)) % 3
CODES = np.array([[1.0, 2.0], [2.0, 3.0], [1.0, 3.0], [4.0, 2.0]] * 3)

function_of = partial(FunctionTransformer, accept_sparse=True)


def to_array(x):
    return x.toarray()


def to_dense(x):
    return np.asarray(x.todense())


def to_array_if_sparse(x):
    return x.toarray() if sp.issparse(x) else x


def to_array_if_it_can(x):
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x)


def to_array_of_a_matrix(x):
    return x.toarray() if isinstance(x, sp.spmatrix) else x


def to_array_unless_one(x):
    return x if isinstance(x, (int, np.ndarray)) else x.toarray()


DENSE = (
    to_array, to_dense, to_array_if_sparse, to_array_if_it_can, to_array_of_a_matrix,
    to_array_unless_one,
)  # fmt: skip

SPARSE = {
    "doubled": lambda x: x * 2,
    "halved": lambda x: 0.5 * x / 3.0,
    "squared": lambda x: x.power(2),
    "multiplied": lambda x: x.multiply(3),
    "roots": lambda x: np.abs(np.sqrt(x)),
    "logarithms": lambda x: x.log1p(),
    "whole": lambda x: x.multiply(0.5).floor(),
    "negative": lambda x: -abs(x),
    "narrow": lambda x: x.astype(np.float32),
    "columns": lambda x: x.tocsc()[:, [2, 0]],
    "slice": lambda x: x[:, :2],
    "csc": lambda x: x.tocsc(),
    "csr": lambda x: x.copy().tocsr(),
}


class ToArray(TransformerMixin, BaseEstimator):
    """As written in many pipelines of texts."""

    def fit(self, x, y=None):
        return self

    def transform(self, x, y=None):
        return x.toarray()


class Weighted(TransformerMixin, BaseEstimator):
    """Asks an estimator of its own, and learns weights."""

    def fit(self, x, y=None):
        self.weights_ = np.linspace(1, 2, x.shape[1])
        self.scaler_ = StandardScaler().fit(x.toarray())
        return self

    def transform(self, x):
        return np.column_stack([x.dot(self.weights_), self.scaler_.transform(x.toarray())])


@pytest.mark.parametrize("function", DENSE)
@pytest.mark.parametrize("vectorizer", [CountVectorizer(), TfidfVectorizer()])
@pytest.mark.parametrize("final", [GaussianNB(), HistGradientBoostingClassifier(max_iter=3)])
def test_arrays_of_documents(function, vectorizer, final):
    source = make_pipeline(vectorizer, function_of(function), final).fit(DOCUMENTS, LABELS)
    model = hbconv.convert(source)
    np.testing.assert_allclose(
        model.predict_proba(DOCUMENTS), source.predict_proba(DOCUMENTS), rtol=0, atol=1e-12
    )
    np.testing.assert_array_equal(model.predict(["zz"]), source.predict(["zz"]))


@pytest.mark.parametrize("own", [ToArray(), Weighted()])
def test_classes_of_users(own):
    source = make_pipeline(TfidfVectorizer(), own, LogisticRegression()).fit(DOCUMENTS, LABELS)
    np.testing.assert_allclose(
        hbconv.convert(source).predict_proba(DOCUMENTS),
        source.predict_proba(DOCUMENTS),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("first", [CountVectorizer(), OneHotEncoder()])
def test_sparse_answers(name, first):
    rows = DOCUMENTS if isinstance(first, CountVectorizer) else CODES
    source = make_pipeline(first, function_of(SPARSE[name])).fit(rows)
    model = hbconv.convert(source)
    for given in (rows, rows[:1], rows):
        want, got = source.transform(given), model.transform(given)
        assert type(got) is type(want)
        # numpy's vectors with AVX-512 err otherwise than its numbers one by one.
        limit = FUNCTION if name == "logarithms" else 0
        assert_units(name, got.toarray(), want.toarray(), limit)


@pytest.mark.parametrize("function", [to_array_if_sparse, to_array_if_it_can])
def test_arrays_stay_arrays(function):
    source = make_pipeline(StandardScaler(), FunctionTransformer(function)).fit(CODES)
    np.testing.assert_array_equal(hbconv.convert(source).transform(CODES), source.transform(CODES))


REFUSED = {
    "products of matrices": (lambda x: x * x.T.T, "sparse matrix"),
    "its own product": (lambda x: x * x, r"by \* with other than a number"),
    "powers of matrices": (lambda x: x.power(0), "other than a positive number"),
    "numbers of rows": (lambda x: x.sum(axis=1), "uses sum of a sparse matrix"),
    "its nonzeros": (lambda x: x.data, "uses data of a sparse matrix"),
    "division by zero": (lambda x: x * np.inf, "differs"),
    "exponentials": (np.exp, "numpy.exp, which takes no sparse matrix"),
    "squares, which are products": (np.square, "numpy.square, which takes no sparse matrix"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    function, why = REFUSED[name]
    source = make_pipeline(OneHotEncoder(), FunctionTransformer(np.abs)).fit(CODES)
    source[-1].func = function
    with pytest.raises(UnsupportedError, match=why):
        hbconv.convert(source)


def test_a_square_of_a_square_matrix_is_a_product():
    """With as many rows as columns the source answers, and by another product."""
    rows = np.eye(3)[[0, 0, 1]] * 2
    source = make_pipeline(OneHotEncoder(), FunctionTransformer(np.abs)).fit(rows)
    source[-1].func = np.square
    encoded = source[:-1].transform(rows[:, :])
    assert (np.square(encoded[:, :3]) != encoded[:, :3].power(2)).nnz
    with pytest.raises(UnsupportedError, match=r"numpy\.square"):
        hbconv.convert(source)


class Encoding(TransformerMixin, BaseEstimator):
    """Answers what an encoder of its own makes of rows."""

    def fit(self, x, y=None):
        self.encoder_ = OneHotEncoder(handle_unknown="ignore").fit(x)
        return self

    def transform(self, x):
        return self.encoder_.transform(x)


def test_a_class_may_answer_a_sparse_matrix():
    source = Encoding().fit(CODES)
    want, got = source.transform(CODES), hbconv.convert(source, sample=CODES).transform(CODES)
    assert type(got) is type(want)
    np.testing.assert_array_equal(got.toarray(), want.toarray())
