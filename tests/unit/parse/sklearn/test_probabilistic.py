"""Naive Bayes, discriminant analysis, mixtures, covariances: hostile rows and what the source
does with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.covariance import EllipticEnvelope, EmpiricalCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7])
CATEGORIES = RNG.integers(0, 3, (60, 3))


def converted(estimator: Any) -> Any:
    return hbconv.convert(estimator, backend="reference")


def agree(source: Any, rows: Any, rtol: float = 1e-10) -> None:
    model = converted(source)
    np.testing.assert_array_equal(model.predict(rows), source.predict(rows))
    np.testing.assert_allclose(
        model.predict_proba(rows), source.predict_proba(rows), rtol=rtol, atol=1e-300
    )


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([3, 0, 0], "not seen"),
        ([0, 99, 0], "not seen"),
        ([-1, 0, 0], "Negative"),
        ([0, 0, -1e300], "Negative"),
    ],
)
def test_categories_never_seen_are_refused(row: list[float], message: str) -> None:
    source = CategoricalNB().fit(CATEGORIES, Y)
    with pytest.raises(InputError, match=message):
        converted(source).predict(np.array([row], dtype=np.float64))
    with pytest.raises((IndexError, ValueError)):
        source.predict(np.array([row], dtype=np.float64))


def test_categories_are_cut_to_whole_numbers() -> None:
    source = CategoricalNB().fit(CATEGORIES, Y)
    agree(source, np.array([[2.999, -0.999, 0.0], [1.0, -0.0, 1.5]]))


def test_a_category_of_zero_probability() -> None:
    with np.errstate(all="ignore"):
        source = CategoricalNB(alpha=0.0, force_alpha=True, min_categories=4).fit(CATEGORIES, Y)
        got = converted(source).predict_log_proba(np.array([[3, 0, 0]]))
        want = source.predict_log_proba(np.array([[3, 0, 0]]))
    np.testing.assert_array_equal(got, want)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bayes", [MultinomialNB, ComplementNB, BernoulliNB])
@pytest.mark.parametrize(
    "before",
    [MinMaxScaler(), OneHotEncoder(sparse_output=False), OneHotEncoder()],
    ids=["scaled", "dense", "sparse"],
)
@pytest.mark.parametrize("backend", ["reference", "torch", "tvm"])
def test_counts_of_zero_probability_behind_another_step(
    bayes: Any, before: Any, backend: str
) -> None:
    """The logarithm of zero is infinite, and NaN where it meets a count of zero that is written
    out.
    """
    counts = CATEGORIES * (np.arange(3) != Y[:, None])  # of each class, one column is all zeros
    source = make_pipeline(before, bayes(alpha=0.0, force_alpha=True)).fit(counts, Y)
    model = hbconv.convert(source, backend=backend)
    np.testing.assert_array_equal(model.predict(counts), source.predict(counts))
    np.testing.assert_allclose(
        model.predict_log_proba(counts), source.predict_log_proba(counts), rtol=1e-10
    )


@pytest.mark.parametrize("threshold", [0.0, 0.1, np.float64(0.1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_beside_the_threshold(threshold: float, dtype: str) -> None:
    source = BernoulliNB(binarize=threshold).fit(X, Y)
    at = np.array(threshold, dtype=dtype)
    values = [
        at,
        np.nextafter(at, np.array(1, dtype)),
        np.nextafter(at, np.array(-1, dtype)),
        np.array(-0.0, dtype),
    ]
    agree(
        source,
        np.array([[a, b, 1.0] for a in values for b in values], dtype=dtype),
        1e-6 if dtype == "float32" else 1e-10,
    )


@pytest.mark.parametrize(
    "estimator", [MultinomialNB(), ComplementNB(), BernoulliNB()], ids=lambda e: type(e).__name__
)
def test_sparse_counts(estimator: Any) -> None:
    sparse = scipy.sparse.csr_matrix(CATEGORIES)
    agree(estimator.fit(sparse, Y), sparse)
    agree(estimator.fit(sparse, Y), CATEGORIES)


@pytest.mark.parametrize(
    "estimator",
    [GaussianNB(), MultinomialNB(), ComplementNB(), BernoulliNB(), CategoricalNB()],
    ids=lambda e: type(e).__name__,
)
def test_one_class(estimator: Any) -> None:
    agree(estimator.fit(CATEGORIES, np.full(60, "only")), CATEGORIES)


def test_gaussians_far_from_the_origin_and_far_from_the_rows() -> None:
    agree(GaussianNB().fit(X + 1e6, Y), X + 1e6, 1e-9)
    agree(GaussianNB().fit(X, Y), np.array([[1e150, 0.0, 0.0], [-1e8, 1e8, 1e8]]), 1e-9)
    agree(QuadraticDiscriminantAnalysis().fit(X + 1e6, Y), X + 1e6, 1e-6)


@pytest.mark.parametrize(
    "source", [NearestCentroid(), QuadraticDiscriminantAnalysis(), GaussianNB()], ids=str
)
def test_densities_that_lose_the_number_of_classes(source: Any) -> None:
    """Far away all classes are as dense; sources differ in what they make of it."""
    rows = np.array([[1.0], [-1.0]]) * np.logspace(0, 150, 31)[:, None, None] * np.ones(3)
    agree(source.fit(X, Y), rows.reshape(-1, 3), rtol=1e-7)


def test_linear_discriminants_of_zero_probability_have_a_finite_logarithm() -> None:
    for y in (Y, Y > 0):
        source = LinearDiscriminantAnalysis().fit(X, y)
        rows = 1e6 * X
        assert (source.predict_proba(rows) == 0).any()
        np.testing.assert_allclose(
            converted(source).predict_log_proba(rows),
            source.predict_log_proba(rows),
            rtol=1e-8,
            atol=1e-12,
        )
        assert np.isfinite(converted(source).predict_log_proba(rows)).all()


def test_linear_discriminants_of_one_class_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="LinearDiscriminantAnalysis with classes_="):
        converted(LinearDiscriminantAnalysis().fit(X, np.zeros(60, int)))


def test_the_solver_without_discriminants_has_no_transform() -> None:
    assert (
        "transform"
        not in converted(LinearDiscriminantAnalysis(solver="lsqr").fit(X, Y)).graph.outputs
    )


def test_whole_numbers_cut_the_distances_of_a_mixture_as_in_the_source() -> None:
    source = GaussianMixture(2, random_state=0).fit(X)
    rows = np.array([[1, 2, 0], [0, -1, 3]])
    np.testing.assert_allclose(
        converted(source).score_samples(rows), source.score_samples(rows), rtol=1e-12
    )
    assert (source.score_samples(rows) != source.score_samples(rows.astype(np.float64))).any()


def test_an_unknown_kind_of_covariance_is_refused_by_name() -> None:
    for each in (GaussianMixture, BayesianGaussianMixture):
        source = each(n_components=2, random_state=0).fit(X)
        source.covariance_type = "banded"
        with pytest.raises(
            UnsupportedError, match=f"{each.__name__} with covariance_type='banded'"
        ):
            converted(source)


def test_distances_of_rows_at_the_centre() -> None:
    source = EmpiricalCovariance().fit(X)
    centre = source.location_[None]
    np.testing.assert_array_equal(converted(source).mahalanobis(centre), [0.0])


def test_a_row_on_the_border_is_inside() -> None:
    source = EllipticEnvelope(random_state=0).fit(X)
    source.offset_ = source.score_samples(X[:1])[0]
    model = converted(source)
    source.offset_ = model.score_samples(X[:1])[0]
    assert converted(source).predict(X[:1]) == [1]


def test_a_class_far_from_all_others_takes_no_digits_from_them() -> None:
    far = X + 1e9 * (Y == 1)[:, None]
    source = QuadraticDiscriminantAnalysis(reg_param=0.1).fit(far, Y)
    want = source.decision_function(X)[:, [0, 2]]
    np.testing.assert_allclose(converted(source).decision_function(X)[:, [0, 2]], want, rtol=1e-10)


def test_discriminants_of_a_low_rank_are_fewer_than_the_classes_allow():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6))
    source = LinearDiscriminantAnalysis().fit(x, np.arange(60) % 5)
    assert source.scalings_.shape[1] < source._max_components
    model = hbconv.convert(source, "reference")
    for method in ("transform", "predict_proba"):
        np.testing.assert_allclose(getattr(model, method)(x), getattr(source, method)(x))
