"""Contributions of features against each library's own, on rows made to hurt.

LightGBM and CatBoost compute in double. XGBoost computes in float32: it is held to the rounding of
its own sums. scikit-learn has none of its own: contributions must add up to its raw scores, and
``tests/unit/trees/test_covered_forest.py`` compares them with the definition.
"""

from __future__ import annotations

import json
from dataclasses import replace

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from sklearn import ensemble, tree
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sources import ask, dense
from trees.battery import BACKENDS, hostile_rows

import hbconv
from hbconv.optimize import optimize
from hbconv.parse.catboost.estimators import parse_catboost_json
from hbconv.parse.lightgbm.estimators import parse_lightgbm_text

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 5))
X[:, 1] = X[:, 1].round(1)
X[:, 2] *= RNG.random(400) < 0.4
X[:, 3] = RNG.integers(0, 12, 400)
X[RNG.random(X.shape) < 0.1] = np.nan
FILLED = np.nan_to_num(X)
VALUE = FILLED[:, 0] * FILLED[:, 1] + (FILLED[:, 3] % 3 == 1) + np.sin(FILLED[:, 2])
CLASSES = np.digitize(VALUE, [-0.3, 0.5])
QUIET = {"verbosity": -1, "n_jobs": 1, "n_estimators": 8, "min_child_samples": 3}
SMALL = {"iterations": 8, "verbose": 0, "allow_writing_files": False, "thread_count": 1}

NEAR = 1e-10
"""Of doubles, relative to the largest contribution."""
NEAR_FLOAT32 = 2e-5
"""Of XGBoost's float32, which adds the terms of all trees and all leaves."""


def rows_of(model, **options):
    """Ordinary rows, and rows of the model's own thresholds."""
    plain = X if options.get("nan", True) else FILLED
    hostile = hostile_rows(model.parsed, np.random.default_rng(1), 60, plain=plain, **options)
    return [plain[:50], hostile, plain[:1], plain[:0]]


def check(source, near=NEAR, rows=None, asked=None, backends=("reference",), **options):
    """Compare with the library. XGBoost takes no infinite values."""
    finite = near == NEAR_FLOAT32
    for backend in backends:
        model = hbconv.convert(source, backend=backend, **options)
        for x in rows_of(model, infinite=not finite) if rows is None else rows:
            if not len(x):
                assert len(model.contributions(x)) == 0
                continue
            want = np.asarray((asked or (lambda x: ask(source, "contributions", x)))(x))
            found = model.contributions(x)
            assert (found.shape, found.dtype) == (want.shape, want.dtype), backend
            largest = max(np.abs(want).max(), 1.0)
            np.testing.assert_allclose(found, want, rtol=0, atol=near * largest, err_msg=backend)


LIGHTGBM = {
    "numbers": {},
    "categories": {"max_cat_to_onehot": 1, "cat_smooth": 1},
    "zeros are missing": {"zero_as_missing": True},
    "nothing is missing": {"use_missing": False},
    "random forest": {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1},
    "dart": {"boosting_type": "dart", "drop_rate": 0.5},
    "deep": {"num_leaves": 120, "min_child_samples": 1},
    "stumps": {"max_depth": 1},
    "single leaves": {"min_child_samples": 300},
}


@pytest.mark.parametrize("settings", LIGHTGBM.values(), ids=LIGHTGBM)
def test_lightgbm(settings):
    categories = [3] if "cat_smooth" in settings else "auto"
    model = lgb.LGBMRegressor(**{**QUIET, **settings}).fit(X, VALUE, categorical_feature=categories)
    check(model, backends=BACKENDS if categories == [3] else ("reference",))


def test_lightgbm_puts_classes_side_by_side():
    model = lgb.LGBMClassifier(**QUIET).fit(X, CLASSES)
    check(model)
    check(model.booster_, iterations=(2, 5), asked=lambda x: model.booster_.predict(
        x, pred_contrib=True, start_iteration=2, num_iteration=3
    ))  # fmt: skip
    text = model.booster_.model_to_string()
    read = hbconv.convert(parse_lightgbm_text(text), backend="reference")
    np.testing.assert_array_equal(
        read.contributions(X), hbconv.convert(model, backend="reference").contributions(X)
    )


FRAME = pd.DataFrame(X, columns=list("abcde")).assign(
    t=RNG.choice(["u", "v", "w", "longer"], len(X)).astype(object)
)
COLUMNS = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["t"]),
    (SimpleImputer(), list("acd")),
    sparse_threshold=1,
)


