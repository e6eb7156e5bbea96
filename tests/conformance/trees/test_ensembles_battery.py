"""scikit-learn's ensembles of estimators drawn at random, on rows made to hurt."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from sources import compared, dense, quietly
from trees.battery import BACKENDS, FEW, check, drawn, hostile_rows

import hbconv
from hbconv.parse import parse

LABELS = {
    "text": np.array(["ash", "birch", "cedar", "douglas"]),
    "int": np.array([7, -3, 2**40, 0]),
    "float": np.array([4.0, -1.0, 3.0, 2.0]),
}

seeds, missing_shares = st.integers(0, 99), st.sampled_from([0.0, 0.0, 0.2])
backends = st.sampled_from([FEW, FEW, FEW, BACKENDS])


@st.composite
def tree_members(draw: st.DrawFn, kind: str) -> Any:
    """Draw a single tree of some shape; None for the ensemble's own."""
    classes = {
        "classifier": (DecisionTreeClassifier, ExtraTreeClassifier),
        "regressor": (DecisionTreeRegressor, ExtraTreeRegressor),
    }[kind]
    shape = draw(
        st.sampled_from(
            [
                {"max_depth": 1},
                {"max_depth": 3},
                {"max_leaf_nodes": 9},
                {"min_samples_leaf": 5},
                {"min_samples_leaf": 500},
            ]
        )
    )
    columns = draw(st.sampled_from([{}, {"max_features": 2}, {"ccp_alpha": 0.01}]))
    return draw(st.sampled_from([None, *(cls(**shape, **columns) for cls in classes)]))


def linear_classifiers() -> st.SearchStrategy[Any]:
    """Draw a classifier that is no tree, of each set of methods."""
    logistic = LogisticRegression(max_iter=30)
    return st.sampled_from(
        [
            logistic,
            RidgeClassifier(),
            SGDClassifier(max_iter=20, tol=None),
            make_pipeline(StandardScaler(), logistic),
        ]
    )


def numbers(rng: np.random.Generator, missing: float = 0.0) -> np.ndarray:
    """Continuous, coarse and sparse columns, some values of them missing."""
    x = rng.standard_normal((150, 5))
    x[:, 1] = x[:, 1].round(1)
    x[:, 2] *= rng.random(150) < 0.3
    x[rng.random(x.shape) < missing] = np.nan
    return x


