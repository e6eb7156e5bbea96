"""Models of XGBoost drawn at random, on rows made to hurt: every booster and objective,
categories, missing values, wrappers and Booster.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given
from sources import quietly
from trees.battery import BACKENDS, FEW, check, drawn, hostile_rows

from hbconv.parse import parse

LARGEST = np.finfo(np.float32).max

REGRESSION = {
    **dict.fromkeys(
        ("reg:squarederror", "reg:pseudohubererror", "reg:absoluteerror", "reg:quantileerror"),
        "value",
    ),
    **dict.fromkeys(
        ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "reg:squaredlogerror"),
        "positive",
    ),
    "reg:logistic": "share",
}
CLASSES = {
    "binary:logistic": "two",
    "binary:logitraw": "two",
    "binary:hinge": "two",
    "multi:softprob": "three",
    "multi:softmax": "three",
}
RANKING = ("rank:ndcg", "rank:map", "rank:pairwise")
TEXTS, WHOLE = (
    np.array(["red", "blue", "", "dark green", "x", "y"]),
    np.array([5, -7, 300, 11, 2**40, 0]),
)


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of the trees."""
    leafwise = draw(st.booleans())
    chosen = {
        "max_depth": 0 if leafwise else draw(st.integers(1, 6)),
        **(
            {"grow_policy": "lossguide", "max_leaves": draw(st.integers(2, 20))} if leafwise else {}
        ),
        "n_estimators": draw(st.integers(1, 10)),
        "learning_rate": draw(st.sampled_from([0.1, 0.3, 1.0])),
        "subsample": draw(st.sampled_from([0.6, 1.0])),
        "colsample_bytree": draw(st.sampled_from([0.5, 1.0])),
        "num_parallel_tree": draw(st.sampled_from([1, 1, 3])),
        "gamma": draw(st.sampled_from([0.0, 0.0, 0.5, 1e9])),
        "reg_alpha": draw(st.sampled_from([0.0, 0.1])),
        "max_bin": draw(st.sampled_from([5, 256])),
        "base_score": draw(st.sampled_from([None, 0.5, 0.3])),
        "random_state": draw(st.integers(0, 9)),
        "n_jobs": 1,
    }
    return chosen | draw(
        st.sampled_from(
            [{}, {}, {"booster": "dart", "rate_drop": 0.4}, {"monotone_constraints": "(1,0,-1)"}]
        )
    )


def numbers(rng: np.random.Generator, missing: float) -> np.ndarray:
    """Continuous, coarse and sparse columns, some of them not there."""
    x = rng.standard_normal((200, 5))
    x[:, 1] = x[:, 1].round(1)
    x[:, 2] *= rng.random(200) < 0.3
    x[rng.random(x.shape) < missing] = np.nan
    return x


def target(rng: np.random.Generator, x: np.ndarray, kind: str) -> np.ndarray:
    """Return what the features tell, with noise."""
    filled = np.nan_to_num(x)
    value = (
        filled[:, 0]
        + (filled[:, 1] > 0)
        + np.sin(7 * filled[:, -1])
        + 0.3 * rng.standard_normal(len(x))
    )
    kinds = {
        "positive": np.exp(value / 2),
        "share": 1 / (1 + np.exp(-value)),
        "two": (value > 0).astype(int),
        "three": np.digitize(value, [0, 1]),
    }
    return kinds.get(kind, value)


def ask(estimator: Any, method: str, x: Any) -> Any:
    """Ask for leaves with the largest numbers in place of infinity, which there alone XGBoost
    refuses, unless it is missing: they go the same way.
    """
    if (
        method == "apply"
        and isinstance(x, np.ndarray)
        and not isinstance(estimator, xgb.Booster)
        and not np.isinf(estimator.missing)
    ):
        x = np.clip(x, -LARGEST, LARGEST)
    return quietly(estimator, method, x)


