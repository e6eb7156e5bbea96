"""Linear models, perceptrons and searches: what the matrix does not reach."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.errors import InputError, NotFittedError, UnsupportedError

X = np.random.default_rng(0).normal(size=(60, 4))


def converted(estimator: Any) -> Any:
    return hbconv.convert(estimator, backend="reference")


def quick(estimator: Any, y: Any) -> Any:
    """Fit without waiting for convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def binary() -> LogisticRegression:
    return LogisticRegression().fit(X, X[:, 0] > 0)


@pytest.mark.parametrize(
    "labels",
    [["é", "日本"], [False, True], [np.int8(3), np.int8(-1)], [2**40, -5], ["", "long label"]],
)
@pytest.mark.parametrize("as_object", [False, True])
def test_labels_of_any_type(labels: list[Any], as_object: bool) -> None:
    if as_object and not isinstance(labels[0], str):
        labels = [str(label) for label in labels]
    y = np.array(labels, dtype=object if as_object else None)[(X[:, 0] > 0).astype(int)]
    source = LogisticRegression().fit(X, y)
    got = converted(source).predict(X)
    want = source.predict(X)
    assert got.dtype == want.dtype
    assert (got == want).all()


def test_score_of_zero_is_the_first_class() -> None:
    model = binary()
    model.intercept_ = np.zeros(1)
    zero = np.zeros((1, 4))
    assert converted(model).predict(zero) == model.predict(zero) == [False]
    assert (converted(model).predict_proba(zero) == 0.5).all()


def test_equal_scores_are_the_first_class() -> None:
    model = LogisticRegression().fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    model.coef_, model.intercept_ = np.zeros((3, 4)), np.array([0.0, 1.0, 1.0])
    assert (converted(model).predict(X) == model.predict(X)).all()
    assert set(converted(model).predict(X)) == {1}


@pytest.mark.parametrize("weights", ["float32", "float64"])
@pytest.mark.parametrize("bias", ["float32", "float64"])
@pytest.mark.parametrize("rows", ["float32", "float64", "int64"])
def test_dtypes_mix_as_in_numpy(weights: str, bias: str, rows: str) -> None:
    model = LinearRegression().fit(X, X[:, 0])
    model.coef_, model.intercept_ = (
        np.array([1 / 3, 2 / 3, 0.1, 4.0]).astype(weights),
        np.float64(1 / 7).astype(bias),
    )
    x = (10 * X).astype(rows)
    got = converted(model).predict(x)
    want = model.predict(x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(
        got, want, rtol=0, atol=1e-4 if "float32" in (weights, rows) else 1e-13
    )


def test_intercept_that_is_a_python_number_keeps_the_dtype() -> None:
    model = Ridge(fit_intercept=False).fit(X.astype(np.float32), X[:, 0].astype(np.float32))
    assert converted(model).predict(X.astype(np.float32)).dtype == np.float32


def test_probability_methods_follow_the_loss() -> None:
    assert hasattr(
        converted(SGDClassifier(loss="modified_huber").fit(X, X[:, 0] > 0)), "predict_proba"
    )
    assert not hasattr(converted(SGDClassifier(loss="hinge").fit(X, X[:, 0] > 0)), "predict_proba")


def test_perceptron_of_one_class() -> None:
    model = quick(MLPClassifier((3,), max_iter=3), np.full(60, "only"))
    assert (converted(model).predict(X) == model.predict(X)).all()
    np.testing.assert_allclose(
        converted(model).predict_proba(X), model.predict_proba(X), rtol=1e-12
    )


def test_perceptron_of_sparse_labels_answers_sparse() -> None:
    model = quick(
        MLPClassifier((3,), max_iter=3), scipy.sparse.csr_array((X[:, :3] > 0).astype(int))
    )
    got = converted(model).predict(X)
    want = model.predict(X)
    assert scipy.sparse.issparse(got)
    assert got.dtype == want.dtype
    assert (got.toarray() == want.toarray()).all()


def test_unknown_activation_is_refused_by_name() -> None:
    model = quick(MLPClassifier((3,), max_iter=3), X[:, 0] > 0)
    model.activation = "gelu"
    with pytest.raises(UnsupportedError, match="MLPClassifier with activation='gelu'"):
        converted(model)


def test_search_without_refit_is_refused_by_name() -> None:
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2, refit=False).fit(X, X[:, 0])
    with pytest.raises(UnsupportedError, match=r"GridSearchCV with refit=False.*refit=True"):
        converted(search)
    with pytest.raises(
        UnsupportedError, match=r"GridSearchCV with refit=False \(step .ridge/GridSearchCV.\)"
    ):
        converted(make_pipeline(StandardScaler(), Ridge()).fit(X, X[:, 0]).set_params(ridge=search))


def test_search_that_was_not_fitted() -> None:
    with pytest.raises(NotFittedError, match="GridSearchCV"):
        converted(GridSearchCV(Ridge(), {"alpha": [1.0]}))


def test_search_reads_the_columns_its_best_estimator_reads() -> None:
    import pandas as pd

    table = pd.DataFrame(X, columns=list("abcd"))
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2).fit(table, X[:, 0])
    model = converted(search)
    np.testing.assert_array_equal(
        model.predict({name: table[name] for name in "dcba"}), model.predict(table)
    )
    with pytest.raises(InputError, match="another order"):
        model.predict(table[list("dcba")])


def test_components_of_constant_rows_have_no_likelihood() -> None:
    constant = np.ones((20, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = PCA(2).fit(constant)
    with pytest.raises(np.linalg.LinAlgError):
        model.score_samples(constant)
    assert converted(model).methods == ("transform",)
    np.testing.assert_array_equal(converted(model).transform(X), model.transform(X))


def test_an_ill_conditioned_covariance_is_the_sources_to_warn_of() -> None:
    flat = X @ np.ones((4, 4)) + 1e-8 * X
    assert "transform" in converted(PCA(3).fit(flat)).methods


def test_more_components_than_the_rows_span_have_no_likelihood() -> None:
    """The source inverts a matrix that is singular but for rounding: its answers differ with
    the number of rows asked at once.
    """
    model = PCA(svd_solver="full").fit(np.random.default_rng(0).normal(size=(3, 9)))
    assert converted(model).methods == ("transform",)
    assert "score_samples" in converted(PCA(svd_solver="full").fit(X)).methods


@pytest.mark.parametrize("target", [0.0, 7.0])
def test_one_class_alone(target: float) -> None:
    """The source has no label for a score above 0, and fails over rows that have one."""
    model = RidgeClassifier().fit(X, np.full(len(X), target))
    np.testing.assert_array_equal(converted(model).predict(X), model.predict(X))
    np.testing.assert_array_equal(converted(model).decision_function(X), model.decision_function(X))
    model.intercept_ = np.ones(1)
    with pytest.raises(IndexError):
        model.predict(X)
    with pytest.raises(InputError, match="second class"):
        converted(model).predict(X)
