import numpy as np
import pytest
from scoring import assert_identical, assert_same, forest_of, score, threshold_rows
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sources import dense
from tolerances import FUNCTION, assert_units

import hbconv
from hbconv.errors import UnsupportedError
from hbconv.parse import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 5))
X[:, 4] = RNG.integers(0, 3, 400)
LABELS = np.array(["ash", "birch", "cedar"])[RNG.integers(0, 3, 400)]
TARGET = np.abs(X[:, 0]) + 0.1
SMALL = {"n_estimators": 8, "max_depth": 3, "random_state": 0}
DTYPES = ["float32", "float64"]
LOSSES = {
    "three": ("log_loss", LABELS),
    "two": ("log_loss", LABELS == "ash"),
    "exponential": ("exponential", LABELS == "ash"),
}
INITS = [DecisionTreeClassifier(max_depth=2), RandomForestClassifier(3, random_state=0)]
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
ROWS = {
    "one": X[:1],
    "fortran": np.asfortranarray(X[:7]),
    "strided": X[::2],
    "int64": RNG.integers(-(2**60), 2**60, (9, 5)),
}


def rows_of(model, dtype, **kinds):
    return threshold_rows(forest_of(parse(model)), dtype, **kinds)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("labels", [LABELS, LABELS == "ash"], ids=["three", "two"])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"init": "zero"},
        {"init": DummyClassifier(strategy="uniform")},
        {"subsample": 0.5},
        {"n_iter_no_change": 2, "learning_rate": 1.0},
    ],
    ids=["prior", "zero", "uniform", "subsample", "early stopping"],
)
def test_classifiers_at_their_thresholds(parameters, labels, dtype):
    model = GradientBoostingClassifier(**SMALL, **parameters).fit(X, labels)
    assert_same(model, rows_of(model, dtype, nan=False, infinite=False), *METHODS, ulp=FUNCTION)


def test_exponential_loss():
    model = GradientBoostingClassifier(**SMALL, loss="exponential").fit(X, LABELS == "ash")
    assert_same(model, rows_of(model, "float64", nan=False, infinite=False), *METHODS, ulp=FUNCTION)


def test_a_score_of_zero_is_the_second_class():
    model = GradientBoostingClassifier(n_estimators=1, init="zero").fit(
        np.zeros((4, 1)), [0, 1, 0, 1]
    )
    assert_same(model, np.zeros((2, 1)), "decision_function", "predict")
    assert score(model, np.zeros((2, 1))).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "init", [None, "zero", DummyRegressor(strategy="median")], ids=["default", "zero", "median"]
)
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
def test_regressors_at_their_thresholds(loss, init, dtype):
    model = GradientBoostingRegressor(**SMALL, loss=loss, init=init).fit(X, TARGET)
    assert_same(model, rows_of(model, dtype, nan=False, infinite=False), "predict", "apply")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_gradient_boosting_refuses_what_is_not_finite_in_float32(value):
    model = GradientBoostingRegressor(**SMALL).fit(X, TARGET)
    rows = X[:3].copy()
    rows[1, 2] = value
    with pytest.raises(ValueError, match="Input X contains"), np.errstate(over="ignore"):
        model.predict(rows)
    with pytest.raises(
        ValueError,
        match="Input X contains NaN, infinity or a value too large for GradientBoostingRegressor",
    ):
        score(model, rows)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_row_layouts(rows):
    model = GradientBoostingClassifier(**SMALL).fit(X, LABELS)
    assert_same(model, rows, "predict", "predict_proba", "decision_function", ulp=FUNCTION)


def test_no_rows():
    model = hbconv.convert(GradientBoostingClassifier(**SMALL).fit(X, LABELS), backend="reference")
    assert model.predict_proba(X[:0]).shape == (0, 3)
    assert model.apply(X[:0]).shape == (0, 8, 3)
    assert [stage.shape for stage in model.staged_predict_proba(X[:0])] == [(0, 3)] * 8


@pytest.mark.parametrize("rows", [X, X[:7].astype(np.float32)], ids=["many", "float32"])
@pytest.mark.parametrize(
    "init", [None, "zero", *INITS], ids=["prior", "zero", *(type(init).__name__ for init in INITS)]
)
@pytest.mark.parametrize(
    ("loss", "labels"),
    [("log_loss", LABELS), ("log_loss", LABELS == "ash"), ("exponential", LABELS == "ash")],
    ids=["three", "two", "exponential"],
)
def test_stages_and_leaves_of_classifiers(loss, labels, init, rows):
    """The scores start from logarithms of a computed first estimator's probabilities, whose
    last places a small sum keeps.
    """
    model = GradientBoostingClassifier(**SMALL, loss=loss, init=init).fit(X, labels)
    converted = hbconv.convert(model, backend="reference")
    for method in (
        *METHODS,
        "apply",
        "staged_predict",
        "staged_predict_proba",
        "staged_decision_function",
    ):
        with np.errstate(divide="ignore"):
            want = getattr(model, method)(rows)
        if init in INITS and "decision" in method:
            assert_units(
                method,
                dense(getattr(converted, method)(rows)),
                dense(want),
                FUNCTION,
                least=np.abs(model._raw_predict_init(rows)).max(),
            )
        else:
            assert_identical(
                getattr(converted, method)(rows), want, FUNCTION * ("proba" in method), method
            )


@pytest.mark.parametrize(
    "init",
    [None, "zero", DecisionTreeRegressor(max_depth=2), HistGradientBoostingRegressor(max_iter=2)],
    ids=["mean", "zero", "tree", "boosting"],
)
def test_stages_and_leaves_of_regressors(init):
    model = GradientBoostingRegressor(**SMALL, init=init).fit(X, TARGET)
    converted = hbconv.convert(model, backend="reference")
    for method in ("predict", "apply", "staged_predict"):
        assert_identical(getattr(converted, method)(X), getattr(model, method)(X))


def test_linear_initial_models_are_near():
    """Their products are summed in the order of the BLAS, in float32."""
    for init in (Ridge(), make_pipeline(StandardScaler(), Ridge())):
        model = GradientBoostingRegressor(**SMALL, init=init).fit(X, TARGET)
        np.testing.assert_allclose(score(model, X), model.predict(X), rtol=1e-5)


def test_an_initial_model_that_answers_at_random_is_refused():
    random = GradientBoostingClassifier(**SMALL, init=DummyClassifier(strategy="stratified")).fit(
        X, LABELS
    )
    with pytest.raises(
        UnsupportedError, match=r"GradientBoostingClassifier with init=DummyClassifier.* at random"
    ):
        parse(random)


def test_an_initial_model_of_labels_is_refused():
    labels = GradientBoostingRegressor(**SMALL, init=DecisionTreeClassifier(max_depth=2)).fit(
        X, X[:, 4]
    )
    with pytest.raises(
        UnsupportedError,
        match=r"GradientBoostingRegressor with init=DecisionTreeClassifier.* must give numbers",
    ):
        parse(labels)
