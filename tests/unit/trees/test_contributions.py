"""Contributions in files, exports and calls: asked for by name, and kept in saved models."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
import xgboost

import hbconv
from hbconv.trees.covered_forest import find_pairs

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 4))
SOURCE = lgb.LGBMRegressor(n_estimators=4, num_leaves=7, verbosity=-1, n_jobs=1)
SOURCE.fit(X, X[:, 0] * X[:, 1])


@pytest.fixture(scope="module")
def model():
    return hbconv.convert(SOURCE, backend="reference")


def test_exports_leave_them_out_unless_named(model):
    graph = model.parsed
    assert "contributions" in graph.tensors
    assert "contributions" not in graph.exported
    assert graph.only("predict", "contributions").exported == ("predict", "contributions")


def test_an_onnx_file_answers_what_is_named(model, tmp_path):
    session = pytest.importorskip("onnxruntime").InferenceSession
    for methods, names in (
        (None, ["predict", "raw_scores", "apply"]),
        (["contributions"], ["contributions"]),
    ):
        model.export(tmp_path / "model.onnx", methods=methods)
        opened = session(tmp_path / "model.onnx")
        assert sorted(output.name for output in opened.get_outputs()) == sorted(names)
    found = opened.run(None, {opened.get_inputs()[0].name: X})[0]
    np.testing.assert_allclose(found, SOURCE.predict(X, pred_contrib=True), rtol=0, atol=1e-12)


def test_a_saved_model_has_them(model, tmp_path):
    model.save(tmp_path / "model.hbc")
    loaded = hbconv.load(tmp_path / "model.hbc")
    np.testing.assert_array_equal(loaded.contributions(X), model.contributions(X))
    assert loaded.parsed.exported == model.parsed.exported


@pytest.mark.parametrize("trusted", [True, False])
def test_no_load_prepares_what_nobody_asked_for(trusted, tmp_path, monkeypatch):
    """The pairs of tests of a deep forest take more memory than its file."""
    source = xgboost.XGBRegressor(n_estimators=3, max_depth=3).fit(X, X[:, 0] * X[:, 1])
    hbconv.convert(source, backend="reference").save(tmp_path / "model.hbc")
    asked = []
    spied = "hbconv.trees.covered_forest.find_pairs"
    monkeypatch.setattr(spied, lambda of: asked.append(of) or find_pairs(of))
    model = hbconv.load(tmp_path / "model.hbc", trusted=trusted)
    model.predict(X)
    model.contributions(X)
    assert not asked
    assert model.interactions(X[:3]).shape == (3, 5, 5)
    assert asked
