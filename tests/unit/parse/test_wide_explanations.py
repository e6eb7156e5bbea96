"""Methods on demand cost nothing until they are asked, and are left out where they are too wide."""

from __future__ import annotations

import json
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import xgboost
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression

import hbconv
import hbconv.trees.covered_forest
from hbconv.parse import soundness

RANDOM = np.random.default_rng(0)
Y = np.arange(60) % 2


def rows(n_columns):
    noise = RANDOM.normal(size=(60, 3)) + Y[:, None]
    rest = sp.random(60, n_columns - 3, density=1e-4, random_state=0)
    return sp.hstack([sp.csr_matrix(noise), rest]).tocsr().astype(np.float32)


def booster(max_depth=3):
    return xgboost.XGBClassifier(n_estimators=3, max_depth=max_depth, n_jobs=1)


@pytest.mark.parametrize(
    "estimator",
    [
        booster(),
        LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1, n_jobs=1),
        LogisticRegression(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_many_columns_take_memory_in_proportion(estimator):
    """20,000 columns take some megabytes; the square of them would take gigabytes."""
    x = rows(20_000)
    source = estimator.fit(x, Y)
    tracemalloc.start()
    model = hbconv.convert(source, backend="reference")
    found = model.predict(x)
    data = pickle.dumps(model)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300 << 20
    assert np.array_equal(found, source.predict(x))
    assert np.array_equal(pickle.loads(data).predict(x), found)


def test_wide_interactions_are_absent_by_name():
    source = booster().fit(rows(5_000), Y)
    for model in (
        hbconv.convert(source, backend="reference"),
        pickle.loads(pickle.dumps(hbconv.convert(source, backend="reference"))),
    ):
        assert "interactions" not in model.methods
        assert "contributions" in model.methods
        with pytest.raises(
            AttributeError, match="XGBClassifier has no interactions: a row"
        ) as told:
            _ = model.interactions
        assert "25,010,001 numbers" in str(told.value)


def test_files_leave_them_out_too():
    """Of 5 KB that tell 100,000 columns, interactions would have 10**10 numbers."""
    source = booster().fit(rows(6), Y).get_booster()
    document = json.loads(source.save_raw("json"))
    document["learner"]["learner_model_param"]["num_feature"] = "100000"
    for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
        tree["tree_param"]["num_feature"] = "100000"
    model = hbconv.convert(json.dumps(document), backend="reference")
    assert "interactions" not in model.methods
    with pytest.raises(AttributeError, match="Booster has no interactions: a row"):
        _ = model.interactions


def test_contributions_are_left_out_like_interactions(monkeypatch):
    monkeypatch.setattr(soundness, "MOST_NUMBERS", 8)
    model = hbconv.convert(booster().fit(rows(8), Y), backend="reference")
    assert not {"contributions", "interactions"}.intersection(model.methods)
    with pytest.raises(AttributeError, match="Fit fewer columns"):
        _ = model.contributions


@pytest.mark.parametrize("backend", ["reference", "tvm", "onnx"])
def test_pairs_are_found_when_interactions_are_asked(monkeypatch, backend):
    x = rows(6).toarray()
    source = booster().fit(x, Y)
    asked = []
    meetings = hbconv.trees.covered_forest._meetings

    def watched(covered):
        asked.append(covered)
        return meetings(covered)

    monkeypatch.setattr(hbconv.trees.covered_forest, "_meetings", watched)
    model = hbconv.convert(source, backend=backend, sample=x)
    loaded = pickle.loads(pickle.dumps(model))
    loaded.predict(x)
    assert not asked
    found = loaded.interactions(x)
    want = source.get_booster().predict(xgboost.DMatrix(x), pred_interactions=True)
    np.testing.assert_allclose(found, want, atol=2e-5)
    assert asked
