"""Models of every tree library by the CUDA kernels, emulated on the CPU: each kernel that takes a
forest finds every leaf and every sum to the last bit, and the model answers as its source.
"""

from __future__ import annotations

from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from emulated_device import answer_by_all_kernels, launched
from sklearn import ensemble, tree
from sources import ask, quietly
from trees.battery import check, hostile_rows

from hbconv.parse import parse

RNG = np.random.default_rng(0)
PLAIN = RNG.standard_normal((200, 5))
PLAIN[:, 1] = PLAIN[:, 1].round(1)
PLAIN[:, 3] = RNG.integers(0, 40, 200)
HOLES = np.where(RNG.random(PLAIN.shape) < 0.2, np.nan, PLAIN)
VALUE = PLAIN[:, 0] + (PLAIN[:, 1] > 0) + (PLAIN[:, 3] % 3 == 1) + 0.3 * RNG.standard_normal(200)
TWO = (VALUE > 0.5).astype(int)
THREE = np.digitize(VALUE, [0, 1.5])
LGB = {"n_estimators": 9, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}
XGB = {"n_estimators": 9, "n_jobs": 1}
CAT = {"iterations": 9, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
SKLEARN = {"n_estimators": 7, "random_state": 0}

LIGHTGBM = {
    "missing": lgb.LGBMRegressor(num_leaves=31, **LGB).fit(HOLES, VALUE),
    "zeros are missing": lgb.LGBMRegressor(num_leaves=9, zero_as_missing=True, **LGB).fit(
        HOLES.round(), VALUE
    ),
    "classes": lgb.LGBMClassifier(num_leaves=7, **LGB).fit(PLAIN, THREE),
    "categories": lgb.LGBMClassifier(num_leaves=15, **LGB).fit(
        HOLES, TWO, categorical_feature=[3]
    ),
    "many leaves": lgb.LGBMRegressor(num_leaves=100, min_child_samples=1, n_estimators=3, **{
        k: v for k, v in LGB.items() if k not in ("n_estimators", "min_child_samples")
    }).fit(PLAIN, VALUE),
    "linear leaves": lgb.LGBMRegressor(num_leaves=7, linear_tree=True, **LGB).fit(HOLES, VALUE),
}  # fmt: skip
XGBOOST = {
    "missing": xgb.XGBRegressor(max_depth=5, **XGB).fit(HOLES, VALUE),
    "classes": xgb.XGBClassifier(max_depth=3, **XGB).fit(PLAIN, THREE),
    "vectors": xgb.XGBRegressor(
        max_depth=3, multi_strategy="multi_output_tree", tree_method="hist", **XGB
    ).fit(PLAIN, np.stack([VALUE, -VALUE], axis=1)),
    "deep": xgb.XGBRegressor(max_depth=9, min_child_weight=0, **XGB).fit(PLAIN, VALUE),
}
CATBOOST = {
    "oblivious": catboost.CatBoostRegressor(depth=4, **CAT).fit(HOLES, VALUE),
    "classes": catboost.CatBoostClassifier(depth=3, **CAT).fit(PLAIN, THREE),
    "by loss": catboost.CatBoostRegressor(grow_policy="Lossguide", max_leaves=20, **CAT).fit(
        PLAIN, VALUE
    ),
}
OWN = {
    "forest": ensemble.RandomForestClassifier(max_depth=5, **SKLEARN).fit(PLAIN, THREE),
    "two values": ensemble.ExtraTreesRegressor(max_depth=4, **SKLEARN).fit(
        HOLES, np.stack([VALUE, -VALUE], axis=1)
    ),
    "boosted": ensemble.GradientBoostingClassifier(**SKLEARN).fit(PLAIN, THREE),
    "histograms": ensemble.HistGradientBoostingRegressor(max_iter=7, categorical_features=[3]).fit(
        HOLES, VALUE
    ),
    "deep tree": tree.DecisionTreeRegressor(random_state=0).fit(HOLES, VALUE),
}


@pytest.fixture(autouse=True)
def _emulated(monkeypatch):
    answer_by_all_kernels(monkeypatch)


def compare(model: Any, *, infinite: bool = True, nan: bool = True, ask: Any = quietly) -> None:
    rng = np.random.default_rng(1)
    rows = [
        hostile_rows(parse(model), rng, 60, dtype, plain=PLAIN, infinite=infinite, nan=nan)
        for dtype in ("float64", "float32")
    ]
    check(model, [*rows, rows[0][:1]], backends=["torch"], ask=ask)
    assert "few" in launched


@pytest.mark.parametrize("name", LIGHTGBM)
def test_lightgbm(name):
    compare(LIGHTGBM[name], ask=ask, infinite=name != "linear leaves")
    assert {"bin", "walk"} <= launched


@pytest.mark.parametrize("name", XGBOOST)
def test_xgboost(name):
    compare(XGBOOST[name], infinite=False)
    assert {"bin", "walk"} <= launched
    assert ("vectors" in launched) == (name == "vectors")


@pytest.mark.parametrize("name", CATBOOST)
def test_catboost(name):
    compare(CATBOOST[name])
    assert {"bin", "bits", "walk"} <= launched


@pytest.mark.parametrize("name", OWN)
def test_sklearn(name):
    compare(OWN[name], infinite=False, nan=name != "boosted")
    assert {"bin", "walk"} <= launched
