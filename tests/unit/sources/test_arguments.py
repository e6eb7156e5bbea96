"""Arguments of the sources' own methods: answered, or refused by the name of what to use."""

from __future__ import annotations

from functools import cache
from inspect import signature

import catboost
import lightgbm
import numpy as np
import pytest
import sklearn.cross_decomposition
import sklearn.gaussian_process
import sklearn.linear_model
import sklearn.neighbors
import sklearn.tree
import xgboost
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Kernel,
    Matern,
    WhiteKernel,
)
from sklearn.linear_model import ARDRegression, BayesianRidge, Ridge
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.errors import ArgumentError
from hbconv.sources.arguments import ARGUMENTS, find_arguments

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=90)
CODES = np.digitize(Y, [-0.5, 0.5])
QUIET = {"verbose": 0, "allow_writing_files": False, "iterations": 3}

SOURCES = {
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=3, verbose=-1).fit(X, Y),
    "lightgbm classes": lambda: lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(X, CODES),
    "lightgbm booster": lambda: SOURCES["lightgbm classes"]().booster_,
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=3).fit(X, CODES),
    "xgboost booster": lambda: xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, Y), 3),
    "catboost": lambda: catboost.CatBoostRegressor(**QUIET).fit(X, Y),
    "catboost classes": lambda: catboost.CatBoostClassifier(**QUIET).fit(X, CODES),
    "scaled": lambda: make_pipeline(StandardScaler(), SOURCES["lightgbm"]()).fit(X, Y),
    "process": lambda: GaussianProcessRegressor(RBF() + WhiteKernel()).fit(X, Y),
    "bayes": lambda: BayesianRidge().fit(X, Y),
    "neighbours": lambda: NearestNeighbors().fit(X),
    "ridge": lambda: Ridge().fit(X, Y),
}


@cache
def both(name):
    """A source, and its model."""
    source = SOURCES[name]()
    return source, hbconv.convert(source, backend="reference")


def asked(name, method, *given, **named):
    """What a source and its model answer."""
    source, model = both(name)
    rows = xgboost.DMatrix(X) if name == "xgboost booster" else X
    return getattr(source, method)(rows, *given, **named), getattr(model, method)(
        X, *given, **named
    )


@pytest.mark.parametrize(
    ("name", "method", "given", "named"),
    [
        ("lightgbm", "predict", (), {"raw_score": True}),
        ("lightgbm", "predict", (True,), {}),
        ("lightgbm", "predict", (), {"pred_leaf": True, "n_jobs": 1}),
        ("lightgbm", "predict", (), {"start_iteration": 0, "num_iteration": None}),
        ("lightgbm classes", "predict", (), {"raw_score": True}),
        ("lightgbm classes", "predict_proba", (), {"pred_contrib": True}),
        ("lightgbm booster", "predict", (0, None, True), {}),
        ("xgboost", "predict", (), {"output_margin": True}),
        ("xgboost", "predict_proba", (True, None), {"iteration_range": (0, 0)}),
        ("xgboost booster", "predict", (), {"pred_leaf": True}),
        ("xgboost booster", "predict", (), {"pred_interactions": True}),
        ("catboost", "predict", ("RawFormulaVal",), {}),
        ("catboost", "predict", (), {"thread_count": 1, "ntree_end": 0, "verbose": False}),
        ("catboost classes", "predict", ("Probability",), {}),
        ("catboost classes", "predict", (), {"prediction_type": "LogProbability"}),
        ("catboost classes", "predict", (), {"prediction_type": "Class"}),
        ("scaled", "predict", (), {"raw_score": False}),
        ("bayes", "predict", (), {"return_std": False}),
        ("neighbours", "kneighbors", (), {"n_neighbors": None}),
    ],
)
def test_arguments_are_answered_as_the_source_does(name, method, given, named):
    want, got = asked(name, method, *given, **named)
    want, got = (one if isinstance(one, tuple) else (one,) for one in (want, got))
    for own, other in zip(got, want, strict=True):
        assert own.shape == other.shape
        np.testing.assert_allclose(own, other, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "method", "named", "way_out"),
    [
        ("lightgbm", "predict", {"num_iteration": 2}, "iterations="),
        ("lightgbm", "predict", {"validate_features": True}, "feature_names_in_"),
        ("lightgbm", "predict", {"raw_scores": True}, "Did you mean 'raw_score'"),
        ("lightgbm", "predict", {"raw_score": True, "pred_leaf": True}, "at a time"),
        ("xgboost", "predict", {"iteration_range": (0, 2)}, "iterations="),
        ("xgboost", "predict", {"base_margin": np.zeros(90)}, "Ask the source model"),
        ("xgboost", "predict", {"validate_features": False}, "to_numpy"),
        ("catboost", "predict", {"prediction_type": "Probability"}, "it has predict_proba"),
        ("catboost", "predict", {"ntree_end": 2}, "iterations="),
        ("catboost", "predict", {"task_type": "GPU"}, "device='cuda'"),
        ("scaled", "predict", {"raw_score": True}, "last step of a pipeline"),
        ("process", "predict", {"return_cov": True}, "return_std=True"),
        ("neighbours", "kneighbors", {"n_neighbors": 2}, "set_params"),
        ("ridge", "predict", {"return_std": True}, "It takes rows alone"),
    ],
)
def test_what_is_not_answered_names_what_to_use(name, method, named, way_out):
    with pytest.raises(ArgumentError, match=way_out) as caught:
        getattr(both(name)[1], method)(X, **named)
    assert isinstance(caught.value, TypeError)
    assert next(iter(named)) in str(caught.value)


