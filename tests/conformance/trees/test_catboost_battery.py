"""Models of CatBoost drawn at random, on rows made to hurt: symmetric and other trees, every
kind of objective, categories, missing values.
"""

from __future__ import annotations

from typing import Any

import catboost
import hypothesis.strategies as st
import numpy as np
import pandas as pd
from hypothesis import given
from trees.battery import BACKENDS, FEW, check, drawn, hostile_rows

from hbconv.parse import parse

QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}

REGRESSION = {
    **dict.fromkeys(
        (
            "RMSE",
            "MAE",
            "Quantile:alpha=0.7",
            "LogLinQuantile:alpha=0.4",
            "MAPE",
            "Huber:delta=1",
            "Expectile:alpha=0.3",
            "LogCosh",
        ),
        "value",
    ),
    **dict.fromkeys(
        ("Poisson", "Tweedie:variance_power=1.5", "Lq:q=3", "RMSEWithUncertainty"), "positive"
    ),
    **dict.fromkeys(("MultiRMSE", "MultiRMSEWithMissingValues"), "several"),
    "MultiQuantile:alpha=0.1,0.5,0.9": "value",
}
CLASSES = {
    **dict.fromkeys(
        ("Logloss", "MultiClass", "MultiClassOneVsAll"), ("two_text", "two_bool", "two")
    ),
    "CrossEntropy": ("share",),
    "MultiLogloss": ("labels",),
    "MultiCrossEntropy": ("labels",),
}
MANY = dict.fromkeys(("MultiClass", "MultiClassOneVsAll"), ("three_text", "three_float", "ten"))
RANKING = ("YetiRank", "PairLogit", "QueryRMSE", "QuerySoftMax")
TEXTS = np.array(
    [
        "red",
        "blue",
        "",
        "dark green",
        "été",
        "a text of more than sixty-four bytes, as long as a sentence that goes on and on",
        "10",
        "-3",
    ],
    dtype=object,
)
UNSEEN = np.array(["Red", "red ", "nan", "1e3"], dtype=object)


