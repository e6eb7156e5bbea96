"""Models of scikit-learn's trees, forests and boosting drawn at random, on rows made to hurt."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
from hypothesis import given
from sklearn import ensemble, tree
from sources import quietly
from trees.battery import BACKENDS, FEW, check, drawn, hostile_rows

from hbconv.containers import TreeLeaves
from hbconv.parse import parse

AVERAGED = (
    (tree.DecisionTreeClassifier, tree.DecisionTreeRegressor),
    (tree.ExtraTreeClassifier, tree.ExtraTreeRegressor),
    (ensemble.RandomForestClassifier, ensemble.RandomForestRegressor),
    (ensemble.ExtraTreesClassifier, ensemble.ExtraTreesRegressor),
)
INITS = {
    "default": lambda _: None,
    "zero": lambda _: "zero",
    "tree": lambda kind: getattr(tree, f"DecisionTree{kind}")(max_depth=3),
    "forest": lambda kind: getattr(ensemble, f"ExtraTrees{kind}")(3, max_depth=4, random_state=0),
    "boosting": lambda kind: getattr(ensemble, f"HistGradientBoosting{kind}")(max_iter=2),
}
ODD = (
    -1.0,
    -0.5,
    -0.0,
    0.5,
    1.5,
    100.0,
    254.0,
    255.0,
    256.0,
    257.0,
    512.0,
    2.0**24,
    2.0**24 + 1,
    1e30,
)

backends = st.sampled_from([FEW, FEW, FEW, BACKENDS])
seeds = st.integers(0, 99)
missing_shares = st.sampled_from([0.0, 0.1, 0.5])


def numbers(rng: np.random.Generator, missing: float = 0.0) -> np.ndarray:
    """Continuous, coarse, whole and mostly zero columns, some of them not there."""
    x = rng.standard_normal((220, 5))
    x[:, 1] = x[:, 1].round(1)
    x[:, 2] *= rng.random(220) < 0.3
    x[:, 3] = rng.integers(0, 12, 220)
    x[rng.random(x.shape) < missing] = np.nan
    return x


def value(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return what the features tell, with noise."""
    filled = np.nan_to_num(x)
    return (
        filled[:, 0]
        + (filled[:, 1] > 0)
        + np.isin(filled[:, 3], [1, 4, 5, 9])
        + 0.3 * rng.standard_normal(len(x))
    )


def labels(rng: np.random.Generator, x: np.ndarray, kind: str) -> np.ndarray:
    """Classes of any type, in one column or several."""
    band = np.digitize(value(rng, x), [-0.5, 0.5, 1.5])
    texts = np.array(["low", "", "high", "very high"])
    kinds = {
        "text": texts[band],
        "object": texts.astype(object)[band],
        "two": np.where(band > 1, "yes", "no"),
        "bool": band > 1,
        "int": band * 7 - 3,
        "float": band.astype(np.float64),
        "one": np.full(len(x), 5),
        "texts": np.stack(
            [texts[band], np.where(x[:, 0] > 0, "a", "b"), np.full(len(x), "all")], axis=1
        ),
        "ints": np.stack([band, rng.integers(0, 2, len(x))], axis=1),
        "bools": np.stack([band > 0, band > 1], axis=1),
    }
    return kinds[kind]


