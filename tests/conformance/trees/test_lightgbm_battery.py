"""Models of LightGBM drawn at random, on rows made to hurt: every booster and objective,
categories, missing rules, linear leaves, slices.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import lightgbm as lgb
import numpy as np
import pandas as pd
from hypothesis import given
from sources import ask
from trees.battery import BACKENDS, FEW, check, drawn, hostile_rows

from hbconv.parse import parse

REGRESSION = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile"), "value"),
    **dict.fromkeys(("mape", "poisson", "gamma", "tweedie"), "positive"),
    **dict.fromkeys(("cross_entropy", "cross_entropy_lambda"), "share"),
}
RENEWED = ("regression_l1", "quantile", "mape")
"""Objectives that set the leaves anew after the tree has grown."""

CLASSES = {"binary": "two", "cross_entropy": "two", "multiclass": "three", "multiclassova": "three"}
LABELS = {
    "whole": np.array([-4, 7, 2**40]),
    "text": np.array(["ash", "birch", "cedar"]),
    "fraction": np.array([5.0, 2.0, -1.0]),
    "flag": np.array([False, True]),
}
TEXTS, WHOLE = (
    np.array(["red", "blue", "", "dark green", "x", "y"]),
    np.array([5, -7, 300, 11, 2**40, 0]),
)


@st.composite
def settings(draw: st.DrawFn, *, boosters: bool = True) -> dict[str, Any]:
    """Parameters of the trees."""
    bagged = {"subsample": 0.6, "subsample_freq": 1}
    booster = draw(
        st.sampled_from(
            [
                {},
                {},
                {"boosting_type": "dart", "drop_rate": 0.5},
                {"boosting_type": "rf", **bagged},
                {"data_sample_strategy": "goss"},
            ]
        )
    )
    more = draw(
        st.sampled_from(
            [
                {},
                bagged,
                {"extra_trees": True},
                {"monotone_constraints": [1, 0, -1, 0, 0]},
                {"linear_lambda": 0.1},
                {"path_smooth": 2.0},
            ]
        )
    )
    if "data_sample_strategy" in booster:
        more = {}  # which LightGBM refuses to mix with bagging
    return {
        "max_depth": draw(st.sampled_from([-1, -1, 1, 3])),
        "num_leaves": draw(st.integers(2, 25)),
        "n_estimators": draw(st.integers(1, 12)),
        "learning_rate": draw(st.sampled_from([0.1, 0.3, 1.0])),
        "min_child_samples": draw(st.sampled_from([1, 5, 20, 200])),
        "colsample_bytree": draw(st.sampled_from([0.5, 1.0])),
        "reg_alpha": draw(st.sampled_from([0.0, 0.1])),
        "max_bin": draw(st.sampled_from([5, 255])),
        "max_cat_to_onehot": draw(st.sampled_from([1, 4, 300])),
        "cat_smooth": 1,
        "min_data_per_group": draw(st.sampled_from([1, 10])),
        "random_state": draw(st.integers(0, 9)),
        "verbosity": -1,
        "n_jobs": 1,
        **more,
        **(booster if boosters else {}),
    }


missing_rules = st.sampled_from([{}, {}, {"zero_as_missing": True}, {"use_missing": False}])
missing_shares = st.sampled_from([0.0, 0.1, 0.5])
backends = st.sampled_from([FEW, FEW, FEW, BACKENDS])
seeds = st.integers(0, 99)


def numbers(rng: np.random.Generator, missing: float) -> np.ndarray:
    """Continuous, coarse and sparse columns, and categories, some of them not there."""
    x = rng.standard_normal((200, 5))
    x[:, 1] = x[:, 1].round(1)
    x[:, 2] *= rng.random(200) < 0.3
    x[:, 3], x[:, 4] = rng.integers(0, 40, 200), rng.integers(-1, 4, 200)
    x[rng.random(x.shape) < missing] = np.nan
    return x


def target(rng: np.random.Generator, x: np.ndarray, kind: str) -> np.ndarray:
    """Return what the features tell, with noise."""
    filled = np.nan_to_num(x)
    value = (
        filled[:, 0]
        + (filled[:, 1] > 0)
        + (filled[:, 3] % 3 == 1)
        + (filled[:, -1] == 0)
        + 0.3 * rng.standard_normal(len(x))
    )
    kinds = {
        "positive": np.exp(value / 2),
        "share": 1 / (1 + np.exp(-value)),
        "two": (value > 0.5).astype(int),
        "three": np.digitize(value, [0, 1.5]),
    }
    return kinds.get(kind, value)


def try_arrays(
    model: Any,
    rng: np.random.Generator,
    plain: np.ndarray,
    backends: tuple[str, ...],
    *,
    infinite: bool = True,
    **options: Any,
) -> None:
    """Compare on hostile arrays of both dtypes, on ints and on few rows."""
    rows = [
        hostile_rows(parse(model), rng, 300, dtype, plain=plain, infinite=infinite)
        for dtype in ("float64", "float32")
    ]
    whole = rng.integers(-(2**26), 2**26, plain.shape) >> rng.integers(0, 26, plain.shape)
    check(model, [*rows, whole, rows[0][:1]], backends=backends, **options)


@drawn
@given(
    settings(),
    st.sampled_from(sorted(REGRESSION)),
    st.booleans(),
    missing_rules,
    missing_shares,
    st.sampled_from(["auto", [3], [3, 4]]),
    st.booleans(),
    seeds,
    backends,
)
def test_regressors(chosen, objective, reg_sqrt, rule, missing, listed, as_booster, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    y = target(rng, x, REGRESSION[objective])
    x[:, 3] *= [1, 1, 997][seed % 3]
    if listed != "auto" or objective in RENEWED:
        chosen = {
            k: v for k, v in chosen.items() if k != "monotone_constraints"
        }  # which LightGBM refuses
    model = lgb.LGBMRegressor(**chosen, **rule, objective=objective, reg_sqrt=reg_sqrt)
    model.fit(x, y, categorical_feature=listed)
    try_arrays(model.booster_ if as_booster else model, rng, x, where)


@drawn
@given(
    settings(),
    st.sampled_from(sorted(CLASSES)),
    st.sampled_from(sorted(LABELS)),
    missing_rules,
    missing_shares,
    st.sampled_from(["auto", [3]]),
    seeds,
    backends,
)
def test_classifiers(chosen, objective, labels, rule, missing, listed, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    chosen = {k: v for k, v in chosen.items() if k != "monotone_constraints"}
    labels = "text" if CLASSES[objective] == "three" and labels == "flag" else labels
    y = LABELS[labels][target(rng, x, CLASSES[objective])]
    try_arrays(
        lgb.LGBMClassifier(**chosen, **rule, objective=objective, sigmoid=0.7).fit(
            x, y, categorical_feature=listed
        ),
        rng,
        x,
        where,
    )


@drawn
@given(settings(), st.sampled_from(["lambdarank", "rank_xendcg"]), missing_rules, seeds, backends)
def test_rankers(chosen, objective, rule, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    model = lgb.LGBMRanker(**chosen, **rule, objective=objective).fit(
        x, target(rng, x, "three"), group=[80, 120]
    )
    try_arrays(model, rng, x, where)


@drawn
@given(
    settings(boosters=False),
    st.sampled_from(["regression", "poisson", "binary", "multiclass"]),
    st.booleans(),
    missing_shares,
    st.booleans(),
    seeds,
    backends,
)
def test_linear_leaves(chosen, objective, dart, missing, listed, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    chosen = {
        k: v for k, v in chosen.items() if k not in ("monotone_constraints", "extra_trees")
    } | ({"boosting_type": "dart", "drop_rate": 0.5} if dart else {})
    cls, kind = (
        (lgb.LGBMClassifier, CLASSES[objective])
        if objective in CLASSES
        else (lgb.LGBMRegressor, REGRESSION[objective])
    )
    model = cls(**chosen, linear_tree=True, objective=objective).fit(
        x, target(rng, x, kind), categorical_feature=[3] if listed else "auto"
    )
    try_arrays(
        model,
        rng,
        x,
        where,
        infinite=objective == "regression",
        loose=2.0 if objective == "poisson" else 1.0,
    )


@drawn
@given(
    settings(boosters=False),
    st.lists(
        st.sampled_from(
            [{}, {"zero_as_missing": True}, {"use_missing": False}, {"linear_tree": True}]
        ),
        min_size=2,
        max_size=3,
    ),
    seeds,
    backends,
)
def test_trees_of_several_missing_rules(chosen, rules, seed, where):
    rng = np.random.default_rng(seed)
    x, model = numbers(rng, 0.2), None
    y, chosen = (
        target(rng, x, "value"),
        {
            k: v
            for k, v in chosen.items()
            if k not in ("monotone_constraints", "extra_trees", "n_estimators")
        },
    )
    if {"linear_tree": True} in rules:
        rules = [
            rule for rule in rules if "zero_as_missing" not in rule
        ]  # which LightGBM refuses beside linear trees
    for place, rule in enumerate(rules):
        data = lgb.Dataset(
            x,
            y,
            categorical_feature=[[3], [4], [2, 3]][(seed + place) % 3],
            params={**chosen, **rule},
            free_raw_data=False,
        )
        model = lgb.train({**chosen, **rule}, data, num_boost_round=3, init_model=model)
    try_arrays(model, rng, x, where)


@drawn
@given(settings(), st.booleans(), st.integers(0, 14), st.integers(1, 14), seeds, backends)
def test_slices_of_the_iterations(chosen, classify, first, count, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    model = (lgb.LGBMClassifier if classify else lgb.LGBMRegressor)(**chosen).fit(
        x, target(rng, x, "three" if classify else "value")
    )
    part = {"start_iteration": first, "num_iteration": count}

    def ask_part(estimator: Any, method: str, rows: Any) -> Any:
        options = {"raw_scores": {"raw_score": True}, "apply": {"pred_leaf": True}}.get(method, {})
        with np.errstate(all="ignore"):
            return getattr(estimator, "predict" if options else method)(rows, **part, **options)

    rows = [
        hostile_rows(parse(model), rng, 200, dtype, plain=x) for dtype in ("float64", "float32")
    ]
    check(model, rows, backends=where, ask=ask_part, iterations=(first, first + count))


@drawn
@given(settings(boosters=False), st.booleans(), seeds, backends)
def test_early_stopping(chosen, as_booster, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    y = target(rng, x, "three")
    model = lgb.LGBMClassifier(**{**chosen, "n_estimators": 30})
    model.fit(
        x[:120],
        y[:120],
        eval_X=x[120:],
        eval_y=y[120:],
        callbacks=[lgb.early_stopping(2, verbose=False)],
    )
    try_arrays(model.booster_ if as_booster else model, rng, x, where)


def table(rng: np.random.Generator, x: np.ndarray) -> pd.DataFrame:
    """Columns of categories, text and whole, in any order of their values, beside columns of
    numbers of several dtypes.
    """
    holes = rng.random((len(x), 2)) < 0.1
    text = pd.Categorical.from_codes(
        np.where(holes[:, 0], -1, rng.integers(0, len(TEXTS), len(x))), list(rng.permutation(TEXTS))
    )
    whole = pd.Categorical.from_codes(
        np.where(holes[:, 1], -1, rng.integers(0, len(WHOLE), len(x))), rng.permutation(WHOLE)
    )
    with np.errstate(over="ignore"):
        return pd.DataFrame(
            {
                "a b": x[:, 0],
                "text": text,
                "narrow": x[:, 1].astype(np.float32),
                "whole": whole,
                "age": rng.integers(-99, 99, len(x)),
                "c": x[:, 2],
            }
        )


@drawn
@given(settings(), missing_rules, st.booleans(), st.booleans(), seeds, backends)
def test_tables_of_categories(chosen, rule, classify, as_booster, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    frame = table(rng, x)
    y = target(
        rng,
        np.stack(
            [x[:, 0], x[:, 1], x[:, 2], frame["text"].cat.codes, frame["whole"].cat.codes % 3],
            axis=1,
        ),
        "three" if classify else "value",
    )
    chosen = {k: v for k, v in chosen.items() if k != "monotone_constraints"}
    model = (lgb.LGBMClassifier if classify else lgb.LGBMRegressor)(**chosen, **rule).fit(frame, y)
    model = model.booster_ if as_booster else model
    unseen = table(rng, hostile_rows(parse(model), rng, 200)[:, [0, 2, 5]])
    unseen["text"] = unseen["text"].cat.add_categories(["new"]).where(rng.random(200) < 0.9, "new")
    check(model, [frame, unseen, frame[:1]], backends=where, ask=ask)
