"""Support vector machines: traps, ties, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn import svm
from sklearn.linear_model import SGDOneClassSVM
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.containers import PairwiseCoupling
from hbconv.errors import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore:The `probability` parameter")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4))
THREE = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.6, 0.6])


def converted(estimator: Any) -> Any:
    return hbconv.convert(estimator, backend="reference")


def test_sigmoid_kernel_is_the_hyperbolic_tangent() -> None:
    source = svm.SVC(kernel="sigmoid", gamma=0.3, coef0=0.2).fit(X, THREE)
    np.testing.assert_allclose(
        converted(source).decision_function(X), source.decision_function(X), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_array_equal(converted(source).predict(X), source.predict(X))


def test_predict_proba_returns_probabilities_not_labels() -> None:
    source = svm.SVC(probability=True, random_state=0).fit(X, THREE)
    got = converted(source).predict_proba(X)
    assert got.shape == (90, 3)
    np.testing.assert_allclose(got, source.predict_proba(X), rtol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 4, 7, 12])
def test_probabilities_of_many_classes(n_classes: int) -> None:
    y = np.arange(300) % n_classes
    source = svm.SVC(probability=True, random_state=0).fit(
        RNG.normal(size=(300, 3))
        + 2.0 * np.eye(n_classes)[y][:, :3].sum(axis=1, keepdims=True)
        + y[:, None],
        y,
    )
    rows = RNG.normal(size=(500, 3)) * 3 + n_classes / 2
    np.testing.assert_allclose(
        converted(source).predict_proba(rows), source.predict_proba(rows), rtol=1e-9, atol=1e-12
    )


def test_a_vote_tie_is_won_by_the_first_class_whatever_the_scores() -> None:
    source = svm.SVC(kernel="linear").fit(X, THREE)
    model = converted(source)
    rows = RNG.normal(size=(4000, 4)) * 2
    pairs = (
        svm.SVC(kernel="linear", decision_function_shape="ovo")
        .fit(X, THREE)
        .decision_function(rows)
    )
    votes = np.stack(
        [
            (pairs[:, 0] > 0) * 1 + (pairs[:, 1] > 0),
            (pairs[:, 0] <= 0) * 1 + (pairs[:, 2] > 0),
            (pairs[:, 1] <= 0) * 1 + (pairs[:, 2] <= 0),
        ]
    )
    assert (votes == 1).all(axis=0).any()
    np.testing.assert_array_equal(model.predict(rows), source.predict(rows))
    np.testing.assert_allclose(
        model.decision_function(rows), source.decision_function(rows), rtol=1e-10
    )


def test_a_score_of_zero_is_a_vote_for_the_second_class() -> None:
    source = svm.SVC(kernel="linear").fit(X, THREE > 0)
    source._intercept_ = source.intercept_ = np.zeros(1)
    zero = np.zeros((1, 4))
    assert converted(source).predict(zero) == source.predict(zero)
    assert converted(source).decision_function(zero) == source.decision_function(zero) == 0.0


@pytest.mark.parametrize(
    "estimator",
    [svm.SVC(), svm.NuSVC(nu=0.2, kernel="poly"), svm.SVR(), svm.OneClassSVM()],
    ids=lambda e: type(e).__name__,
)
def test_models_of_sparse_matrices_take_both_forms(estimator: Any) -> None:
    sparse = scipy.sparse.csr_matrix(X * (X > 0))
    source = estimator.fit(sparse, THREE)
    for rows in (sparse, sparse.toarray()):
        np.testing.assert_allclose(
            converted(source).predict(rows), source.predict(rows), rtol=1e-10
        )


def test_rows_equal_to_support_vectors() -> None:
    source = svm.SVC(gamma=50.0).fit(X * 1000, THREE)
    np.testing.assert_allclose(
        converted(source).decision_function(X * 1000),
        source.decision_function(X * 1000),
        rtol=1e-10,
    )


@pytest.mark.parametrize("gamma", [0.5, 5000.0])
def test_rows_whose_distance_is_infinite(gamma: float) -> None:
    source = svm.SVC(gamma=gamma).fit(X, THREE)
    rows = np.array(
        [[1e308, -1e308, 1e308, 1e308], [1e200, 0.0, 0.0, 0.0], [-1.7e308, 1e-310, 0.0, 1e160]]
    )
    np.testing.assert_array_equal(
        converted(source).decision_function(rows), source.decision_function(rows)
    )


def test_machines_far_from_the_origin() -> None:
    far = X + 1e6
    source = svm.SVR(gamma=0.5).fit(far, X[:, 0])
    np.testing.assert_allclose(converted(source).predict(far), source.predict(far), rtol=1e-8)


def test_infinite_scores_of_sgd_outliers_are_as_the_source() -> None:
    source = SGDOneClassSVM(random_state=0).fit(X)
    source.offset_ = np.zeros(1)
    zero = np.zeros((1, 4))
    assert converted(source).predict(zero) == source.predict(zero) == [1]


def test_pairs_that_contradict_each_other_are_coupled_as_libsvm_does() -> None:
    source = svm.SVC(probability=True, random_state=0).fit(X, THREE)
    source._probA, source._probB = np.array([-500.0, 500.0, -500.0]), np.zeros(3)
    np.testing.assert_allclose(
        converted(source).predict_proba(X), source.predict_proba(X), rtol=1e-9, atol=1e-15
    )


def test_coupling_is_one_node() -> None:
    source = svm.SVC(probability=True, random_state=0).fit(X, THREE)
    assert sum(isinstance(node, PairwiseCoupling) for node in converted(source).graph.nodes()) == 1


def my_kernel(a: Any, b: Any) -> Any:
    return a @ b.T


@pytest.mark.parametrize(("estimator", "message"), [
    (svm.SVC(kernel=my_kernel), r"SVC with kernel="),
    (svm.SVC(break_ties=True, decision_function_shape="ovo"), r"SVC with break_ties=True"),
    (make_pipeline(StandardScaler(), svm.SVR(kernel=my_kernel)), r"SVR with kernel=.*svr/SVR"),
], ids=["callable", "ties", "in a pipeline"])  # fmt: skip
def test_refusals_name_the_parameter(estimator: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        converted(estimator.fit(X, THREE))


def test_probability_set_after_fitting_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="SVC with probability=True"):
        converted(svm.SVC().fit(X, THREE).set_params(probability=True))


def test_probabilities_of_too_many_classes_are_refused() -> None:
    y = np.repeat(np.arange(33), 5)
    with pytest.raises(UnsupportedError, match=r"probability=True.*CalibratedClassifierCV"):
        converted(svm.SVC(probability=True).fit(RNG.normal(size=(len(y), 2)), y))


@pytest.mark.parametrize("backend", ["reference", "tvm", "onnx"])
def test_float32_keeps_the_scores_of_many_vectors_that_cancel(backend: str) -> None:
    """Vectors are sorted by class, so that sums grow far beyond the score before they fall."""
    rows = RNG.normal(size=(1500, 8))
    source = svm.SVC(C=3.0).fit(rows, RNG.integers(0, 2, 1500))
    model = hbconv.convert(source, backend=backend, precision="fast")
    asked = rows[:200] + 0.1
    np.testing.assert_allclose(
        model.decision_function(asked), source.decision_function(asked), atol=1e-5
    )


@pytest.mark.filterwarnings("error")
def test_float32_takes_weights_beyond_it() -> None:
    source = svm.LinearSVR().fit(X, X[:, 0])
    source.coef_ = np.full(4, 1e200)
    found = hbconv.convert(source, "reference", precision="fast").predict(X)
    assert not np.isfinite(found).any()