def try_arrays(
    model: Any,
    rng: np.random.Generator,
    plain: np.ndarray,
    backends: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare on hostile arrays of both dtypes, and on few rows."""
    graph, infinite = (
        parse(model),
        not (isinstance(model, xgb.Booster) or model.booster == "gblinear"),
    )
    rows = [
        hostile_rows(graph, rng, 300, dtype, plain=plain, infinite=infinite)
        for dtype in ("float64", "float32")
    ]
    check(model, [*rows, rows[0][:1]], backends=backends, ask=ask, **options)


backends = st.sampled_from([FEW, FEW, FEW, BACKENDS])
missing_shares = st.sampled_from([0.0, 0.1, 0.5])


@drawn
@given(
    settings(),
    st.sampled_from(sorted(REGRESSION)),
    st.integers(0, 99),
    missing_shares,
    st.booleans(),
    backends,
)
def test_regressors(chosen, objective, seed, missing, as_booster, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    alphas = {"quantile_alpha": [0.2, 0.9]} if objective == "reg:quantileerror" else {}
    model = xgb.XGBRegressor(**chosen, **alphas, objective=objective).fit(
        x, target(rng, x, REGRESSION[objective])
    )
    try_arrays(model.get_booster() if as_booster else model, rng, x, where)


@drawn
@given(
    settings(),
    st.sampled_from(sorted(CLASSES)),
    st.integers(0, 99),
    missing_shares,
    st.booleans(),
    backends,
)
def test_classifiers(chosen, objective, seed, missing, as_booster, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    model = xgb.XGBClassifier(**chosen, objective=objective).fit(
        x, target(rng, x, CLASSES[objective])
    )
    # The wrapper takes the softmax of multi:softmax in numpy's float32, whose exponential is good
    # to 2 units.
    try_arrays(
        model.get_booster() if as_booster else model,
        rng,
        x,
        where,
        loose=2.0 if objective == "multi:softmax" else 1.0,
    )


@drawn
@given(
    settings(),
    st.sampled_from(["regressor", "labels", "classes"]),
    st.sampled_from(["one_output_per_tree", "multi_output_tree"]),
    st.integers(0, 99),
    backends,
)
def test_several_outputs(chosen, kind, strategy, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    if strategy == "multi_output_tree":
        chosen = {
            k: v
            for k, v in chosen.items()
            if k
            not in (
                "booster",
                "rate_drop",
                "monotone_constraints",
                "colsample_bytree",
                "base_score",
            )
        }
    several = np.stack([target(rng, x[:, ::step], "value") for step in (1, -1)], axis=1)
    y = {
        "regressor": several,
        "labels": (several > 0).astype(int),
        "classes": target(rng, x, "three"),
    }[kind]
    model = (xgb.XGBRegressor if kind == "regressor" else xgb.XGBClassifier)(
        **chosen, multi_strategy=strategy
    ).fit(x, y)
    try_arrays(model, rng, x, where)


@drawn
@given(settings(), st.sampled_from(RANKING), st.integers(0, 99), backends)
def test_rankers(chosen, objective, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    model = xgb.XGBRanker(**chosen, objective=objective).fit(
        x, target(rng, x, "two"), group=[80, 120]
    )
    try_arrays(model, rng, x, where)


@drawn
@given(
    st.sampled_from(["reg:squarederror", "binary:logistic", "multi:softprob", "count:poisson"]),
    st.integers(0, 99),
    missing_shares,
    st.booleans(),
    backends,
)
def test_linear_boosters(objective, seed, missing, as_booster, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    cls = xgb.XGBRegressor if objective in REGRESSION else xgb.XGBClassifier
    kind = {**REGRESSION, **CLASSES}[objective]
    model = cls(
        n_estimators=5, booster="gblinear", objective=objective, reg_lambda=0.1, n_jobs=1
    ).fit(x, target(rng, x, kind))
    try_arrays(model.get_booster() if as_booster else model, rng, x, where)


@drawn
@given(
    settings(),
    st.sampled_from([0.0, -1.0, 0.1, 1e-40, np.inf]),
    st.booleans(),
    st.integers(0, 99),
    backends,
)
def test_other_missing_values(chosen, missing, stopped, seed, where):
    rng = np.random.default_rng(seed)
    x = np.nan_to_num(numbers(rng, 0.3), nan=missing if np.isfinite(missing) else 7.0)
    y = target(rng, np.nan_to_num(x, posinf=7.0), "value")
    early = {"early_stopping_rounds": 1} if stopped and chosen.get("booster") != "dart" else {}
    model = xgb.XGBRegressor(**chosen, **early, missing=missing)
    model.fit(x, y, **({"eval_set": [(x, y[::-1])], "verbose": False} if early else {}))
    try_arrays(model, rng, np.concatenate([x, np.full_like(x[:9], missing)]), where)


@st.composite
def sets(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of tests on categories."""
    return {
        "max_cat_to_onehot": draw(st.sampled_from([1, 4, 100])),
        "max_cat_threshold": draw(st.sampled_from([2, 64])),
        "enable_categorical": True,
    }


@drawn
@given(
    settings(),
    sets(),
    st.sampled_from([3, 40, 200]),
    st.sampled_from(["reg:squarederror", "multi:softprob"]),
    st.booleans(),
    st.integers(0, 99),
    backends,
)
def test_categories_as_numbers(chosen, listed, size, objective, as_booster, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    x[:, 0], x[:, 4] = rng.integers(0, size, 200), rng.integers(0, 4, 200)
    x[rng.random(x.shape) < 0.1] = np.nan
    y = target(rng, x % 3, "three" if objective.startswith("multi") else "value")
    cls = xgb.XGBClassifier if objective.startswith("multi") else xgb.XGBRegressor
    model = cls(
        **{k: v for k, v in chosen.items() if k != "monotone_constraints"},
        **listed,
        feature_types=["c", "q", "q", "q", "c"],
    ).fit(x, y)
    try_arrays(model.get_booster() if as_booster else model, rng, x, where)


def table(rng: np.random.Generator, x: np.ndarray) -> pd.DataFrame:
    """Columns of categories, text and whole, in any order of their values, beside columns of
    numbers.
    """
    holes = rng.random((len(x), 2)) < 0.1
    text = pd.Categorical.from_codes(
        np.where(holes[:, 0], -1, rng.integers(0, len(TEXTS), len(x))), list(rng.permutation(TEXTS))
    )
    whole = pd.Categorical.from_codes(
        np.where(holes[:, 1], -1, rng.integers(0, len(WHOLE), len(x))), rng.permutation(WHOLE)
    )
    return pd.DataFrame(
        {"first": x[:, 0], "text": text, "second": x[:, 1], "third": x[:, 2], "whole": whole}
    )


@drawn
@given(settings(), sets(), st.booleans(), st.booleans(), st.integers(0, 99), backends)
def test_tables_of_categories(chosen, listed, classify, as_booster, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    frame = table(rng, x)
    y = target(
        rng,
        np.stack([x[:, 0], frame["text"].cat.codes, frame["whole"].cat.codes % 3], axis=1),
        "three" if classify else "value",
    )
    cls = xgb.XGBClassifier if classify else xgb.XGBRegressor
    model = cls(**{k: v for k, v in chosen.items() if k != "monotone_constraints"}, **listed).fit(
        frame, y
    )
    model = model.get_booster() if as_booster else model
    hostile = hostile_rows(
        parse(model),
        rng,
        200,
        plain=np.nan_to_num(np.concatenate([x[:, :4], x[:, :1]], axis=1)),
        infinite=False,
    )
    check(model, [frame, table(rng, hostile[:, [0, 2, 3]]), frame[:1]], backends=where)


@pytest.mark.parametrize("cls", [xgb.XGBRFClassifier, xgb.XGBRFRegressor])
@drawn
@given(settings(), st.integers(0, 99), backends)
def test_random_forests(cls, chosen, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    own = {
        k: v
        for k, v in chosen.items()
        if k not in ("num_parallel_tree", "booster", "rate_drop", "learning_rate")
    }
    try_arrays(
        cls(**own).fit(x, target(rng, x, "three" if cls is xgb.XGBRFClassifier else "value")),
        rng,
        x,
        where,
    )
