import numpy as np
import pandas as pd
import pytest
from scoring import assert_same, forest_of, score, threshold_rows
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LinearRegression

from hbconv.errors import UnsupportedError
from hbconv.parse import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 5))
X[:, 4] = RNG.integers(0, 3, 400)
MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
LABELS = np.array(["ash", "birch", "cedar"])[RNG.integers(0, 3, 400)]
TARGET = np.abs(X[:, 0]) + 0.1
SMALL = {"n_estimators": 8, "max_depth": 3, "random_state": 0}
QUICK = {"max_iter": 8, "max_leaf_nodes": 8, "min_samples_leaf": 5}
DTYPES = ["float32", "float64"]
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
ROWS = {"one": X[:1], "fortran": np.asfortranarray(X[:7]), "strided": X[::2], "int64": RNG.integers(-(2**60), 2**60, (9, 5))}


def rows_of(model, dtype, **kinds):
    return threshold_rows(forest_of(parse(model)), dtype, **kinds)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("labels", [LABELS, LABELS == "ash"], ids=["three", "two"])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"init": "zero"}, {"init": DummyClassifier(strategy="uniform")}, {"subsample": 0.5}, {"n_iter_no_change": 2, "learning_rate": 1.0}],
    ids=["prior", "zero", "uniform", "subsample", "early stopping"],
)
def test_classifiers_at_their_thresholds(parameters, labels, dtype):
    model = GradientBoostingClassifier(**SMALL, **parameters).fit(X, labels)
    assert_same(model, rows_of(model, dtype, nan=False, infinite=False), *METHODS, ulp=2)


def test_exponential_loss():
    model = GradientBoostingClassifier(**SMALL, loss="exponential").fit(X, LABELS == "ash")
    assert_same(model, rows_of(model, "float64", nan=False, infinite=False), *METHODS, ulp=2)


def test_a_score_of_zero_is_the_second_class():
    model = GradientBoostingClassifier(n_estimators=1, init="zero").fit(np.zeros((4, 1)), [0, 1, 0, 1])
    assert_same(model, np.zeros((2, 1)), "decision_function", "predict")
    assert score(model, np.zeros((2, 1))).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("init", [None, "zero", DummyRegressor(strategy="median")], ids=["default", "zero", "median"])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
def test_regressors_at_their_thresholds(loss, init, dtype):
    model = GradientBoostingRegressor(**SMALL, loss=loss, init=init).fit(X, TARGET)
    assert_same(model, rows_of(model, dtype, nan=False, infinite=False), "predict", "apply")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_gradient_boosting_refuses_what_is_not_finite_in_float32(value):
    model, rows = GradientBoostingRegressor(**SMALL).fit(X, TARGET), X[:3].copy()
    rows[1, 2] = value
    with pytest.raises(ValueError, match="Input X contains"), np.errstate(over="ignore"):
        model.predict(rows)
    with pytest.raises(ValueError, match="Input X contains NaN, infinity or a value too large for GradientBoostingRegressor"):
        score(model, rows)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("model", [GradientBoostingClassifier(**SMALL), HistGradientBoostingClassifier(**QUICK)], ids=["plain", "histogram"])
def test_row_layouts(model, rows):
    model.fit(X, LABELS)
    assert_same(model, rows, "predict", "predict_proba", "decision_function", ulp=2)


@pytest.mark.parametrize("model", [GradientBoostingClassifier(**SMALL), HistGradientBoostingClassifier(**QUICK)], ids=["plain", "histogram"])
def test_no_rows(model):
    assert score(model.fit(X, LABELS), X[:0], "predict_proba").shape == (0, 3)


def test_an_initial_model_of_the_columns_is_refused():
    model = GradientBoostingRegressor(**SMALL, init=LinearRegression()).fit(X, TARGET)
    with pytest.raises(UnsupportedError, match=r"GradientBoostingRegressor with init=LinearRegression\(\)"):
        parse(model)
    random = GradientBoostingClassifier(**SMALL, init=DummyClassifier(strategy="stratified")).fit(X, LABELS)
    with pytest.raises(UnsupportedError, match="with init=DummyClassifier"):
        parse(random)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "gamma", "poisson", "quantile"])
def test_histogram_regressors_at_their_thresholds(loss, dtype):
    model = HistGradientBoostingRegressor(**QUICK, loss=loss, quantile=0.3).fit(MISSING, TARGET)
    assert_same(model, rows_of(model, dtype), "predict", ulp=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("labels", [LABELS, LABELS == "ash", RNG.integers(3, 5, 400) * 4], ids=["text", "bool", "int"])
def test_histogram_classifiers_at_their_thresholds(labels, dtype):
    model = HistGradientBoostingClassifier(**QUICK).fit(MISSING, labels)
    assert_same(model, rows_of(model, dtype), "predict", "predict_proba", "decision_function", ulp=2)


def test_splits_between_missing_and_all_else_have_an_infinite_threshold():
    gaps = np.where(RNG.random((400, 3)) < 0.5, np.nan, 1.0)
    model = HistGradientBoostingClassifier(**QUICK).fit(gaps, np.isnan(gaps[:, 0]))
    assert np.inf in forest_of(parse(model)).threshold.data
    for dtype in DTYPES:
        assert_same(model, rows_of(model, dtype), "predict", "predict_proba", "decision_function", ulp=2)


@pytest.mark.parametrize(
    "parameters",
    [{"monotonic_cst": [1, 0, 0, -1, 0]}, {"interaction_cst": "no_interactions"}, {"early_stopping": True, "n_iter_no_change": 1}, {"max_bins": 3}],
    ids=lambda p: next(iter(p)),
)
def test_histogram_parameters(parameters):
    assert_same(HistGradientBoostingRegressor(**QUICK, **parameters).fit(MISSING, TARGET), MISSING, "predict")


def test_leaves_and_thresholds_of_zero():
    steps = np.repeat([-1.0, 1.0], 40)[:, None]
    assert_same(HistGradientBoostingRegressor(**QUICK).fit(steps, steps[:, 0]), np.array([[-1.0], [0.0], [-0.0], [1.0], [5e-324]]), "predict")
    assert_same(HistGradientBoostingRegressor(**QUICK).fit(steps, np.full(80, 3.0)), steps, "predict")


@pytest.mark.parametrize("categorical", [[4], "from_dtype"], ids=["mask", "dtype"])
def test_categorical_features_are_refused(categorical):
    rows = pd.DataFrame(X, columns=list("abcde")).astype({"e": "category"}) if categorical == "from_dtype" else X
    model = HistGradientBoostingRegressor(**QUICK, categorical_features=categorical).fit(rows, TARGET)
    with pytest.raises(UnsupportedError, match=r"HistGradientBoostingRegressor with categorical_features=.* Encode categories"):
        parse(model)
