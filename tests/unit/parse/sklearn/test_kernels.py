"""Kernel methods, approximations and Gaussian processes: refusals, hostile rows, the forms of
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from agreement import label
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor, kernels
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
POSITIVE = np.abs(X) * (RNG.random((40, 4)) < 0.7)
Y = X[:, 0] + X[:, 1] ** 2
TWO = Y > 0.5


def converted(estimator: Any) -> Any:
    return hbconv.convert(estimator, backend="reference")


def product(a: Any, b: Any) -> Any:
    return a @ b


def scaled_product(a: Any, b: Any, gamma: float) -> Any:
    return gamma * a @ b


class Own(kernels.RBF):
    """A kernel of the user's own."""

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        return super().__call__(X, Y) + 1


@pytest.mark.parametrize(("estimator", "message"), [
    (KernelRidge(kernel=product), r"KernelRidge with kernel='product'"),
    (KernelPCA(kernel=product), r"KernelPCA with kernel='product'"),
    (make_pipeline(Nystroem(product, n_components=5), KernelRidge()), r"Nystroem with kernel='product' \(step .*nystroem/Nystroem"),
    (GaussianProcessRegressor(Own(), optimizer=None), "GaussianProcessRegressor with kernel='Own'"),
    (GaussianProcessRegressor(kernels.Matern(nu=0.7) + kernels.RBF(), optimizer=None, alpha=1), r"GaussianProcessRegressor with nu=0\.7.*Bessel"),
    (GaussianProcessRegressor(kernels.PairwiseKernel(metric=scaled_product), optimizer=None, alpha=1), "GaussianProcessRegressor with metric="),
], ids=label)  # fmt: skip
def test_refusals_name_the_parameter(estimator: Any, message: str) -> None:
    estimator = estimator.fit(X, Y)
    with pytest.raises(UnsupportedError, match=message):
        converted(estimator)


@pytest.mark.parametrize(
    "metric", ["linear", "poly", "rbf", "laplacian", "sigmoid", "cosine", "chi2", "additive_chi2"]
)
def test_kernel_of_a_row_with_itself(metric: str) -> None:
    kernel = kernels.PairwiseKernel(0.1, metric=metric) + kernels.WhiteKernel(300.0)
    source = GaussianProcessClassifier(kernel, optimizer=None).fit(POSITIVE, TWO)
    rows = np.concatenate([POSITIVE, np.zeros((1, 4))])
    np.testing.assert_allclose(
        converted(source).predict_proba(rows), source.predict_proba(rows), rtol=1e-10
    )


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "laplacian", "sigmoid", "cosine"])
@pytest.mark.parametrize("fitted_on", [np.asarray, scipy.sparse.csr_matrix])
def test_rows_and_points_may_be_sparse(kernel: str, fitted_on: Any) -> None:
    source = KernelRidge(kernel=kernel, gamma=0.2, alpha=20.0).fit(fitted_on(X), Y)
    np.testing.assert_allclose(converted(source).predict(X), source.predict(X), rtol=1e-9)


@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
def test_chi_square_refuses_negative_rows_and_takes_zeros(kernel: str) -> None:
    source = KernelRidge(kernel=kernel, gamma=0.2, alpha=1000.0).fit(POSITIVE, Y)
    model = converted(source)
    zeros = np.array([[0.0, -0.0, 0.0, 0.0], [1e-310, 0.0, 5e-324, 1.0]])
    np.testing.assert_allclose(model.predict(zeros), source.predict(zeros), rtol=1e-10)
    for bad in (-1e-310, -1.0):
        with pytest.raises(InputError, match="negative values"):
            model.predict(np.array([[bad, 1.0, 1.0, 1.0]]))
        with pytest.raises(ValueError, match="negative values"):
            source.predict(np.array([[bad, 1.0, 1.0, 1.0]]))


