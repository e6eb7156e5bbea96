"""The tree kernels on a CUDA device: leaves, and sums to the last bit, as on the CPU. Run with
``make gpu`` where there is one.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from forests import hostile_rows, random_forest
from sklearn import ensemble

import hbconv
from hbconv.backends.torch import TensorModule
from hbconv.backends.torch.device_trees import DeviceTrees, find_kernels
from hbconv.backends.torch.launches import describe_device
from hbconv.tensor import Builder

RNG = np.random.default_rng(0)
X = RNG.standard_normal((500, 8)).astype(np.float32)
HOLES = np.where(RNG.random(X.shape) < 0.2, np.float32(np.nan), X)
VALUE = X[:, 0] + (X[:, 1] > 0) + 0.3 * RNG.standard_normal(500)
THREE = np.digitize(VALUE, [0, 1])

FORESTS = {
    "shallow": {"n_trees": 40, "max_depth": 3},
    "outputs": {"n_trees": 40, "max_depth": 5, "n_outputs": 3},
    "deep": {"n_trees": 20, "max_depth": 20, "awkward": 0.1},
    "vectors": {"n_trees": 20, "max_depth": 5, "n_outputs": 3, "vector": True},
    "categories": {"n_trees": 20, "max_depth": 5, "n_categorical": 2},
    "floats": {"n_trees": 40, "max_depth": 5, "accumulate": "float32"},
    "wide": {"n_trees": 60, "max_depth": 4, "n_features": 60, "missing": "left"},
    "very wide": {"n_trees": 300, "max_depth": 5, "n_features": 300},
}


def lightgbm():
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=30, verbose=-1).fit(HOLES, VALUE)


def lightgbm_classes():
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=9, verbose=-1).fit(X, THREE)


def xgboost():
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=30).fit(HOLES, VALUE)


MODELS = {
    "lightgbm": lightgbm,
    "lightgbm classes": lightgbm_classes,
    "xgboost": xgboost,
    "forest": lambda: ensemble.RandomForestClassifier(20, random_state=0).fit(X, THREE),
    "extra trees": lambda: ensemble.ExtraTreesRegressor(9, random_state=0).fit(HOLES, VALUE),
}


def device_trees(forest, dtype, method):
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    y = b.op(f"tree_{method}", x, forest=forest, strategy="tree_traversal")
    module = TensorModule(b.program({"y": y}), "cuda").to("cuda")
    return next(m for m in module.modules() if isinstance(m, DeviceTrees))


@pytest.mark.parametrize("method", ["scores", "leaves"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FORESTS)
def test_every_kernel(name, dtype, method):
    forest = random_forest(np.random.default_rng(1), **FORESTS[name])
    trees = device_trees(forest, dtype, method)
    kernels = find_kernels(forest, dtype, method == "scores", describe_device(torch.device("cuda")))
    for n in (1, 33, 1025, 3000):
        x = hostile_rows(np.random.default_rng(n), forest, dtype, n)
        want = forest.scores(x) if method == "scores" else forest.leaves(x).astype(np.int64)
        for candidate in kernels.candidates():
            got = trees.run(torch.tensor(x, device="cuda"), candidate).cpu().numpy()
            assert got.tobytes() == want.tobytes(), (n, str(candidate))


@pytest.mark.parametrize("name", FORESTS)
def test_plain_operators_on_the_device(name):
    """They stand in tracers and exports; one row takes another scan than many."""
    forest = random_forest(np.random.default_rng(1), **FORESTS[name])
    trees = device_trees(forest, "float32", "scores")
    for n in (1, 2, 400):
        x = hostile_rows(np.random.default_rng(n), forest, "float32", n)
        got = trees.portable(torch.tensor(x, device="cuda")).cpu().numpy()
        assert got.tobytes() == forest.scores(x).tobytes()


@pytest.mark.parametrize("strategy", ["select", "perfect_tree_traversal"])
def test_modules_made_for_the_cpu_add_in_order_after_a_move(strategy):
    forest = random_forest(np.random.default_rng(1), 200, max_depth=4, n_outputs=2)
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    y = b.op("tree_scores", x, forest=forest, strategy=strategy)
    module = TensorModule(b.program({"y": y})).to("cuda")
    for n in (1, 300):
        rows = hostile_rows(np.random.default_rng(n), forest, "float32", n)
        got = module(torch.tensor(rows, device="cuda")).cpu().numpy()
        assert got.tobytes() == forest.scores(rows).tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_models_answer_as_on_the_cpu(name):
    model = MODELS[name]()
    on_device = hbconv.convert(model, backend="torch", device="cuda")
    on_cpu = hbconv.convert(model, backend="reference")
    raw = [
        m for m in on_cpu.methods if m in ("raw_scores", "apply", "predict", "decision_function")
    ]
    for rows in (X, X[:1], HOLES, X.astype(np.float64)):
        for method in raw:
            got = getattr(on_device, method)(rows)
            np.testing.assert_array_equal(got, getattr(on_cpu, method)(rows))


def test_a_call_is_captured_in_a_graph():
    forest = random_forest(np.random.default_rng(1), 40, max_depth=5)
    trees = device_trees(forest, "float32", "scores")
    x = torch.tensor(hostile_rows(np.random.default_rng(2), forest, "float32", 64), device="cuda")
    trees(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = trees(x)
    other = hostile_rows(np.random.default_rng(3), forest, "float32", 64)
    x.copy_(torch.tensor(other))
    graph.replay()
    assert out.cpu().numpy().tobytes() == forest.scores(other).tobytes()


def test_another_stream_is_the_one_that_is_used():
    forest = random_forest(np.random.default_rng(1), 40, max_depth=5)
    trees = device_trees(forest, "float32", "scores")
    rows = hostile_rows(np.random.default_rng(2), forest, "float32", 64)
    with torch.cuda.stream(torch.cuda.Stream()):
        got = trees(torch.tensor(rows, device="cuda")).cpu().numpy()
    assert got.tobytes() == forest.scores(rows).tobytes()