@st.composite
def growth(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of single trees."""
    return {
        "max_depth": draw(st.sampled_from([None, 1, 4, 9])),
        "max_leaf_nodes": draw(st.sampled_from([None, None, 2, 13])),
        "min_samples_leaf": draw(st.sampled_from([1, 1, 10, 200])),
        "max_features": draw(st.sampled_from([None, "sqrt", 1])),
        "min_impurity_decrease": draw(st.sampled_from([0.0, 0.0, 0.01])),
        "random_state": draw(st.integers(0, 9)),
    }


def several(cls: type) -> dict[str, int]:
    """Few members for a forest."""
    return {"n_estimators": 6} if cls.__module__.startswith("sklearn.ensemble") else {}


def rows_of(
    model: Any, rng: np.random.Generator, plain: np.ndarray, **kinds: bool
) -> list[np.ndarray]:
    """Hostile rows of both dtypes, and one alone."""
    wide, narrow = (
        hostile_rows(parse(model), rng, 250, dtype, plain=plain, **kinds)
        for dtype in ("float64", "float32")
    )
    return [wide, narrow, wide[:1]]


@drawn
@given(
    st.sampled_from(AVERAGED), growth(), st.sampled_from(["gini", "entropy", "log_loss"]),
    st.sampled_from([None, "balanced"]),
    st.sampled_from(["text", "object", "two", "bool", "int", "float", "one", "texts", "ints", "bools"]), missing_shares, seeds, backends,
)  # fmt: skip
def test_classifiers(family, chosen, criterion, class_weight, kind, missing, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    constrained = kind in ("two", "bool") and not missing and seed % 3 == 0
    constraints = {"monotonic_cst": [1, 0, 0, -1, 0]} if constrained else {}
    model = family[0](
        **chosen,
        **constraints,
        **several(family[0]),
        criterion=criterion,
        class_weight=class_weight,
        ccp_alpha=0.003 * (seed % 2),
    )
    model.fit(x, labels(rng, x, kind))
    check(model, rows_of(model, rng, x, infinite=False), backends=where)


@drawn
@given(
    st.sampled_from(AVERAGED), growth(),
    st.sampled_from(["squared_error", "absolute_error", "poisson"]), st.booleans(), missing_shares,
    seeds, backends
)  # fmt: skip
def test_regressors(family, chosen, criterion, two_targets, missing, seed, where):
    rng = np.random.default_rng(seed)
    missing = 0.0 if criterion == "absolute_error" else missing
    x = numbers(rng, missing)
    y = np.abs(value(rng, x)) + 0.01
    constraints = (
        {"monotonic_cst": [1, 0, 0, -1, 0]}
        if criterion == "squared_error" and not (missing or two_targets)
        else {}
    )
    model = family[1](**chosen, **constraints, **several(family[1]), criterion=criterion).fit(
        x, np.stack([y, y**2], axis=1) if two_targets else y
    )
    check(
        model,
        rows_of(
            model, rng, x, nan=bool(model.__sklearn_tags__().input_tags.allow_nan), infinite=False
        ),
        backends=where,
    )


@st.composite
def boosting(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of plain gradient boosting."""
    return draw(growth()) | {
        "n_estimators": draw(st.integers(1, 8)),
        "learning_rate": draw(st.sampled_from([0.1, 0.3, 1.0])),
        "subsample": draw(st.sampled_from([1.0, 0.6])),
        "max_depth": draw(st.sampled_from([1, 3, 6])),
        "n_iter_no_change": draw(st.sampled_from([None, None, 1])),
    }


def ask(model: Any, method: str, x: np.ndarray) -> Any:
    """Ask a classifier, which for one row makes the label after each stage a scalar of its own
    length.
    """
    answer = quietly(model, method, x)
    return (
        [np.atleast_1d(codes).astype(model.classes_.dtype) for codes in answer]
        if method == "staged_predict"
        else answer
    )


def first_scores(model: Any, rows: list[np.ndarray], init: str) -> float:
    """Size of the terms whose rounding the sums keep: logarithms of a first model's averages,
    which each library rounds its own way; or of its sigmoids.

    A sigmoid near one is itself off, and its logit magnifies that by ``1 / (1 - p)``.
    """
    size = float(max(np.abs(model._raw_predict_init(x.astype(np.float32))).max() for x in rows))
    return float(np.exp(2 * size)) if init == "boosting" else size


@drawn
@given(
    boosting(),
    st.sampled_from(sorted(INITS)),
    st.sampled_from(["text", "two", "int", "exponential"]),
    seeds,
    backends,
)
def test_gradient_boosting_classifiers(chosen, init, kind, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng)
    loss = {"loss": "exponential"} if kind == "exponential" else {}
    model = ensemble.GradientBoostingClassifier(
        **chosen, **loss, init=INITS[init]("Classifier")
    ).fit(x, labels(rng, x, "bool" if loss else kind))
    rows = rows_of(model, rng, x, nan=False, infinite=False)
    if init in ("default", "zero"):
        check(model, rows, backends=where, ask=ask)
        return
    first = first_scores(model, rows, init)
    scores = dict.fromkeys(("decision_function", "staged_decision_function"), first)
    check(
        model,
        rows,
        backends=("reference",),
        ask=ask,
        transformed=tuple(scores),
        largest=scores,
        loose=1 + np.spacing(first) / np.spacing(1.0),
    )


@drawn
@given(
    boosting(), st.sampled_from(sorted(INITS)),
    st.sampled_from(["squared_error", "absolute_error", "huber", "quantile"]), seeds, backends
)  # fmt: skip
def test_gradient_boosting_regressors(chosen, init, loss, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng)
    model = ensemble.GradientBoostingRegressor(
        **chosen, loss=loss, alpha=0.7, init=INITS[init]("Regressor")
    ).fit(x, value(rng, x))
    check(model, rows_of(model, rng, x, nan=False, infinite=False), backends=where)


@st.composite
def histograms(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of histogram-based gradient boosting."""
    return {
        "max_iter": draw(st.integers(1, 8)),
        "max_leaf_nodes": draw(st.sampled_from([2, 7, 31])),
        "max_depth": draw(st.sampled_from([None, 2])),
        "min_samples_leaf": draw(st.sampled_from([2, 20, 300])),
        "learning_rate": draw(st.sampled_from([0.1, 1.0])),
        "l2_regularization": draw(st.sampled_from([0.0, 1.0])),
        "max_bins": draw(st.sampled_from([3, 20, 255])),
        "max_features": draw(st.sampled_from([1.0, 0.5])),
        "interaction_cst": draw(
            st.sampled_from([None, "no_interactions", "pairwise", [{0, 3}, {1}]])
        ),
        "early_stopping": draw(st.booleans()),
        "n_iter_no_change": 2,
        "random_state": draw(st.integers(0, 9)),
    }


categorical_features = st.sampled_from([None, [3], [1, 3], [True, False, False, True, False]])


def hostile_categories(model: Any, rng: np.random.Generator, plain: np.ndarray) -> list[np.ndarray]:
    """Hostile rows, where columns of categories hold known and unknown ones: the forest counts
    them first.
    """
    listed = model.is_categorical_
    if listed is None:
        return rows_of(model, rng, plain)
    order = np.concatenate([np.flatnonzero(listed), np.flatnonzero(~listed)])
    made = []
    for rows in rows_of(model, rng, plain[:, order]):
        x = np.empty_like(rows)
        x[:, order] = rows
        for column in np.flatnonzero(listed):
            x[:, column] = rng.choice([*np.unique(plain[:, column]), *ODD, np.nan, np.nan], len(x))
        made.append(x)
    return made


def enough_bins(chosen: dict[str, Any], categorical: Any) -> dict[str, Any]:
    """More categories than bins are refused by the source."""
    return chosen if categorical is None else chosen | {"max_bins": 255}


@drawn
@given(
    histograms(),
    st.sampled_from(["text", "two", "bool", "int"]),
    categorical_features,
    missing_shares,
    seeds,
    backends,
)
def test_histogram_classifiers(chosen, kind, categorical, missing, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    chosen = enough_bins(chosen, categorical)
    model = ensemble.HistGradientBoostingClassifier(
        **chosen, categorical_features=categorical, class_weight=[None, "balanced"][seed % 2]
    )
    model.fit(x.astype("float32") if seed % 5 == 0 else x, labels(rng, x, kind))
    check(model, hostile_categories(model, rng, x), backends=where)


@drawn
@given(
    histograms(),
    st.sampled_from(["squared_error", "absolute_error", "gamma", "poisson", "quantile"]),
    categorical_features, missing_shares, seeds, backends
)  # fmt: skip
def test_histogram_regressors(chosen, loss, categorical, missing, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    constraints = {"monotonic_cst": [0, 0, -1, 0, 1]} if seed % 3 == 0 else {}
    quantile = {"quantile": 0.3} if loss == "quantile" else {}
    chosen = enough_bins(chosen, categorical)
    model = ensemble.HistGradientBoostingRegressor(
        **chosen, **constraints, **quantile, loss=loss, categorical_features=categorical
    )
    model.fit(x, np.abs(value(rng, x)) + 0.01)
    # exp magnifies the last digit of a sum by the size of the sum, which learning_rate=1 lets grow.
    check(model, hostile_categories(model, rng, x), backends=where)


@drawn
@given(histograms(), st.sampled_from(["text", "numbers", "both"]), missing_shares, seeds, backends)
def test_categories_of_tables(chosen, kind, missing, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    table = pd.DataFrame(x, columns=list("abcde"))
    if kind != "numbers":
        texts = np.array([None if np.isnan(v) else f"k{v:.0f}" for v in x[:, 3]], dtype=object)
        table["d"] = pd.Categorical(texts)
    if kind != "text":
        table["b"] = pd.Categorical(x[:, 1])
    model = ensemble.HistGradientBoostingRegressor(**enough_bins(chosen, kind)).fit(
        table, value(rng, x)
    )
    other = table.sample(len(table), replace=True, random_state=seed)
    if kind != "numbers":
        other["d"] = pd.Categorical(rng.choice(["k1", "k4", "never", ""], len(other)))
    check(model, [table, other, other[:1]], backends=where)


def test_each_drawn_kind_of_tree_has_leaves():
    """The rows of the battery are drawn from these forests: a model without tests would show
    nothing.
    """
    x = numbers(np.random.default_rng(0))
    model = ensemble.RandomForestClassifier(6, random_state=0).fit(
        x, labels(np.random.default_rng(0), x, "text")
    )
    assert any(
        isinstance(node, TreeLeaves) and node.forest.n_tests > 50 for node in parse(model).nodes()
    )
