import numpy as np
import pandas as pd
import pytest
from scoring import assert_identical, assert_same, forest_of, score, threshold_rows
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from sources import compared
from tolerances import FUNCTION

import hbconv
from hbconv.errors import InputError
from hbconv.parse import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 5))
X[:, 4] = RNG.integers(0, 3, 400)
MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
LABELS = np.array(["ash", "birch", "cedar"])[RNG.integers(0, 3, 400)]
TARGET = np.abs(X[:, 0]) + 0.1
QUICK = {"max_iter": 8, "max_leaf_nodes": 8, "min_samples_leaf": 5}
DTYPES = ["float32", "float64"]
ROWS = {
    "one": X[:1],
    "fortran": np.asfortranarray(X[:7]),
    "strided": X[::2],
    "int64": RNG.integers(-(2**60), 2**60, (9, 5)),
}

CATEGORIES = MISSING.copy()
CATEGORIES[:, 1] = RNG.integers(0, 40, 400)
CATEGORIES[:, 3] = RNG.integers(-3, 5, 400) * 1.5
CATEGORIES[RNG.random(CATEGORIES.shape) < 0.1] = np.nan
OF_CATEGORIES = (
    np.isin(CATEGORIES[:, 1], [1, 4, 7, 22, 39]) * 2.0
    + (CATEGORIES[:, 3] == 1.5)
    + 0.1 * RNG.standard_normal(400)
)
ODD = np.array([-1, -0.5, 0.5, 100, 2.0**24, -0.0, 1e300, 3, 39, 40, 255, 256, 257, np.nan])


def rows_of(model, dtype, **kinds):
    return threshold_rows(forest_of(parse(model)), dtype, **kinds)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_row_layouts(rows):
    model = HistGradientBoostingClassifier(**QUICK).fit(X, LABELS)
    assert_same(model, rows, "predict", "predict_proba", "decision_function", ulp=FUNCTION)


def test_no_rows():
    assert score(
        HistGradientBoostingClassifier(**QUICK).fit(X, LABELS), X[:0], "predict_proba"
    ).shape == (0, 3)


@pytest.mark.parametrize("labels", [LABELS, LABELS == "ash"], ids=["three", "two"])
def test_stages_of_classifiers(labels):
    same_answers(
        HistGradientBoostingClassifier(**QUICK).fit(MISSING, labels), MISSING, ulp=FUNCTION
    )


@pytest.mark.parametrize("loss", ["squared_error", "gamma"])
def test_stages_of_regressors(loss):
    same_answers(
        HistGradientBoostingRegressor(**QUICK, loss=loss).fit(MISSING, TARGET),
        MISSING,
        ulp=FUNCTION,
    )


def same_answers(model, rows, ulp=0):
    converted = hbconv.convert(model, backend="reference")
    for method in compared(converted):
        assert_identical(
            getattr(converted, method)(rows), getattr(model, method)(rows), ulp, method
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "gamma", "poisson", "quantile"]
)
def test_histogram_regressors_at_their_thresholds(loss, dtype):
    model = HistGradientBoostingRegressor(**QUICK, loss=loss, quantile=0.3).fit(MISSING, TARGET)
    assert_same(model, rows_of(model, dtype), "predict", ulp=FUNCTION)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "labels", [LABELS, LABELS == "ash", RNG.integers(3, 5, 400) * 4], ids=["text", "bool", "int"]
)
def test_histogram_classifiers_at_their_thresholds(labels, dtype):
    model = HistGradientBoostingClassifier(**QUICK).fit(MISSING, labels)
    assert_same(
        model, rows_of(model, dtype), "predict", "predict_proba", "decision_function", ulp=FUNCTION
    )


def test_splits_between_missing_and_all_else_have_an_infinite_threshold():
    gaps = np.where(RNG.random((400, 3)) < 0.5, np.nan, 1.0)
    model = HistGradientBoostingClassifier(**QUICK).fit(gaps, np.isnan(gaps[:, 0]))
    assert np.inf in forest_of(parse(model)).threshold.data
    for dtype in DTYPES:
        assert_same(
            model,
            rows_of(model, dtype),
            "predict",
            "predict_proba",
            "decision_function",
            ulp=FUNCTION,
        )


@pytest.mark.parametrize(
    "parameters",
    [
        {"monotonic_cst": [1, 0, 0, -1, 0]},
        {"interaction_cst": "no_interactions"},
        {"early_stopping": True, "n_iter_no_change": 1},
        {"max_bins": 3},
    ],
    ids=lambda p: next(iter(p)),
)
def test_histogram_parameters(parameters):
    assert_same(
        HistGradientBoostingRegressor(**QUICK, **parameters).fit(MISSING, TARGET),
        MISSING,
        "predict",
    )