def value(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return what the columns tell, with noise."""
    filled = np.nan_to_num(x)
    return filled[:, 0] + (filled[:, 1] > 0) - filled[:, -1] + 0.5 * rng.standard_normal(len(x))


def classes(rng: np.random.Generator, x: np.ndarray, count: int, labels: str) -> np.ndarray:
    """So many classes, the last of them rare."""
    return LABELS[labels][
        np.digitize(value(rng, x), np.quantile(value(rng, x), [0.5, 0.9, 0.97][: count - 1]))
    ]


def compare(
    model: Any,
    rng: np.random.Generator,
    plain: np.ndarray,
    where: tuple[str, ...],
    *,
    nan: bool,
    infinite: bool,
    **options: Any,
) -> None:
    """Compare on hostile rows of both dtypes, and on a single one."""
    graph = parse(model)
    rows = [
        hostile_rows(graph, rng, 300, dtype, plain=plain, nan=nan, infinite=infinite)
        for dtype in ("float64", "float32")
    ]
    check(model, [*rows, rows[0][:1]], backends=where, **options)


def near(model: Any, rng: np.random.Generator, where: tuple[str, ...]) -> None:
    """Compare on ordinary rows, which no rounding of a matrix product decides: the BLAS adds in
    an order of its own.
    """
    x = rng.standard_normal((200, 5))
    for backend in where:
        converted = hbconv.convert(model, backend=backend)
        for method in compared(converted):
            want, got = dense(quietly(model, method, x)), dense(getattr(converted, method)(x))
            assert (got.shape, got.dtype) == (want.shape, want.dtype), method
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11, err_msg=method)
            else:
                np.testing.assert_array_equal(got, want, method)


@drawn
@given(
    st.integers(1, 20),
    st.sampled_from(["auto", 1, 2, 3, 30, 0.5]),
    st.sampled_from(["auto", 0.01, 0.1, 0.5]),
    st.sampled_from([1.0, 0.5, 1, 3]),
    st.booleans(),
    seeds,
    missing_shares,
    backends,
)
def test_isolation_forests(
    count, max_samples, contamination, max_features, bootstrap, seed, missing, where
):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    settings = {
        "n_estimators": count,
        "max_samples": max_samples,
        "contamination": contamination,
        "max_features": max_features,
        "bootstrap": bootstrap,
    }
    model = IsolationForest(**settings, random_state=seed).fit(x)
    powers = {
        "transformed": ("score_samples", "decision_function"),
        "largest": {"decision_function": model.offset_},
    }
    compare(model, rng, x, where, nan=True, infinite=True, **powers)
    check(model, [x], backends=where, **powers)


@drawn
@given(
    tree_members("classifier"),
    st.integers(1, 12),
    st.sampled_from([0.1, 1.0, 2.0]),
    st.integers(2, 4),
    st.sampled_from(sorted(LABELS)),
    seeds,
    backends,
)
def test_ada_boost_classifiers(member, count, rate, n_classes, labels, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng)
    model = AdaBoostClassifier(member, n_estimators=count, learning_rate=rate, random_state=seed)
    model.fit(x, classes(rng, x, n_classes, labels))
    compare(model, rng, x, where, nan=False, infinite=False)


@drawn
@given(
    tree_members("regressor"),
    st.integers(1, 30),
    st.sampled_from([0.1, 1.0, 2.0]),
    st.sampled_from(["linear", "square", "exponential"]),
    seeds,
    backends,
)
def test_ada_boost_regressors(member, count, rate, loss, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng)
    model = AdaBoostRegressor(
        member, n_estimators=count, learning_rate=rate, loss=loss, random_state=seed
    ).fit(x, value(rng, x))
    compare(model, rng, x, where, nan=False, infinite=False)


@st.composite
def bagged(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what rows and columns the members see."""
    return {
        "n_estimators": draw(st.integers(1, 12)),
        "max_samples": draw(st.sampled_from([1.0, 0.5, 4, 12])),
        "max_features": draw(st.sampled_from([1.0, 0.6, 1, 3])),
        "bootstrap": draw(st.booleans()),
        "bootstrap_features": draw(st.booleans()),
    }


@drawn
@given(
    tree_members("classifier"),
    bagged(),
    st.integers(2, 4),
    st.sampled_from(sorted(LABELS)),
    seeds,
    missing_shares,
    backends,
)
def test_bagged_trees(member, chosen, n_classes, labels, seed, missing, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    model = BaggingClassifier(member, **chosen, random_state=seed).fit(
        x, classes(rng, x, n_classes, labels)
    )
    compare(
        model,
        rng,
        x,
        where,
        nan=not isinstance(member, ExtraTreeClassifier) or missing > 0,
        infinite=False,
    )


@drawn
@given(tree_members("regressor"), bagged(), st.booleans(), seeds, missing_shares, backends)
def test_bagged_regression_trees(member, chosen, several, seed, missing, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    y = np.stack([value(rng, x), value(rng, x)], axis=1) if several else value(rng, x)
    compare(
        BaggingRegressor(member, **chosen, random_state=seed).fit(x, y),
        rng,
        x,
        where,
        nan=True,
        infinite=False,
    )


@drawn
@given(st.sampled_from(["classifier", "regressor"]), bagged(), seeds, missing_shares, backends)
def test_bagged_forests(kind, chosen, seed, missing, where):
    rng = np.random.default_rng(seed)
    x, small = numbers(rng, missing), {"n_estimators": 3, "max_depth": 4}
    chosen = {**chosen, "n_estimators": min(chosen["n_estimators"], 4)}
    if kind == "classifier":
        model = BaggingClassifier(RandomForestClassifier(**small), **chosen, random_state=seed).fit(
            x, classes(rng, x, 3, "text")
        )
    else:
        model = BaggingRegressor(RandomForestRegressor(**small), **chosen, random_state=seed).fit(
            x, value(rng, x)
        )
    compare(model, rng, x, where, nan=True, infinite=False)


@drawn
@given(
    st.integers(1, 12),
    st.sampled_from([{"max_depth": 3}, {"max_depth": None, "max_leaf_nodes": 9}, {}]),
    st.booleans(),
    seeds,
    missing_shares,
    backends,
)
def test_embeddings(count, shape, sparse, seed, missing, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng, missing)
    model = RandomTreesEmbedding(count, **shape, sparse_output=sparse, random_state=seed).fit(x)
    compare(model, rng, x, where, nan=True, infinite=False)


@drawn
@given(linear_classifiers(), bagged(), st.integers(2, 3), seeds, backends)
def test_bagged_linear_classifiers(member, chosen, n_classes, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng)
    chosen = {
        **chosen,
        "max_samples": 0.6,
    }  # Fewer rows may be of one class, on which these do not fit.
    near(
        BaggingClassifier(member, **chosen, random_state=seed).fit(
            x, classes(rng, x, n_classes, "text")
        ),
        rng,
        where,
    )


@drawn
@given(
    st.sampled_from([Ridge(), LinearRegression(), make_pipeline(StandardScaler(), Ridge())]),
    bagged(),
    st.booleans(),
    seeds,
    backends,
)
def test_bagged_linear_regressors(member, chosen, several, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng)
    y = np.stack([value(rng, x), value(rng, x)], axis=1) if several else value(rng, x)
    near(BaggingRegressor(member, **chosen, random_state=seed).fit(x, y), rng, where)


@drawn
@given(
    st.sampled_from(
        [LogisticRegression(max_iter=30), SGDClassifier(max_iter=20, tol=None), RidgeClassifier()]
    ),
    st.integers(2, 3),
    seeds,
    backends,
)
def test_boosted_linear_classifiers(member, n_classes, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng)
    near(
        AdaBoostClassifier(member, n_estimators=4, random_state=seed).fit(
            x, classes(rng, x, n_classes, "int")
        ),
        rng,
        where,
    )


@drawn
@given(
    st.sampled_from([Ridge(), make_pipeline(StandardScaler(), Ridge())]),
    st.integers(1, 8),
    seeds,
    backends,
)
def test_boosted_linear_regressors(member, count, seed, where):
    rng = np.random.default_rng(seed)
    x = numbers(rng)
    near(
        AdaBoostRegressor(member, n_estimators=count, random_state=seed).fit(x, value(rng, x)),
        rng,
        where,
    )
