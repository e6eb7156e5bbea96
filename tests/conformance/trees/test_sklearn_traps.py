"""Named traps: models and rows of scikit-learn's trees that a converter gets silently wrong,
each against scikit-learn itself.
"""

import numpy as np
import pandas as pd
import pytest
from fitted import available_backends
from scipy.sparse import csr_matrix
from scoring import assert_identical
from sklearn import ensemble, tree
from sources import compared
from tolerances import FUNCTION

import hbconv
from hbconv.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4))
VALUE = X[:, 0] + (X[:, 1] > 0) + 0.2 * RNG.standard_normal(300)
HOLES = np.where(RNG.random(X.shape) < 0.3, np.nan, X)
GRID = RNG.integers(0, 1000, (300, 4)) / 1000
"""Decimals, of which no float32 is one: thresholds lie between them, and rounded to the nearest
some are passed.
"""

BACKENDS = available_backends()


def same(model, rows, *methods, backend="reference", ulp=0):
    """Assert the answers of the source."""
    converted = hbconv.convert(model, backend=backend)
    for method in methods or compared(converted):
        with np.errstate(divide="ignore"):
            want = getattr(model, method)(rows)
        assert_identical(getattr(converted, method)(rows), want, ulp, method)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "cls",
    [
        ensemble.RandomForestClassifier,
        ensemble.ExtraTreesClassifier,
        ensemble.HistGradientBoostingClassifier,
    ],
)
def test_nan_follows_the_fitted_direction(cls, backend):
    model = cls(random_state=0, **({} if "Hist" in cls.__name__ else {"n_estimators": 5})).fit(
        HOLES, VALUE > 0
    )
    same(model, HOLES, "predict", backend=backend)


def test_categories_are_looked_up_in_their_sets():
    codes = X.copy()
    codes[:, 3] = RNG.integers(0, 9, 300)
    y = np.isin(codes[:, 3], [0, 3, 8]) * 3.0 + X[:, 0]
    model = ensemble.HistGradientBoostingRegressor(max_iter=5, categorical_features=[3]).fit(
        codes, y
    )
    assert any(
        tree.nodes["is_categorical"].any() for iteration in model._predictors for tree in iteration
    )
    same(model, codes)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_the_inverse_link_is_applied(loss):
    model = ensemble.HistGradientBoostingRegressor(loss=loss, max_iter=5).fit(X, np.exp(VALUE))
    same(model, X, ulp=FUNCTION)


@pytest.mark.parametrize("backend", BACKENDS)
def test_leaves_of_zero_and_thresholds_of_zero(backend):
    steps = np.repeat([-1.0, 1.0], 60)[:, None]
    rows = np.array([[-1.0], [-5e-324], [-0.0], [0.0], [5e-324], [1.0]])
    constant = ensemble.HistGradientBoostingRegressor(max_iter=3).fit(steps, np.full(120, 3.0))
    at_zero = ensemble.HistGradientBoostingRegressor(max_iter=3, learning_rate=1.0).fit(
        steps, steps[:, 0]
    )
    assert at_zero._predictors[0][0].nodes["num_threshold"][0] == 0
    for model in (constant, at_zero):
        same(model, rows, "predict", backend=backend)


def test_exponential_loss_halves_the_prior_and_doubles_the_score():
    model = ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=5).fit(
        X, np.where(VALUE > 1, "rare", "usual")
    )
    same(model, X, ulp=FUNCTION)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_thresholds_are_rounded_down_to_float32(dtype, backend):
    model = ensemble.RandomForestRegressor(20, random_state=0).fit(
        GRID, GRID[:, 0] + GRID[:, 1] ** 2
    )
    thresholds = np.concatenate(
        [member.tree_.threshold[member.tree_.feature >= 0] for member in model.estimators_]
    )
    narrow = thresholds.astype(np.float32)
    rows = np.stack(
        [
            np.concatenate(
                [
                    thresholds,
                    narrow,
                    np.nextafter(narrow, np.float32(9)),
                    np.nextafter(narrow, np.float32(-9)),
                ]
            )
        ]
        * 4,
        axis=1,
    )
    same(model, rows.astype(dtype), "predict", "apply", backend=backend)
    same(model, GRID.astype(dtype), "predict", "apply", backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_close_float64_values_stay_apart(backend):
    rows = (1 + np.arange(200) * 2.0**-40)[:, None]
    model = ensemble.HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5).fit(
        rows, np.arange(200.0)
    )
    assert len(np.unique(model.predict(rows))) > 10
    same(model, rows, "predict", backend=backend)