def test_cosine_of_a_row_of_zeros() -> None:
    source = KernelRidge(kernel="cosine").fit(
        np.concatenate([X, np.zeros((1, 4))]), np.append(Y, 1.0)
    )
    rows = np.array([[0.0, 0.0, 0.0, 0.0], [1e-200, 0.0, 0.0, 0.0], [1e-12, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(
        converted(source).predict(rows), source.predict(rows), rtol=1e-12, atol=1e-15
    )


def test_points_themselves_are_at_distance_zero() -> None:
    source = GaussianProcessRegressor(kernels.Matern(0.1, nu=0.5), alpha=0.1, optimizer=None).fit(
        X + 1e4, Y
    )
    np.testing.assert_allclose(
        converted(source).predict(X + 1e4), source.predict(X + 1e4), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_additive_chi2_of_zero_is_zero(dtype: str) -> None:
    source = AdditiveChi2Sampler(sample_steps=3).fit(POSITIVE)
    rows = np.array([[0.0, -0.0, 1e-42, 1.0], [5.0, 1e-5, 1e38, 0.0]], dtype=dtype)
    got = converted(source).transform(rows)
    want = source.transform(rows)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-4 if dtype == "float32" else 1e-12)
    with pytest.raises(InputError, match="Negative values"):
        converted(source).transform(np.array([[-1e-300, 0.0, 0.0, 0.0]]))


def test_additive_chi2_of_a_sparse_matrix_is_sparse() -> None:
    sparse = scipy.sparse.csr_matrix(POSITIVE)
    source = make_pipeline(AdditiveChi2Sampler(), RBFSampler(random_state=0, n_components=3)).fit(
        sparse
    )
    np.testing.assert_allclose(
        converted(source).transform(sparse), source.transform(sparse), rtol=1e-10
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_skewed_chi2_refuses_from_its_bound_on(dtype: str) -> None:
    source = SkewedChi2Sampler(skewedness=0.1, n_components=3, random_state=0).fit(
        POSITIVE.astype(dtype)
    )
    bound = np.array(-0.1, dtype=dtype)
    inside = np.full((1, 4), np.nextafter(bound, np.array(1, dtype)))
    np.testing.assert_allclose(
        converted(source).transform(inside),
        source.transform(inside),
        rtol=1e-3 if dtype == "float32" else 1e-10,
    )
    for model in (source, converted(source)):
        with pytest.raises(ValueError, match="smaller than -skewedness"):
            model.transform(np.full((1, 4), bound))


@pytest.mark.parametrize("n_components", [1, 2, 5, 8])
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_count_sketches_of_odd_and_even_length(n_components: int, degree: int) -> None:
    source = PolynomialCountSketch(
        degree=degree, coef0=0.3, n_components=n_components, random_state=0
    ).fit(X)
    np.testing.assert_allclose(
        converted(source).transform(X), source.transform(X), rtol=1e-10, atol=1e-13
    )


def test_process_over_a_constant_kernel_knows_its_columns() -> None:
    source = GaussianProcessClassifier(kernels.ConstantKernel(0.5), optimizer=None).fit(X, TWO)
    model = converted(source)
    assert len(model.graph.schema.columns) == 4
    np.testing.assert_allclose(model.predict_proba(X), source.predict_proba(X), rtol=1e-10)


def test_classifier_of_one_against_one_has_no_probabilities() -> None:
    source = GaussianProcessClassifier(kernels.RBF(), optimizer=None, multi_class="one_vs_one").fit(
        X, np.digitize(Y, [0.0, 1.0])
    )
    assert set(converted(source).graph.outputs) == {"predict"}
    with pytest.raises(ValueError, match="one_vs_one"):
        source.predict_proba(X)


@pytest.mark.parametrize("process", [GaussianProcessRegressor, GaussianProcessClassifier])
def test_processes_fitted_on_texts_are_refused(process):
    from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

    fitted = process(MiniSeqKernel(baseline_similarity_bounds="fixed"), optimizer=None).fit(
        ["A", "AB", "B"], [True, False, True]
    )
    with pytest.raises(
        UnsupportedError, match=r"with kernel='MiniSeqKernel'.*fitted on rows that are not numbers"
    ):
        converted(fitted)
