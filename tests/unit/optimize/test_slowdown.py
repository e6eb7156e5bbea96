"""Users are told once where a model is predicted slower than its source."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from catboost import CatBoostRegressor
from forests import random_forest
from sklearn.base import is_regressor
from sklearn.ensemble import HistGradientBoostingRegressor, StackingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.impute import KNNImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KernelDensity, KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVR, LinearSVC

import hbconv
from hbconv.optimize import program_cost
from hbconv.optimize.program_cost import SLOWER, predict_slowdown
from hbconv.system.processor import Caches
from hbconv.target import Target
from hbconv.tensor import Builder

X = np.random.default_rng(0).normal(size=(300, 6))
Y = X[:, 0] + X[:, 1] * X[:, 2]
FAST = ["tvm"]
SLOW = ["onnx", "torch"]


def told(caplog: pytest.LogCaptureFixture, model: hbconv.Model) -> list[str]:
    """What the logger said from the conversion to the second answer."""
    rows = X[:2]
    for _ in range(2):
        model.predict(rows) if "predict" in model.methods else model.transform(rows)
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


@pytest.mark.parametrize("backend", FAST + SLOW)
@pytest.mark.parametrize(
    "estimator",
    [
        CatBoostRegressor(iterations=50, depth=6, verbose=0, allow_writing_files=False),
        KNNImputer(),
        StackingRegressor([("near", make_pipeline(KNNImputer(), LinearRegression()))], cv=2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_slow_are_told_once_with_a_way_out(estimator, backend, caplog):
    model = hbconv.convert(estimator.fit(X, Y), backend=backend)
    found = told(caplog, model)
    assert len(found) == (backend in SLOW)
    assert all("times as long" in text and "backend='tvm'" in text for text in found)


@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_few_trees_of_catboost_are_not_told(iterations, caplog):
    """CatBoost cuts columns into bins first: 3 trees were told as slower that are 7 times as fast."""
    source = CatBoostRegressor(iterations, depth=6, verbose=0, allow_writing_files=False)
    assert told(caplog, hbconv.convert(source.fit(X, Y), backend="tvm")) == []


def test_an_explanation_names_the_factor(caplog):
    estimator = CatBoostRegressor(iterations=50, depth=6, verbose=0, allow_writing_files=False)
    estimator.fit(X, Y)
    slow = hbconv.convert(estimator, backend="onnx")
    (text,) = told(caplog, slow)
    (size,) = (size for size in slow.explain().programs if size.method == "predict")
    assert f"take {size.slowdown:.1f} times as long" in text
    assert f"predict: {size.instructions} instructions" in str(slow.explain())
    assert str(size).endswith(f"predicted to take {size.slowdown:.1f} times as long as the source")
    fast = hbconv.convert(LinearRegression().fit(X, Y), backend="tvm").explain()
    assert fast.programs[0].slowdown == 1
    assert "times as long" not in str(fast)


@pytest.mark.parametrize("backend", FAST + SLOW)
def test_what_is_as_fast_is_not_told(backend, caplog):
    for estimator in (
        make_pipeline(StandardScaler(), LinearRegression()),
        HistGradientBoostingRegressor(max_iter=10),
        make_pipeline(PolynomialFeatures(2), KNeighborsRegressor()),
        GaussianProcessRegressor(RBF(), optimizer=None),
    ):
        assert told(caplog, hbconv.convert(estimator.fit(X, Y), backend=backend)) == []


@pytest.mark.parametrize("backend", SLOW)
def test_neighbours_of_few_features_are_told(backend):
    """Search trees leave out most of many points of few features."""
    found = {}
    for count, width in ((300, 6), (10_000, 2), (10_000, 6), (10_000, 8)):
        b = Builder()
        x = b.input("x", "float64", width)
        points = b.constant(np.zeros((count, width)))
        program = b.program({"y": b.op("nearest", x, points, k=5)})
        found[count, width] = predict_slowdown(program, "sklearn", Target(backend))
    assert found[10_000, 2] > 3 * SLOWER
    assert found[10_000, 2] > found[10_000, 6] > found[10_000, 8]
    assert found[300, 6] < found[10_000, 2]
    assert found[10_000, 8] < SLOWER


def factor(estimator, backend, rows=10_000, **options):
    model = hbconv.convert(estimator.fit(X, Y), backend=backend, rows=rows, **options)
    return model.explain().programs[0].slowdown


@pytest.mark.parametrize(
    ("estimator", "slow", "fast"),
    [
        (GaussianProcessRegressor(RBF(), optimizer=None), [], ["tvm", "onnx", "torch"]),
        (GaussianProcessRegressor(Matern(nu=1.5), optimizer=None), [], ["tvm", "onnx", "torch"]),
        (KernelDensity(), [], ["tvm", "onnx", "torch"]),
        (MLPRegressor(hidden_layer_sizes=(100,), tol=10.0), ["torch"], ["tvm", "onnx"]),
        (MLPRegressor(hidden_layer_sizes=(100, 100), tol=10.0), ["torch"], ["tvm", "onnx"]),
        (KernelRidge(kernel="rbf"), [], ["tvm", "onnx", "torch"]),
        (SVR(), [], ["tvm", "onnx", "torch"]),
    ],
    ids=["gaussian", "matern", "density", "a layer", "layers", "ridge", "vectors"],
)
def test_kernels_and_networks_are_told_where_they_are_slower(estimator, slow, fast):
    for backend in (*slow, *fast):
        options = {"native": False} if backend == "torch" else {}
        found = factor(estimator, backend, **options)
        assert (found >= SLOWER) == (backend in slow), (backend, found)


LINEAR = [LinearRegression(), LogisticRegression(), LinearSVC()]


@pytest.mark.parametrize("estimator", LINEAR, ids=lambda estimator: type(estimator).__name__)
def test_many_rows_of_linear_models_are_slower_on_onnx(estimator, monkeypatch):
    """Of few rows the call takes longest, and of a pipeline what comes before the product."""
    monkeypatch.setattr(program_cost, "find_caches", lambda: Caches(level3=1 << 25))
    y = Y if is_regressor(estimator) else Y > 0

    def found(model, backend, rows):
        converted = hbconv.convert(model.fit(X, y), backend=backend, rows=rows)
        return converted.explain().programs[0].slowdown

    assert found(estimator, "onnx", 10_000) >= SLOWER
    assert found(estimator, "onnx", 100) < 1
    assert found(estimator, "onnx", 10**7) == 1
    assert found(estimator, "tvm", 10_000) == 1
    assert found(make_pipeline(StandardScaler(), estimator), "onnx", 10_000) == 1


def test_what_takes_its_source_longer_than_a_product_is_not_told():
    assert factor(SVR(kernel="linear"), "onnx") == 1
    assert factor(Ridge(), "onnx", rows=100) < factor(Ridge(), "onnx")


def test_sums_of_squares_and_few_points_are_slower_than_products_of_many():
    """Products take the place of sums from five features on; each row has a price of its own."""

    def slowdown(points, width):
        return predict_slowdown(kernel_of(points, width), "sklearn", Target("torch"))

    assert slowdown(1000, 4) >= SLOWER > slowdown(1000, 5) > slowdown(1000, 30)
    assert slowdown(100, 8) >= SLOWER
    assert slowdown(1000, 8) < 1.1


def kernel_of(count, width):
    b = Builder()
    x, points = b.input("x", "float64", width), b.constant(np.ones((count, width)))
    squares = b.op("pairwise", x, points, kind="square", p=2.0)
    return b.program({"y": b.matmul(b.op("exp", squares), b.constant(np.ones((count, 1))))})


def test_bits_of_trees_make_no_leaves_faster():
    """ONNX adds symmetric trees by their bits, and walks where the leaves are wanted."""
    estimator = CatBoostRegressor(iterations=40, depth=6, verbose=0, allow_writing_files=False)
    model = hbconv.convert(estimator.fit(X, Y), backend="onnx")
    factors = {program.method: program.slowdown for program in model.explain().programs}
    assert factors["apply"] > 2 * factors["predict"]


def test_a_call_of_few_rows_of_a_network_is_no_slower():
    assert (
        factor(MLPRegressor(hidden_layer_sizes=(100,), tol=10.0), "torch", rows=64, native=False)
        < 1
    )


def test_a_stored_program_tells_when_it_is_loaded(caplog, tmp_path, monkeypatch):
    monkeypatch.setattr("hbconv.pipeline.predict_slowdown", lambda *_: 2.0)
    model = hbconv.convert(LinearRegression().fit(X, Y), backend="tvm")
    model.compile(X).save(tmp_path / "model.hbc")
    caplog.clear()
    hbconv.load(tmp_path / "model.hbc", trusted=True)
    (record,) = caplog.records
    assert "2.0 times as long on tvm as by LinearRegression itself" in record.getMessage()


@pytest.mark.parametrize("classes", [10, 1000])
def test_forests_of_many_classes_are_not_told(classes):
    """A source adds the shares of all classes; 1,000 take it 33 us a row of 20 trees, tvm 11."""
    rng = np.random.default_rng(0)
    forest = random_forest(rng, n_trees=20, n_features=8, n_outputs=classes, vector=True)
    b = Builder()
    scores = b.op("tree_scores", b.input("x", "float32", 8), forest=forest, strategy="select")
    program = b.program({"y": scores})
    assert predict_slowdown(program, "sklearn.ensemble", Target("tvm")) < SLOWER
