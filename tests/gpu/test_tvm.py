"""Backend ``tvm`` on a CUDA device: trees and elementwise work to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import hbconv

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5000, 6))
X[RNG.random(X.shape) < 0.1] = np.nan
Y = np.nan_to_num(X).sum(1) > 0
SIZES = (5000, 1, 33)


@pytest.mark.parametrize("n", SIZES)
def test_trees_are_those_of_the_reference(n):
    source = make_pipeline(
        SimpleImputer(), StandardScaler(), GradientBoostingClassifier(n_estimators=30)
    ).fit(X, Y)
    model = hbconv.convert(source, backend="tvm", device="cuda")
    want = hbconv.convert(source, backend="reference")
    for method in ("decision_function", "predict"):
        got = getattr(model, method)(X[:n])
        assert got.tobytes() == getattr(want, method)(X[:n]).tobytes()
    np.testing.assert_allclose(model.predict_proba(X[:n]), want.predict_proba(X[:n]), rtol=1e-14)


@pytest.mark.parametrize("n", SIZES)
def test_products_are_near_the_reference(n):
    source = make_pipeline(
        SimpleImputer(), StandardScaler(), PolynomialFeatures(), PCA(4), LogisticRegression()
    ).fit(X, Y)
    model = hbconv.convert(source, backend="tvm", device="cuda")
    want = hbconv.convert(source, backend="reference")
    np.testing.assert_allclose(
        model.predict_proba(X[:n]), want.predict_proba(X[:n]), rtol=1e-10, atol=1e-300
    )