@pytest.mark.parametrize("last", ["lightgbm", "xgboost", "catboost", "sklearn"])
def test_a_pipeline_explains_the_columns_of_its_last_step(last):
    """The rows that reach it may be sparse; what predict does is optimized as without."""
    own = {
        "lightgbm": lgb.LGBMClassifier(**QUIET),
        "xgboost": xgb.XGBClassifier(n_estimators=8, n_jobs=1),
        "catboost": catboost.CatBoostClassifier(depth=3, **SMALL),
        "sklearn": ensemble.RandomForestClassifier(5),
    }[last]
    whole = make_pipeline(COLUMNS, own).fit(FRAME, CLASSES > 0)
    reached = whole[:-1].transform(FRAME)
    if last == "sklearn":  # whose contributions have a judge of their own
        want = hbconv.convert(own, backend="reference").contributions(reached)
    else:
        want = dense(ask(own, "contributions", reached))
    assert want.shape[-1] == len(whole[:-1].get_feature_names_out()) + 1
    for backend in BACKENDS if last == "lightgbm" else ("reference",):
        model = hbconv.convert(whole, backend=backend)
        assert "raw_scores" not in model.methods
        np.testing.assert_allclose(model.contributions(FRAME), want, rtol=0, atol=NEAR_FLOAT32)
    alone = replace(model.parsed, outputs={"predict": model.parsed.outputs["predict"]})
    together = optimize(model.parsed).graph.outputs["predict"]
    assert together == optimize(alone).graph.outputs["predict"]


PASSED = {
    "search": (GridSearchCV(lgb.LGBMRegressor(**QUIET), {"num_leaves": [3, 9]}, cv=2),
               "best_estimator_"),
    "selection": (RFE(lgb.LGBMRegressor(**QUIET), n_features_to_select=3), "estimator_"),
    "stacking": (ensemble.StackingRegressor([("tree", tree.DecisionTreeRegressor(max_depth=3)),
                 ("other", tree.DecisionTreeRegressor(max_depth=2))], lgb.LGBMRegressor(**QUIET),
                 cv=2), "final_estimator_"),
    "frozen": (FrozenEstimator(lgb.LGBMRegressor(**QUIET).fit(FILLED, VALUE)), "estimator"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "inner"), PASSED.values(), ids=PASSED)
def test_estimators_around_another_pass_contributions_on(source, inner):
    source.fit(FILLED, VALUE)
    reached = source.transform(FILLED) if hasattr(source, "transform") else FILLED
    want = getattr(source, inner).predict(reached, pred_contrib=True)
    found = hbconv.convert(source, backend="reference").contributions(FILLED)
    np.testing.assert_allclose(found, want, rtol=0, atol=NEAR)


def test_sums_of_another_target_are_not_explained():
    source = TransformedTargetRegressor(
        lgb.LGBMRegressor(**QUIET), func=np.exp, inverse_func=np.log, check_inverse=False
    )
    model = hbconv.convert(source.fit(FILLED, VALUE), backend="reference")
    with pytest.raises(AttributeError, match="has no contributions"):
        _ = model.contributions


def test_lightgbm_without_covers_has_no_contributions():
    linear = lgb.LGBMRegressor(linear_tree=True, **QUIET).fit(FILLED, VALUE)
    assert "contributions" not in hbconv.convert(linear, backend="reference").methods
    text = lgb.LGBMRegressor(**QUIET).fit(X, VALUE).booster_.model_to_string()
    lines = [line for line in text.split("\n") if not line.startswith("internal_count=")]
    sizes = [len(part.encode()) for part in "\n".join(lines).split("\nTree=")[1:]]
    told = " ".join(str(size + len("\nTree=")) for size in sizes[:-1])
    without = "\n".join(
        f"tree_sizes={told} 9" if line.startswith("tree_sizes=") else line for line in lines
    )
    model = hbconv.convert(parse_lightgbm_text(without), backend="reference")
    assert model.methods == ("predict", "raw_scores", "apply")
    with pytest.raises(AttributeError, match="counts of their training rows"):
        _ = model.contributions


XGBOOST = {
    "numbers": {},
    "dart": {"booster": "dart", "rate_drop": 0.4},
    "several trees at once": {"num_parallel_tree": 3, "subsample": 0.6},
    "another missing": {"missing": 0.0},
    "base score": {"base_score": 3.25},
    "leaves by loss": {"grow_policy": "lossguide", "max_leaves": 40, "max_depth": 0},
    "single leaves": {"gamma": 1e9},
}