@st.composite
def settings(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of the trees."""
    policy = draw(st.sampled_from(["SymmetricTree", "SymmetricTree", "Depthwise", "Lossguide"]))
    by_policy = {
        "SymmetricTree": {
            "depth": draw(st.integers(1, 7)),
            **draw(st.sampled_from([{}, {}, {"monotone_constraints": [1, 0, -1, 0, 0]}])),
        },
        "Depthwise": {
            "depth": draw(st.integers(1, 5)),
            "min_data_in_leaf": draw(st.sampled_from([1, 20])),
        },
        "Lossguide": {
            "depth": 9,
            "max_leaves": draw(st.integers(2, 20)),
            "min_data_in_leaf": draw(st.sampled_from([1, 20])),
        },
    }
    return {
        "grow_policy": policy,
        **by_policy[policy],
        "iterations": draw(st.integers(1, 12)),
        "learning_rate": draw(st.sampled_from([0.03, 0.5, 1.0])),
        "border_count": draw(st.sampled_from([1, 5, 32, 254, 600])),
        "nan_mode": draw(st.sampled_from(["Min", "Max"])),
        "l2_leaf_reg": draw(st.sampled_from([0.0, 3.0])),
        "random_strength": draw(st.sampled_from([0.0, 1.0])),
        "random_seed": draw(st.integers(0, 9)),
        **QUIET,
    }


def numbers(rng: np.random.Generator, missing: float) -> np.ndarray:
    """Continuous, coarse and sparse columns, some of them not there."""
    x = rng.standard_normal((200, 5))
    x[:, 1] = x[:, 1].round(1)
    x[:, 2] *= rng.random(200) < 0.3
    x[:, 3] *= 1e-41
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
    three = np.digitize(value, [0, 1])
    kinds = {
        "positive": np.exp(value / 2),
        "several": np.stack([value, value[::-1], filled[:, 1]], axis=1),
        "share": 1 / (1 + np.exp(-value)),
        "two": (value > 0) * 4 + 3, "two_bool": value > 0,
        "two_text": np.where(value > 0, "yes", "no"),
        "three_text": np.array(["low", "mid", "high"])[three],
        "three_float": three * 0.5 - 1,
        "ten": np.digitize(value, np.quantile(value, np.linspace(0.1, 0.9, 9))),
        "labels": np.stack([value > 0, value > 1, filled[:, 1] > 0], axis=1).astype(int),
        "relevance": three,
    }  # fmt: skip
    return kinds.get(kind, value)


def try_arrays(
    model: Any,
    rng: np.random.Generator,
    plain: np.ndarray,
    backends: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare on hostile arrays of both dtypes, on few rows, and on whole numbers."""
    graph = parse(model)
    rows = [hostile_rows(graph, rng, 300, dtype, plain=plain) for dtype in ("float64", "float32")]
    check(
        model,
        [*rows, rows[0][:1], rows[1][:7], rng.integers(-3, 4, (20, plain.shape[1]))],
        backends=backends,
        **options,
    )


backends = st.sampled_from([FEW, FEW, FEW, BACKENDS])
missing_shares = st.sampled_from([0.0, 0.1, 0.5])
moves = st.sampled_from([None, None, (0.7, 0.1), (-3.0, 1e3)])


def moved(model: Any, move: tuple[float, float] | None) -> Any:
    """Give a model another scale and bias."""
    if move is not None:
        width = np.size(model.get_scale_and_bias()[1])
        model.set_scale_and_bias(
            move[0], move[1] if width == 1 else [move[1] + i for i in range(width)]
        )
    return model


@drawn
@given(
    settings(),
    st.sampled_from(sorted(REGRESSION)),
    st.integers(0, 99),
    missing_shares,
    moves,
    st.booleans(),
    backends,
)
def test_regressors(chosen, loss, seed, missing, move, plainly, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    y = target(rng, x, REGRESSION[loss])
    model = (
        catboost.CatBoost({"loss_function": loss, **chosen})
        if plainly
        else catboost.CatBoostRegressor(loss_function=loss, **chosen)
    )
    try_arrays(moved(model.fit(x, y), move), rng, x, where)


@drawn
@given(
    st.data(),
    settings(),
    st.sampled_from([*CLASSES.items(), *MANY.items()]),
    st.integers(0, 99),
    missing_shares,
    moves,
    backends,
)
def test_classifiers(data, chosen, objective, seed, missing, move, where):
    rng = np.random.default_rng(seed)
    x, (loss, kinds) = numbers(rng, missing), objective
    y = target(rng, x, data.draw(st.sampled_from(kinds)))
    if loss not in ("Logloss", "CrossEntropy"):
        chosen.pop("monotone_constraints", None)  # CatBoost refuses them
    model = moved(catboost.CatBoostClassifier(loss_function=loss, **chosen).fit(x, y), move)
    if loss in ("Logloss", "MultiLogloss") and data.draw(st.booleans()):
        model.set_probability_threshold(data.draw(st.sampled_from([0.0, 0.123, 0.5, 0.9, 1.0])))
    try_arrays(model, rng, x, where)


@drawn
@given(settings(), st.sampled_from(RANKING), st.integers(0, 99), backends)
def test_rankers(chosen, loss, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    model = catboost.CatBoostRanker(loss_function=loss, **chosen).fit(
        x, target(rng, x, "relevance"), group_id=np.repeat(np.arange(20), 10)
    )
    try_arrays(model, rng, x, where)


@drawn
@given(settings(), st.booleans(), st.integers(0, 99), missing_shares, st.integers(1, 8), backends)
def test_categories(chosen, classify, seed, missing, size, where):
    """Text and whole numbers as categories, in tables that hold them in many forms, seen and
    unseen.
    """
    rng = np.random.default_rng(seed)
    chosen.pop("monotone_constraints", None)
    table = pd.DataFrame(numbers(rng, missing), columns=[f"f{i}" for i in range(5)])
    table["text"], table["whole"] = (
        rng.choice(TEXTS[:size], len(table)),
        rng.integers(-size, size, len(table)),
    )
    told = (
        (table["text"] == TEXTS[0]) * 2
        + (table["whole"] % 3)
        + 0.3 * rng.standard_normal(len(table))
    )
    cls = catboost.CatBoostClassifier if classify else catboost.CatBoostRegressor
    model = cls(cat_features=["text", "whole"], one_hot_max_size=255, **chosen).fit(
        table, told > np.median(told) if classify else told
    )
    rows = pd.DataFrame(hostile_rows(parse(model), rng, 200, plain=None), columns=table.columns)
    rows["text"], rows["whole"] = (
        rng.choice([*TEXTS, *UNSEEN], len(rows)),
        rng.choice([*range(-9, 9), 2**24 + 1, 2**53 + 1, -(2**62)], len(rows)),
    )
    narrow = rows.drop(columns="f0").assign(
        f0=hostile_rows(parse(model), rng, 200, "float32")[:, 0]
    )[list(rows)]
    forms = [
        rows,
        rows.astype({"text": "category"}),
        narrow.astype({"text": "string"}),
        rows.astype({"whole": object})[:1],
    ]
    check(model, [table, *forms], backends=where)


CTRS = ("Borders", "Buckets", "BinarizedTargetMeanValue", "Counter")


@st.composite
def statistics(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of the statistics of categories."""
    priors = st.sampled_from(["", ":Prior=0.3/1", ":Prior=0/1:Prior=2/1"])
    kinds = st.lists(st.sampled_from(CTRS), min_size=1, max_size=3, unique=True)
    borders = st.sampled_from(["", ":CtrBorderCount=3"])
    described = [[kind + draw(borders) + draw(priors) for kind in draw(kinds)] for _ in range(2)]
    chosen = {
        "one_hot_max_size": draw(st.sampled_from([2, 2, 3])),
        "max_ctr_complexity": draw(st.integers(1, 4)),
        "model_size_reg": draw(st.sampled_from([0.0, 0.5])),
        "ctr_target_border_count": draw(st.sampled_from([1, 3])),
        "counter_calc_method": draw(st.sampled_from(["SkipTest", "Full"])),
        "store_all_simple_ctr": draw(st.booleans()),
        "ctr_leaf_count_limit": draw(st.sampled_from([None, None, 3])),
        "has_time": draw(st.booleans()),
    }
    if draw(st.booleans()):
        chosen |= {"simple_ctr": described[0], "combinations_ctr": described[1]}
    if draw(st.booleans()):
        chosen["per_feature_ctr"] = ["5:Borders:Prior=0.5/1"]
    return {name: value for name, value in chosen.items() if value is not None}


@drawn
@given(
    settings(),
    statistics(),
    st.sampled_from(["value", "two_text", "three_text", "relevance"]),
    st.integers(0, 99),
    missing_shares,
    backends,
)
def test_statistics_of_categories(chosen, ctrs, kind, seed, missing, where):
    """Categories of which trees read the statistics, alone, combined, and with tests of numbers."""
    rng = np.random.default_rng(seed)
    chosen.pop("monotone_constraints", None)
    if kind != "value":  # CatBoost allows several borders of a number alone
        ctrs.pop("ctr_target_border_count")
    table = pd.DataFrame(numbers(rng, missing), columns=[f"f{i}" for i in range(5)])
    table["text"] = rng.choice(TEXTS, len(table))
    table["whole"] = rng.integers(-5, 5, len(table))
    table["flag"] = rng.choice(["y", "n", "-3"], len(table))
    told = (
        (table["text"] == TEXTS[0]) * 2
        + table["whole"] % 3
        + (table["flag"] == "y") * (table["f0"] > 0)
    )
    value = told + 0.3 * rng.standard_normal(len(table))
    three = np.digitize(value, np.quantile(value, [0.4, 0.7]))
    targets = {"value": value, "relevance": three, "two_text": np.where(three > 0, "yes", "no")}
    y = targets.get(kind, np.array(["low", "mid", "high"])[three])
    groups = {"group_id": np.repeat(np.arange(20), 10)} if kind == "relevance" else {}
    cls = {"value": catboost.CatBoostRegressor, "relevance": catboost.CatBoostRanker}.get(
        kind, catboost.CatBoostClassifier
    )
    model = cls(cat_features=["text", "whole", "flag"], **chosen, **ctrs).fit(table, y, **groups)
    plain = catboost.CatBoostRegressor(**QUIET, iterations=9).fit(table.iloc[:, :5], value)
    rows = pd.DataFrame(hostile_rows(parse(plain), rng, 200), columns=table.columns[:5])
    for name, borders in model.get_borders().items():
        near = np.float32(list(borders) or [0.0])
        beside = np.concatenate([near, np.nextafter(near, -9), np.nextafter(near, 9)])
        rows.iloc[:90, name] = rng.choice(beside, 90)
    rows["text"] = rng.choice([*TEXTS, *UNSEEN], len(rows))
    rows["whole"] = rng.choice([*range(-9, 9), 2**24 + 1, 2**53 + 1, -(2**62)], len(rows))
    rows["flag"] = rng.choice(["y", "n", "-3", "10", ""], len(rows))
    forms = [rows, rows.astype({"text": "category", "flag": "string"}), rows[:1]]
    check(model, [table, *forms], backends=where)


@drawn
@given(settings(), st.integers(0, 99), st.integers(0, 11), st.integers(1, 12), moves, backends)
def test_some_iterations(chosen, seed, first, count, move, where):
    """The bias goes with the first tree."""
    rng = np.random.default_rng(seed)
    x = numbers(rng, 0.1)
    model = moved(
        catboost.CatBoostRegressor(**{**chosen, "iterations": 12}).fit(x, target(rng, x, "value")),
        move,
    )
    first, last = min(first, model.tree_count_ - 1), min(first + count, model.tree_count_)
    some = {"ntree_start": first, "ntree_end": last}

    def ask(estimator, method, x):
        answer = {
            "predict": lambda: estimator.predict(x, **some),
            "raw_scores": lambda: estimator.predict(x, prediction_type="RawFormulaVal", **some),
            "apply": lambda: estimator.calc_leaf_indexes(x, **some),
            "staged_predict": lambda: list(estimator.staged_predict(x, **some)),
        }
        return answer[method]()

    try_arrays(model, rng, x, where, ask=ask, iterations=(first, last))
