"""The torch backends on a CUDA device: the same answers as on the CPU. Run with ``make gpu``
where there is one.
"""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sources import dense
from xgboost import XGBClassifier

import hbconv

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
ESTIMATORS = {
    "linear": make_pipeline(
        StandardScaler(), PolynomialFeatures(), LogisticRegression(max_iter=500)
    ),
    "forest": RandomForestRegressor(n_estimators=20, max_depth=6, random_state=0),
    "lightgbm": LGBMClassifier(n_estimators=20, verbose=-1),
    "xgboost": XGBClassifier(n_estimators=20),
}


@pytest.mark.parametrize("backend", ["torch", "torchscript"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_cuda_answers_as_the_cpu(name, backend):
    estimator = ESTIMATORS[name].fit(X, Y)
    model = hbconv.convert(estimator, backend=backend, device="cuda")
    for rows in (X, X[:1], X[:0], X.astype(np.float64)):
        on_cpu = hbconv.convert(estimator, backend=backend)
        for method in model.methods:
            # Products of matrices add in another order on a GPU; trees do not depend on it.
            np.testing.assert_allclose(
                dense(getattr(model, method)(rows)),
                dense(getattr(on_cpu, method)(rows)),
                rtol=1e-4,
                atol=1e-5,
            )


@pytest.mark.parametrize("strategy", ["gemm", "tree_traversal", "perfect_tree_traversal", "select"])
def test_every_strategy_reaches_the_same_leaves_on_cuda(strategy):
    forest = ESTIMATORS["forest"].fit(X, Y)
    model = hbconv.convert(forest, backend="torch", device="cuda", strategy=strategy)
    np.testing.assert_array_equal(model.apply(X), forest.apply(X))


def test_a_model_moves_between_devices():
    model = hbconv.convert(ESTIMATORS["linear"].fit(X, Y), backend="torch")
    before = model.predict_proba(X)
    np.testing.assert_allclose(model.to("cuda").predict_proba(X), before, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(model.to("cpu").predict_proba(X), before)