def test_too_many_arguments_and_repeated_ones():
    model = both("bayes")[1]
    with pytest.raises(ArgumentError, match="takes return_std beside the rows, and 2 more"):
        model.predict(X, True, True)
    with pytest.raises(ArgumentError, match="given return_std twice"):
        model.predict(X, True, return_std=True)


def test_a_loaded_model_and_a_file_know_them(tmp_path):
    source, model = both("lightgbm booster")
    model.save(tmp_path / "model.hbc")
    source.save_model(tmp_path / "model.txt")
    for read in (hbconv.load(tmp_path / "model.hbc"), hbconv.convert(tmp_path / "model.txt")):
        np.testing.assert_array_equal(
            read.predict(X, raw_score=True), source.predict(X, raw_score=True)
        )


CLASSES = {
    "lightgbm": lightgbm.LGBMModel,
    "lightgbm.Booster": lightgbm.Booster,
    "xgboost": xgboost.XGBClassifier,
    "xgboost.Booster": xgboost.Booster,
    "catboost": catboost.CatBoostRegressor,
    "catboost.CatBoost": catboost.CatBoost,
    "catboost.CatBoostClassifier": catboost.CatBoostClassifier,
    "catboost.CatBoostRanker": catboost.CatBoostRanker,
    "sklearn": StandardScaler,
    "sklearn.gaussian_process.GaussianProcessRegressor": GaussianProcessRegressor,
    "sklearn.dummy.DummyRegressor": DummyRegressor,
    "sklearn.linear_model.BayesianRidge": BayesianRidge,
    "sklearn.linear_model.ARDRegression": ARDRegression,
    "sklearn.tree": sklearn.tree.DecisionTreeClassifier,
    "sklearn.neighbors": NearestNeighbors,
    "sklearn.cross_decomposition": sklearn.cross_decomposition.PLSRegression,
}
"""A class for each entry of the table."""


@pytest.mark.parametrize("entry", sorted(ARGUMENTS))
def test_the_table_has_the_arguments_of_the_libraries_in_their_order(entry):
    for method in ARGUMENTS[entry]:
        function = getattr(CLASSES[entry], method, None)
        if function is None:
            continue
        own = [p.name for p in signature(function).parameters.values() if p.kind != p.VAR_KEYWORD]
        known = [argument.name for argument in find_arguments(entry, method)]
        assert known[: len(own) - 2] == own[2:], (entry, method)


