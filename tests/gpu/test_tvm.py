"""Backend ``tvm`` on a CUDA device: trees and elementwise work to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import hbconv
from hbconv.backends.tvm.cuda import artifact as compiling

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


def test_tensors_chunks_and_graphs_answer_alike(monkeypatch):
    if not torch.cuda.is_available():
        pytest.skip("torch was built without CUDA")
    source = make_pipeline(
        SimpleImputer(), StandardScaler(), GradientBoostingClassifier(n_estimators=30)
    ).fit(X, Y)
    model = hbconv.convert(source, backend="tvm", device="cuda")
    want = hbconv.convert(source, backend="reference").decision_function(X)
    found = model.decision_function(torch.tensor(X, device="cuda"))
    assert found.is_cuda
    assert found.cpu().numpy().tobytes() == want.tobytes()
    for n in (100, 100, 100, 90, 128):
        assert model.decision_function(X[:n]).tobytes() == want[:n].tobytes()
    for limit in ("CHUNK_BYTES", "PAGEABLE_BYTES"):
        monkeypatch.setattr(f"hbconv.backends.torch.device_calls.{limit}", 1)
    monkeypatch.setattr("hbconv.backends.torch.device_calls.LEAST_ROWS", 1000)
    assert model.decision_function(X).tobytes() == want.tobytes()


def test_the_driver_alone_answers_alike(monkeypatch):
    """Where torch is not installed, memory is the driver's."""
    source = GradientBoostingClassifier(n_estimators=30).fit(np.nan_to_num(X), Y)
    monkeypatch.setattr(compiling, "_in_memory_of_torch", lambda plan, target: None)
    model = hbconv.convert(source, backend="tvm", device="cuda")
    want = hbconv.convert(source, backend="reference")
    for n in SIZES:
        rows = np.nan_to_num(X[:n])
        assert model.predict_proba(rows).dtype == np.float64
        got = model.decision_function(rows)
        assert got.tobytes() == want.decision_function(rows).tobytes()


@pytest.mark.parametrize("n", SIZES)
def test_neighbours_are_those_of_the_reference(n):
    rows = np.nan_to_num(X)
    source = KNeighborsClassifier(weights="distance", algorithm="brute").fit(rows, Y)
    model = hbconv.convert(source, backend="tvm", device="cuda")
    want = hbconv.convert(source, backend="reference")
    assert model.predict(rows[:n]).tobytes() == want.predict(rows[:n]).tobytes()


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
