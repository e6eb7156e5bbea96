import numpy as np
import pandas as pd
import pytest
from scoring import assert_identical, score
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sources import quietly
from tolerances import FUNCTION

import hbconv
from hbconv.containers import TreeEnsemble
from hbconv.errors import InputError, UnsupportedError
from hbconv.parse import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((160, 4))
TARGET = X[:, 0] - X[:, 1] + 0.5 * RNG.standard_normal(160)
LABELS = np.array(["ash", "birch", "cedar"])[np.digitize(TARGET, [-1, 1])]
ROWS = RNG.standard_normal((200, 4))


def assert_answers(model, rows=ROWS):
    """Assert every method's answer to the last bit, stage by stage; exponentials and
    logarithms, which each library rounds its own way, to a few units.
    """
    converted = hbconv.convert(model)
    for method in converted.methods:
        got = getattr(converted, method)(rows)
        want = quietly(model, method, rows)
        got = list(got) if method.startswith("staged") else got
        assert_identical(got, want, FUNCTION * method.endswith("proba"), method)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "labels",
    [LABELS, LABELS == "ash", np.digitize(TARGET, [-2, -1, 0, 1]) * 5 - 7],
    ids=["three text", "two bool", "five int"],
)
@pytest.mark.parametrize(
    "member",
    [
        None,
        DecisionTreeClassifier(max_depth=3),
        RandomForestClassifier(2, max_depth=2, random_state=0),
    ],
    ids=["stumps", "trees", "forests"],
)
@pytest.mark.share("sweep")
def test_classifiers(member, labels, dtype):
    assert_answers(
        AdaBoostClassifier(member, n_estimators=7, random_state=0).fit(X, labels),
        ROWS.astype(dtype),
    )


def test_trees_become_one_forest():
    ensembles = [
        node
        for node in parse(AdaBoostClassifier(n_estimators=9).fit(X, LABELS)).nodes()
        if isinstance(node, TreeEnsemble)
    ]
    assert [(node.forest.n_trees, node.forest.n_outputs) for node in ensembles] == [(9, 3)]
    two = [
        node
        for node in parse(AdaBoostClassifier(n_estimators=9).fit(X, LABELS == "ash")).nodes()
        if isinstance(node, TreeEnsemble)
    ]
    assert two[0].forest.n_outputs == 1


@pytest.mark.parametrize("order", [[2, 1, 0], [1, 0, 2], [2, 0, 1]])
def test_trees_vote_for_classes_in_any_order(order):
    model = AdaBoostClassifier(n_estimators=5, random_state=0).fit(X, LABELS)
    model.classes_ = model.classes_[order]
    assert_answers(model)


def test_boosting_that_ends_early():
    model = AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=9).fit(X, LABELS)
    assert len(model.estimators_) == 1
    assert_answers(model)


def test_one_class_is_refused():
    with pytest.raises(UnsupportedError, match="classes_"):
        parse(AdaBoostClassifier(n_estimators=3).fit(X, np.zeros(160)))


@pytest.mark.parametrize(
    "model",
    [
        AdaBoostClassifier(n_estimators=3).fit(X, LABELS),
        AdaBoostRegressor(n_estimators=3).fit(X, TARGET),
    ],
    ids=["classifier", "regressor"],
)
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_what_the_source_refuses(model, bad):
    """Its trees would take NaN, but it refuses it before them."""
    rows = np.where(np.arange(4) == 2, bad, ROWS[:3])
    with pytest.raises(ValueError):
        quietly(model, "predict", rows)
    with pytest.raises(InputError):
        hbconv.convert(model).predict(rows)


@pytest.mark.parametrize("loss", ["linear", "square", "exponential"])
@pytest.mark.parametrize(
    "member", [None, DecisionTreeRegressor(max_leaf_nodes=4)], ids=["default", "few leaves"]
)
def test_regressors(member, loss):
    assert_answers(
        AdaBoostRegressor(member, n_estimators=12, loss=loss, random_state=0).fit(X, TARGET)
    )


def test_median_of_equal_weights():
    """Half of the weights is met exactly: the lower of the two in the middle is taken."""
    model = AdaBoostRegressor(n_estimators=4, random_state=0).fit(X, TARGET)
    model.estimator_weights_ = np.ones(4)
    assert_answers(model)
    assert set(
        score(model, ROWS) - np.sort([m.predict(ROWS) for m in model.estimators_], axis=0)[1]
    ) == {0.0}


def test_regression_of_a_line():
    assert_answers(
        AdaBoostRegressor(LinearRegression(), n_estimators=5, random_state=0).fit(
            X[:, :1], X[:, 0]
        ),
        np.zeros((3, 1)),
    )


def test_members_see_one_array():
    """A table's float32 column is float64 beside another before a member scales it."""
    table = pd.DataFrame({"a": ROWS[:, 0].astype(np.float32), "b": ROWS[:, 1]})
    member = make_pipeline(
        ColumnTransformer([("one", StandardScaler(), [0])]), DecisionTreeRegressor(max_depth=6)
    )
    model = AdaBoostRegressor(member, n_estimators=4, random_state=0).fit(table, ROWS[:, 0])
    assert_answers(model, table)


def test_members_that_encode_numbers():
    table = pd.DataFrame({"a": np.arange(160) % 4, "b": X[:, 0]})
    member = make_pipeline(
        ColumnTransformer([("one", OneHotEncoder(), [0])], remainder="passthrough"),
        DecisionTreeRegressor(max_depth=3),
    )
    assert_answers(
        AdaBoostRegressor(member, n_estimators=3, random_state=0).fit(table, TARGET), table
    )