@pytest.mark.parametrize("settings", XGBOOST.values(), ids=XGBOOST)
def test_xgboost(settings):
    check(xgb.XGBRegressor(n_estimators=8, n_jobs=1, **settings).fit(X, VALUE), NEAR_FLOAT32)


def test_xgboost_stacks_classes():
    model = xgb.XGBClassifier(n_estimators=6, n_jobs=1).fit(X, CLASSES)
    check(model, NEAR_FLOAT32, backends=BACKENDS)
    booster = model.get_booster()
    check(booster, NEAR_FLOAT32)
    check(booster, NEAR_FLOAT32, iterations=(1, 4), asked=lambda x: booster[1:4].predict(
        xgb.DMatrix(x), pred_contribs=True
    ))  # fmt: skip


def test_xgboost_stops_at_the_best_iteration():
    model = xgb.XGBRegressor(n_estimators=40, n_jobs=1, early_stopping_rounds=2, learning_rate=1)
    model.fit(X[:200], VALUE[:200], eval_set=[(X[200:], VALUE[200:])], verbose=False)
    assert model.best_iteration < 30
    check(model, NEAR_FLOAT32)


def test_xgboost_of_categories():
    frame = pd.DataFrame(FILLED, columns=list("abcde")).assign(
        d=pd.Categorical(FILLED[:, 3].astype(int))
    )
    model = xgb.XGBRegressor(n_estimators=8, n_jobs=1, enable_categorical=True, max_cat_to_onehot=3)
    check(model.fit(frame, VALUE), NEAR_FLOAT32, rows=[frame, frame[:1]])


def test_xgboost_explains_no_vectors():
    model = xgb.XGBRegressor(n_estimators=3, multi_strategy="multi_output_tree", n_jobs=1)
    model.fit(X, np.stack([VALUE, -VALUE], axis=1))
    assert "contributions" not in hbconv.convert(model, backend="reference").methods
    linear = xgb.XGBRegressor(booster="gblinear", n_estimators=3, n_jobs=1).fit(FILLED, VALUE)
    assert "contributions" not in hbconv.convert(linear, backend="reference").methods


@pytest.mark.parametrize("depth", [1, 4, 8])
def test_catboost(depth):
    """Of many leaves, most are empty."""
    check(catboost.CatBoostRegressor(depth=depth, **SMALL).fit(X, VALUE))


def test_catboost_stacks_classes():
    check(catboost.CatBoostClassifier(depth=4, **SMALL).fit(X, CLASSES), backends=BACKENDS)
    weights = RNG.integers(0, 2, len(X)) * RNG.random(len(X))
    check(catboost.CatBoostClassifier(depth=5, **SMALL).fit(X, CLASSES > 0, sample_weight=weights))


def test_catboost_of_categories():
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["d"] = pd.Series(FILLED[:, 3]).map(lambda code: f"kind {code:.0f}")
    model = catboost.CatBoostRegressor(depth=4, one_hot_max_size=99, cat_features=["d"], **SMALL)
    model.fit(frame, VALUE)
    unseen = frame[:80].assign(d=np.where(np.arange(80) % 3, frame.d[:80], "unseen"))
    check(model, rows=[unseen, unseen[:1]])


@pytest.mark.parametrize("classes", [1, 3])
def test_catboost_of_statistics_of_categories(classes):
    """Statistics of several categories and tests are shared among the categories alone."""
    frame = pd.DataFrame(X[:, :2], columns=list("ab"))
    frame["kind"] = pd.Series(FILLED[:, 3]).map(lambda code: f"kind {code:.0f}")
    frame["sort"] = RNG.choice(list("pqrstu"), len(X))
    frame["flag"] = RNG.choice(["y", "n"], len(X))
    counted = {"cat_features": ["kind", "sort", "flag"], "max_ctr_complexity": 3}
    settings = {"depth": 4, "model_size_reg": 0, "simple_ctr": "Borders", **counted, **SMALL}
    told = (frame["sort"] < "s") * (frame["flag"] == "y") + VALUE
    if classes == 1:
        model = catboost.CatBoostRegressor(**settings).fit(frame, told)
    else:
        model = catboost.CatBoostClassifier(**settings).fit(frame, np.digitize(told, [0, 1]))
    unseen = frame[:80].assign(sort=np.where(X[:80, 0] > 1, "unseen", frame["sort"][:80]))
    check(model, rows=[unseen, unseen[:1]])