@pytest.mark.parametrize(
    "labels", [[3, 7, -1], ["no", "yes", "maybe"], [True, False, True], [0.0, 2.0, 5.0]], ids=str
)
@pytest.mark.parametrize(
    "cls",
    [
        tree.DecisionTreeClassifier,
        ensemble.ExtraTreesClassifier,
        ensemble.GradientBoostingClassifier,
    ],
)
def test_labels_of_any_type(cls, labels):
    model = cls(max_depth=3, random_state=0).fit(
        X, np.array(labels)[np.digitize(VALUE, [-0.5, 0.8])]
    )
    same(model, X, "predict")


def test_several_labels_a_row():
    model = ensemble.RandomForestClassifier(5, random_state=0).fit(
        X, np.stack([np.digitize(VALUE, [0, 1]), X[:, 0] > 0], axis=1)
    )
    same(model, X)


def test_several_targets_keep_their_columns():
    model = ensemble.RandomForestRegressor(5, random_state=0).fit(
        X, np.stack([VALUE, VALUE**2], axis=1)
    )
    for backend in ("reference", "onnx"):
        same(model, X, "predict", backend=backend)


def test_trees_of_one_leaf():
    for model in (
        tree.DecisionTreeClassifier(),
        ensemble.RandomForestClassifier(3),
        ensemble.GradientBoostingClassifier(n_estimators=2),
    ):
        same(
            model.set_params(min_samples_leaf=200, random_state=0).fit(X, VALUE > 0),
            X,
            ulp=FUNCTION,
        )
    same(
        ensemble.HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=200).fit(X, VALUE > 0),
        X,
        ulp=FUNCTION,
    )


def test_early_stopping_keeps_the_trees_that_were_grown():
    settings = {"n_iter_no_change": 1, "random_state": 0, "validation_fraction": 0.3, "tol": 0.5}
    plain = ensemble.GradientBoostingRegressor(n_estimators=50, **settings).fit(X, VALUE)
    histogram = ensemble.HistGradientBoostingRegressor(
        max_iter=50, early_stopping=True, **settings
    ).fit(X, VALUE)
    assert len(plain.estimators_) < 50
    assert histogram.n_iter_ < 50
    for model in (plain, histogram):
        same(model, X)


def test_columns_of_a_table_come_in_order_and_those_of_a_mapping_by_name():
    table = pd.DataFrame(X, columns=list("abcd"))
    model = ensemble.RandomForestRegressor(5, random_state=0).fit(table, VALUE)
    assert_identical(
        hbconv.convert(model, backend="reference").predict({name: table[name] for name in "dbca"}),
        model.predict(table),
    )
    with pytest.raises(InputError, match="another order"):
        hbconv.convert(model, backend="reference").predict(table[list("dbca")])
    with pytest.raises(InputError, match="Columns are missing: 'b'"):
        hbconv.convert(model, backend="reference").predict(table[["a", "c", "d"]])


def test_the_rows_are_left_as_they_are():
    rows = X.copy()
    hbconv.convert(
        ensemble.RandomForestRegressor(3, random_state=0).fit(X, VALUE), backend="torch"
    ).predict(rows)
    assert_identical(rows, X)


@pytest.mark.parametrize(
    "cls",
    [tree.DecisionTreeRegressor, ensemble.ExtraTreesRegressor, ensemble.GradientBoostingRegressor],
)
def test_sparse_rows(cls):
    sparse = csr_matrix(X * (RNG.random(X.shape) < 0.4))
    model = cls(random_state=0).fit(sparse, VALUE)
    for rows in (sparse, sparse.astype(np.float32), sparse[:1], sparse.toarray()):
        assert_identical(
            hbconv.convert(model, backend="reference").predict(rows), model.predict(rows)
        )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_probabilities_are_float64_whatever_the_rows(dtype):
    rows = (X * 3).astype(dtype)
    for cls in (
        tree.ExtraTreeClassifier,
        ensemble.RandomForestClassifier,
        ensemble.GradientBoostingClassifier,
        ensemble.HistGradientBoostingClassifier,
    ):
        same(
            cls(random_state=0).fit(X, np.digitize(VALUE, [0, 1])),
            rows,
            "predict_proba",
            ulp=FUNCTION,
        )