KERNELS = {
    "smooth": RBF(),
    "noisy": ConstantKernel() * Matern(nu=1.5) + WhiteKernel(),
    "linear": DotProduct() + WhiteKernel(0.1),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("targets", [1, 2])
def test_deviations_of_a_process_are_the_sources(kernel, targets):
    """Also beside fitted rows, where little is left of the variance."""
    y = np.stack([Y, 3 * Y], axis=1)[:, :targets].squeeze()
    process = GaussianProcessRegressor(
        KERNELS[kernel], alpha=1e-6, optimizer=None, normalize_y=True
    )
    source = process.fit(X, y)
    rows = np.concatenate([X[:20], X[:20] + 1e-3, RNG.normal(size=(20, 3)) * 3])
    _assert_deviations(make_pipeline(StandardScaler().fit(X), source), rows)
    _assert_deviations(source, rows)


def test_deviations_beside_fitted_rows_keep_the_digits_that_the_source_has():
    """Of a variance of 1, 2e-12 is left: a product with an inverse has no digit of that."""
    points = RNG.normal(size=(200, 1))
    source = GaussianProcessRegressor(RBF(), optimizer=None).fit(points, np.sin(points[:, 0]))
    got = hbconv.convert(source, backend="reference").predict_std(points)
    np.testing.assert_allclose(got, source.predict(points, return_std=True)[1], rtol=1e-2)


@pytest.mark.parametrize("source", [BayesianRidge(), BayesianRidge(fit_intercept=False)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_deviations_of_bayesian_ridge_are_the_sources(source, dtype):
    _assert_deviations(source.fit(X, Y), X.astype(dtype))


@pytest.mark.parametrize("threshold", [1e4, 0.0], ids=["some columns", "none"])
def test_deviations_of_ard_are_of_the_columns_kept(threshold):
    beside = np.concatenate([X, RNG.normal(size=(90, 4))], axis=1)
    _assert_deviations(ARDRegression(threshold_lambda=threshold).fit(beside, Y), beside)


def test_a_process_that_saw_no_rows_deviates_as_its_kernel():
    for source in (GaussianProcessRegressor(2.0 * RBF()), GaussianProcessRegressor(n_targets=2)):
        model = hbconv.convert(source, backend="reference", sample=X)
        for own, other in zip(
            model.predict(X, return_std=True), source.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(own, other)


class Own(Kernel):
    """A kernel that hbconv does not know."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.ones((len(X), len(X if Y is None else Y)))

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return True


def test_a_deviation_that_cannot_be_told_is_refused_alone():
    model = hbconv.convert(GaussianProcessRegressor(Own()), backend="reference", sample=X)
    assert model.predict(X).tolist() == [0.0] * len(X)
    with pytest.raises(ArgumentError, match=r"kernel='Own'.* is not supported"):
        model.predict(X, return_std=True)


def test_a_large_process_has_its_mean_alone(monkeypatch):
    monkeypatch.setattr("hbconv.parse.sklearn.gaussian_process.MOST_ROWS", 80)
    model = hbconv.convert(both("process")[0], backend="reference")
    np.testing.assert_array_equal(model.predict(X), both("process")[1].predict(X))
    with pytest.raises(ArgumentError, match=r"n_rows=90 is not supported.* Fit it on 80 rows"):
        model.predict(X, return_std=True)


def _assert_deviations(source, rows):
    for backend in ("reference", "onnx"):
        model = hbconv.convert(source, backend=backend)
        want = source.predict(rows, return_std=True)
        got = model.predict(rows, return_std=True)
        assert [one.shape for one in got] == [one.shape for one in want]
        assert [one.dtype for one in got] == [one.dtype for one in want]
        for own, other in zip(got, want, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-9)
        assert "predict_std" not in model.parsed.exported
