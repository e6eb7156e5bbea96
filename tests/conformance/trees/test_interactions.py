"""Interactions of features against XGBoost's own, on rows made to hurt.

XGBoost computes in float32: each value is the difference of two sums over all trees.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor
from sources import ask
from trees.battery import BACKENDS, hostile_rows

import hbconv

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 5))
X[:, 1] = X[:, 1].round(1)
X[:, 3] = RNG.integers(0, 12, len(X))
X[RNG.random(X.shape) < 0.1] = np.nan
FILLED = np.nan_to_num(X)
VALUE = FILLED[:, 0] * FILLED[:, 1] + (FILLED[:, 3] % 3 == 1) * FILLED[:, 2]
NEAR = 2e-5
"""Of float32, relative to the largest value."""


def check(source, rows=None, asked=None, backends=("reference",), **options):
    """Compare with XGBoost, and the sums of rows with the contributions."""
    for backend in backends:
        model = hbconv.convert(source, backend=backend, **options)
        hostile = hostile_rows(
            model.parsed, np.random.default_rng(1), 40, plain=X, infinite=False
        ) if rows is None else None  # fmt: skip
        for x in (X[:50], hostile, X[:1]) if rows is None else rows:
            want = (asked or (lambda x: ask(source, "interactions", x)))(x)
            found = model.interactions(x)
            assert (found.shape, found.dtype) == (want.shape, want.dtype), backend
            near = NEAR * max(np.abs(want).max(), 1.0)
            np.testing.assert_allclose(found, want, rtol=0, atol=near, err_msg=backend)
            sums = found.sum(axis=-1)
            np.testing.assert_allclose(sums, model.contributions(x), rtol=0, atol=near)


SETTINGS = {
    "numbers": {},
    "dart": {"booster": "dart", "rate_drop": 0.4},
    "several trees at once": {"num_parallel_tree": 3, "subsample": 0.6},
    "another missing": {"missing": 0.0},
    "leaves by loss": {"grow_policy": "lossguide", "max_leaves": 40, "max_depth": 0},
    "single splits": {"max_depth": 1},
    "single leaves": {"gamma": 1e9},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_regressors(settings):
    source = xgb.XGBRegressor(n_estimators=8, n_jobs=1, **settings).fit(X, VALUE)
    check(source)


def test_classes_have_a_matrix_each():
    source = xgb.XGBClassifier(n_estimators=5, n_jobs=1)
    source.fit(X, np.digitize(VALUE, [-0.3, 0.5]))
    check(source, backends=BACKENDS)
    booster = source.get_booster()
    check(booster, iterations=(1, 4), asked=lambda x: booster[1:4].predict(
        xgb.DMatrix(x), pred_interactions=True
    ))  # fmt: skip


def test_categories():
    frame = pd.DataFrame(FILLED, columns=list("abcde")).assign(
        d=pd.Categorical(FILLED[:, 3].astype(int))
    )
    model = xgb.XGBRegressor(n_estimators=8, n_jobs=1, enable_categorical=True, max_cat_to_onehot=3)
    check(model.fit(frame, VALUE), rows=[frame, frame[:1]])


def test_a_pipeline_has_those_of_its_last_step():
    last = xgb.XGBRegressor(n_estimators=8, n_jobs=1)
    whole = make_pipeline(SimpleImputer(add_indicator=True), last).fit(X, VALUE)
    reached = whole[:-1].transform(X)
    check(whole, rows=[X], asked=lambda x: ask(last, "interactions", reached))


def test_a_file_has_them_where_they_are_named(tmp_path):
    source = xgb.XGBRegressor(n_estimators=4, n_jobs=1).fit(X, VALUE)
    model = hbconv.convert(source, backend="reference")
    assert {"contributions", "interactions"}.isdisjoint(model.parsed.exported)
    model.save(tmp_path / "model.hbc")
    loaded = hbconv.load(tmp_path / "model.hbc")
    np.testing.assert_array_equal(loaded.interactions(X), model.interactions(X))
    session = pytest.importorskip("onnxruntime").InferenceSession
    model.export(tmp_path / "model.onnx", methods=["interactions"])
    opened = session(tmp_path / "model.onnx")
    rows = X.astype(opened.get_inputs()[0].type.replace("tensor(float)", "float32").replace(
        "tensor(double)", "float64"
    ))  # fmt: skip
    (found,) = opened.run(None, {opened.get_inputs()[0].name: rows})
    want = model.interactions(X)
    np.testing.assert_allclose(found.reshape(want.shape), want, rtol=0, atol=NEAR)


def test_other_libraries_have_none():
    for source, why in (
        (DecisionTreeRegressor(max_depth=3), "has no interactions. XGBoost's trees have them"),
        (LinearRegression(), "has no interactions. Ensembles of trees"),
    ):
        model = hbconv.convert(source.fit(FILLED, VALUE), backend="reference")
        with pytest.raises(AttributeError, match=why):
            _ = model.interactions
