"""What other compilers got silently wrong in transformers, each as a test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fitted import available_backends
from matrix.data import fit_rows, target, with_missing
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, FastICA, MiniBatchSparsePCA, SparsePCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

import hbconv
from hbconv.runtime.outputs import answers

X = fit_rows()
SINGLE = X.astype(np.float32)


@pytest.mark.parametrize("backend", available_backends())
@pytest.mark.parametrize(
    "estimator",
    [PCA(3), PLSRegression(2), FastICA(3, random_state=0)],
    ids=lambda e: type(e).__name__,
)
def test_the_callers_array_is_not_modified(estimator: Any, backend: str) -> None:
    """Centred in place, a float32 array would give another answer the second time, and spoil
    what others read of it.
    """
    model = hbconv.convert(estimator.fit(SINGLE, target("value")), backend=backend)
    rows = SINGLE.copy()
    first = model.transform(rows)
    np.testing.assert_array_equal(rows, SINGLE)
    np.testing.assert_array_equal(model.transform(rows), first)


@pytest.mark.parametrize("backend", available_backends())
def test_branches_beside_a_projection_read_the_input(backend: str) -> None:
    """A union of PCA and a scaler on float32 rows."""
    source = FeatureUnion([("pca", PCA(2)), ("scale", StandardScaler())]).fit(SINGLE)
    np.testing.assert_allclose(
        hbconv.convert(source, backend=backend).transform(SINGLE),
        source.transform(SINGLE),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("scale", [True, False])
def test_coefficients_of_pls_hold_the_scale(scale: bool) -> None:
    """Rows are centred before they meet ``coef_``, and not divided by their deviation."""
    source = PLSRegression(2, scale=scale).fit(X, target("values"))
    np.testing.assert_allclose(
        hbconv.convert(source, backend="reference").predict(X),
        source.predict(X),
        rtol=1e-10,
        atol=1e-10,
    )


def test_an_imputer_adds_its_indicator() -> None:
    """As many columns more as had missing values."""
    x = with_missing(X)
    got = hbconv.convert(SimpleImputer(add_indicator=True).fit(x), backend="reference").transform(x)
    np.testing.assert_array_equal(got, SimpleImputer(add_indicator=True).fit_transform(x))
    assert got.shape[1] == 8 + 4


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_a_row_of_zeros_has_no_norm(norm: str) -> None:
    """It stays zeros."""
    rows = np.zeros((2, 8))
    np.testing.assert_array_equal(
        hbconv.convert(Normalizer(norm=norm).fit(X), backend="reference").transform(rows), rows
    )


def test_a_scaler_clips() -> None:
    """Values beyond those fitted on are held to the range."""
    source = MinMaxScaler((-1.0, 2.0), clip=True).fit(X)
    got = hbconv.convert(source, backend="reference").transform(100 * X)
    np.testing.assert_array_equal(got, source.transform(100 * X))
    assert (got.min(), got.max()) == (-1.0, 2.0)


@pytest.mark.parametrize("estimator", [SparsePCA(2), MiniBatchSparsePCA(1), SparsePCA(10)])
def test_sparse_components_of_a_single_row_are_a_vector(estimator: Any) -> None:
    """Alone, behind another step, and in a bound call; not where they are one of several parts."""
    source = make_pipeline(StandardScaler(), clone(estimator).set_params(max_iter=2)).fit(X)
    model = hbconv.convert(source, backend="reference")
    for x in (X[:1], X[:1].tolist(), X[:2], X):
        want = source.transform(x)
        for got in (model.transform(x), model.transform(x)):  # the second call may be a fast one
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    bound = model.bind("transform", dtype="float64", rows=1)
    np.testing.assert_array_equal(bound(X[:1]), model.transform(X[:1]))


def test_a_single_row_at_the_end_of_many_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are answered a chunk at a time, of which the last may hold one."""
    source = SparsePCA(2, max_iter=2).fit(X)
    model = hbconv.convert(source, backend="reference")
    monkeypatch.setattr(
        answers,
        "answer_chunks",
        lambda rows, _, answer: [answer(slice(0, rows - 1)), answer(slice(rows - 1, rows))],
    )
    np.testing.assert_allclose(model.transform(X[:9]), source.transform(X[:9]), rtol=1e-9)