def test_catboost_explains_trees_whose_splits_have_two_leaves_or_none():
    check(catboost.CatBoostRegressor(grow_policy="Depthwise", depth=2, **SMALL).fit(X, VALUE))
    ragged = catboost.CatBoostRegressor(grow_policy="Lossguide", max_leaves=3, **SMALL)
    ragged.fit(X, VALUE)
    own = ask(ragged, "contributions", X)
    assert np.abs(own.sum(axis=1) - ragged.predict(X)).max() > 1e-3  # why they are left out
    assert "contributions" not in hbconv.convert(ragged, backend="reference").methods


def test_catboost_explains_no_values_without_weight(tmp_path):
    """CatBoost weighs such a leaf: what it expects is not the mean by the weights."""
    model = catboost.CatBoostRegressor(depth=3, **SMALL).fit(X, VALUE)
    path = tmp_path / "model.json"
    model.save_model(path, format="json")
    document = json.loads(path.read_text())
    document["oblivious_trees"][0]["leaf_weights"][2] = 0
    path.write_text(json.dumps(document))
    edited = catboost.CatBoostRegressor().load_model(path, format="json")
    mean = document["scale_and_bias"][1][0] + sum(
        np.average(grown["leaf_values"], weights=grown["leaf_weights"])
        for grown in document["oblivious_trees"]
    )
    assert abs(ask(edited, "contributions", X[:1])[0, -1] - mean) > 1e-6
    assert "contributions" not in parse_catboost_json(path.read_bytes()).outputs


ESTIMATORS = [
    tree.DecisionTreeRegressor(max_depth=6),
    tree.ExtraTreeClassifier(max_depth=4),
    ensemble.RandomForestRegressor(5),
    ensemble.ExtraTreesClassifier(5),
    ensemble.GradientBoostingRegressor(n_estimators=6),
    ensemble.GradientBoostingClassifier(n_estimators=4),
    ensemble.HistGradientBoostingRegressor(max_iter=6),
    ensemble.HistGradientBoostingClassifier(max_iter=4, categorical_features=[3]),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_sklearn_adds_up(estimator):
    """The contributions, the expected value last, add up to the raw scores."""
    classifies = "Classifier" in type(estimator).__name__
    estimator.random_state = 0
    estimator.fit(FILLED, CLASSES if classifies else VALUE)
    method = next(
        m for m in ("decision_function", "predict_proba", "predict") if hasattr(estimator, m)
    )
    for backend in BACKENDS if "Random" in type(estimator).__name__ else ("reference",):
        model = hbconv.convert(estimator, backend=backend)
        for x in rows_of(model, nan=False, infinite=False):
            found = model.contributions(x)
            width = (3, 6) if classifies else (6,)
            assert (found.shape, found.dtype) == ((len(x), *width), np.float64)
            if len(x):
                want = getattr(estimator, method)(x)
                np.testing.assert_allclose(found.sum(axis=-1), want, rtol=0, atol=1e-12)


def test_the_expected_value_is_the_mean_of_training_rows():
    weights = RNG.integers(1, 4, len(X))
    model = tree.DecisionTreeRegressor(max_depth=5).fit(FILLED, VALUE, sample_weight=weights)
    found = hbconv.convert(model, backend="reference").contributions(FILLED[:3])
    np.testing.assert_allclose(found[:, -1], np.average(VALUE, weights=weights), rtol=1e-12)


def test_columns_of_categories_stand_where_the_table_has_them():
    """HistGradientBoosting moves them before the others."""
    only_third = np.where(FILLED[:, 3] % 3 == 1, 5.0, -5.0)
    model = ensemble.HistGradientBoostingRegressor(max_iter=5, categorical_features=[3])
    found = hbconv.convert(model.fit(FILLED, only_third), backend="reference").contributions(FILLED)
    assert np.abs(found[:, 3]).min() > 0.1
    assert np.abs(np.delete(found[:, :-1], 3, axis=1)).max() < 0.1


def test_first_scores_of_a_model_have_no_contributions():
    inner = tree.DecisionTreeRegressor(max_depth=2)
    model = ensemble.GradientBoostingRegressor(n_estimators=3, init=inner).fit(FILLED, VALUE)
    assert "contributions" not in hbconv.convert(model, backend="reference").methods