def test_leaves_and_thresholds_of_zero():
    steps = np.repeat([-1.0, 1.0], 40)[:, None]
    assert_same(
        HistGradientBoostingRegressor(**QUICK).fit(steps, steps[:, 0]),
        np.array([[-1.0], [0.0], [-0.0], [1.0], [5e-324]]),
        "predict",
    )
    assert_same(
        HistGradientBoostingRegressor(**QUICK).fit(steps, np.full(80, 3.0)), steps, "predict"
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "categorical",
    [[1, 3], [False, True, False, True, False], [3]],
    ids=["positions", "mask", "one"],
)
def test_categories_of_an_array(categorical, dtype):
    model = HistGradientBoostingRegressor(**QUICK, categorical_features=categorical).fit(
        CATEGORIES, OF_CATEGORIES
    )
    rows = np.where(
        RNG.random(CATEGORIES.shape) < 0.3,
        RNG.choice(ODD[np.abs(ODD) < 1e38], CATEGORIES.shape),
        CATEGORIES,
    ).astype(dtype)
    same_answers(model, rows)


def test_every_column_a_category():
    model = HistGradientBoostingClassifier(**QUICK, categorical_features=[0, 1]).fit(
        CATEGORIES[:, [1, 3]], OF_CATEGORIES > 1
    )
    same_answers(model, CATEGORIES[:, [1, 3]], ulp=FUNCTION)
    same_answers(model, RNG.choice(ODD, (50, 2)), ulp=FUNCTION)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_categories_are_refused(value):
    model = HistGradientBoostingRegressor(**QUICK, categorical_features=[1]).fit(
        CATEGORIES, OF_CATEGORIES
    )
    rows = CATEGORIES[:3].copy()
    rows[1, 1] = value
    with pytest.raises(ValueError, match="contains infinity"):
        model.predict(rows)
    with pytest.raises(InputError, match="contains infinity"):
        hbconv.convert(model, backend="reference").predict(rows)
    rows[1, 1], rows[1, 0] = 1, value
    same_answers(model, rows)


def table(**columns):
    return pd.DataFrame(CATEGORIES, columns=list("abcde")).assign(**columns)


TEXT = np.array([None if np.isnan(v) else f"k{int(v)}" for v in CATEGORIES[:, 1]], dtype=object)
TABLES = {
    "text": table(b=pd.Categorical(TEXT)),
    "decimals": table(d=pd.Categorical(CATEGORIES[:, 3])),
    "ints": table(d=pd.Categorical(np.nan_to_num(CATEGORIES[:, 3] * 2).astype(int))),
    "bools": table(d=pd.Categorical(CATEGORIES[:, 3] > 0)),
    "both": table(b=pd.Categorical(TEXT), d=pd.Categorical(CATEGORIES[:, 3])),
}


@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_categories_of_a_table(rows):
    same_answers(HistGradientBoostingRegressor(**QUICK).fit(rows, OF_CATEGORIES), rows)


def test_categories_by_name():
    rows = table(b=TEXT)
    same_answers(
        HistGradientBoostingRegressor(**QUICK, categorical_features=["b"]).fit(rows, OF_CATEGORIES),
        rows,
    )


def test_categories_behind_other_steps():
    rows = TABLES["text"]
    model = HistGradientBoostingRegressor(**QUICK)
    scaled = make_column_transformer(
        (StandardScaler(), ["a", "c"]), remainder="passthrough", verbose_feature_names_out=False
    )
    same_answers(
        make_pipeline(scaled.set_output(transform="pandas"), model).fit(rows, OF_CATEGORIES), rows
    )
    encoded = make_column_transformer((OrdinalEncoder(), ["b"]), remainder="passthrough")
    same_answers(
        make_pipeline(encoded, clone(model).set_params(categorical_features=[0, 3])).fit(
            rows, OF_CATEGORIES
        ),
        rows,
    )


def test_categories_never_seen():
    model = HistGradientBoostingRegressor(**QUICK).fit(TABLES["text"], OF_CATEGORIES)
    same_answers(model, table(b=pd.Categorical(np.where(RNG.random(400) < 0.5, TEXT, "never"))))
    same_answers(
        model,
        table(b=pd.Categorical(TEXT).reorder_categories(sorted(set(TEXT) - {None}, reverse=True))),
    )
