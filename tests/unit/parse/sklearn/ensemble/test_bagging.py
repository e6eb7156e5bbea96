import numpy as np
import pandas as pd
import pytest
from scoring import assert_identical, score
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    HistGradientBoostingClassifier,
)
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sources import quietly

import hbconv
from hbconv.containers import TreeEnsemble
from hbconv.errors import InputError, UnsupportedError
from hbconv.parse import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((160, 4))
TARGET = X[:, 0] - X[:, 1] + 0.5 * RNG.standard_normal(160)
LABELS = np.array(["ash", "birch", "cedar"])[np.digitize(TARGET, [-1, 1])]
ROWS = RNG.standard_normal((200, 4))
MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
NEAR = {"rtol": 1e-12, "atol": 1e-14}
SCALED = make_pipeline(StandardScaler(), LogisticRegression())
PROBABILITIES = ("predict_proba", "predict_log_proba")


def bagged(member=None, **settings):
    return BaggingClassifier(member, **{"n_estimators": 6, "random_state": 0} | settings)


def assert_answers(model, rows=ROWS):
    converted = hbconv.convert(model)
    for method in converted.methods:
        assert_identical(getattr(converted, method)(rows), quietly(model, method, rows))


def assert_near(model, *methods, rows=ROWS):
    converted = hbconv.convert(model)
    np.testing.assert_array_equal(converted.predict(rows), model.predict(rows))
    for method in methods:
        np.testing.assert_allclose(
            getattr(converted, method)(rows), quietly(model, method, rows), **NEAR
        )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_features": 2},
        {"max_features": 3, "bootstrap_features": True},
        {"bootstrap": False, "max_samples": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "labels",
    [LABELS, LABELS == "ash", np.where(LABELS == "ash", 1, 2)],
    ids=["three text", "two bool", "one and two"],
)
@pytest.mark.parametrize(
    "rows",
    [ROWS, ROWS.astype(np.float32), np.where(ROWS > 1, np.nan, ROWS)],
    ids=["float64", "float32", "missing"],
)
@pytest.mark.share("sweep")
def test_trees(settings, labels, rows):
    model = bagged(**settings).fit(MISSING, labels)
    assert_answers(model, rows)
    assert sum(isinstance(node, TreeEnsemble) for node in parse(model).nodes()) == 1


def test_trees_that_know_some_classes():
    """Trees are fitted on all labels, most of weight zero, unless they were fitted elsewhere."""
    model = bagged().fit(X, LABELS)
    codes = np.unique(LABELS, return_inverse=True)[1]
    for member, known in zip(
        model.estimators_, ([0], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]), strict=True
    ):
        chosen = np.isin(codes, known)
        member.fit(X[chosen], codes[chosen])
    assert_answers(model)


def test_members_that_know_some_classes():
    model = bagged(SCALED, max_samples=6).fit(X, np.digitize(TARGET, [-1, 0, 1]))
    assert len({tuple(member.classes_) for member in model.estimators_}) > 1
    assert_near(model, *PROBABILITIES)


def test_no_decisions_where_members_score_other_numbers_of_classes():
    model = bagged(SCALED, max_samples=6).fit(X, LABELS)
    assert {len(member.classes_) for member in model.estimators_} == {2, 3}
    with pytest.raises(ValueError):
        model.decision_function(ROWS)
    assert "decision_function" not in hbconv.convert(model).methods


@pytest.mark.parametrize("labels", [LABELS, LABELS == "ash"], ids=["three", "two"])
@pytest.mark.parametrize(
    "member", [RidgeClassifier(), SGDClassifier(max_iter=20, tol=None)], ids=["ridge", "sgd"]
)
def test_votes_of_members_without_probabilities(member, labels):
    model = bagged(member).fit(X, labels)
    assert_near(model, *PROBABILITIES, "decision_function")
    assert set(np.unique(score(model, ROWS, "predict_proba") * 6)) <= set(range(7))


@pytest.mark.parametrize(
    "member",
    [
        SCALED,
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2),
        HistGradientBoostingClassifier(max_iter=2),
    ],
    ids=["pipeline", "search", "histogram"],
)
def test_members_of_other_kinds(member):
    model = bagged(member, n_estimators=2, max_features=3).fit(X, LABELS)
    assert_near(model, *PROBABILITIES)


def test_rows_are_checked_in_the_columns_that_members_read():
    model = BaggingRegressor(
        LinearRegression(), max_features=1, n_estimators=2, random_state=0
    ).fit(X, TARGET)
    read = np.unique(model.estimators_features_)
    unread = np.setdiff1d(np.arange(4), read)
    rows = ROWS.copy()
    rows[:, unread] = np.nan
    np.testing.assert_allclose(hbconv.convert(model).predict(rows), model.predict(rows), **NEAR)
    rows[:, read] = np.nan
    with pytest.raises(InputError):
        hbconv.convert(model).predict(rows)


def test_trees_are_checked_in_the_columns_that_they_were_fitted_on():
    model = BaggingRegressor(
        DecisionTreeRegressor(max_depth=1), max_features=2, n_estimators=1, random_state=0
    ).fit(X, TARGET)
    (read,) = model.estimators_features_
    rows = np.where(np.isin(np.arange(4), read), ROWS, np.inf)
    assert_answers(model, rows)
    with pytest.raises(InputError):
        hbconv.convert(model).predict(np.where(np.isin(np.arange(4), read), np.inf, ROWS))


@pytest.mark.parametrize(
    "targets", [TARGET, np.stack([TARGET, -X[:, 2]], axis=1)], ids=["one", "two"]
)
@pytest.mark.parametrize(
    "settings", [{}, {"max_features": 2}, {"max_features": 3, "bootstrap_features": True}], ids=str
)
def test_regression_trees(settings, targets):
    assert_answers(
        BaggingRegressor(**settings, n_estimators=6, random_state=0).fit(MISSING, targets),
        np.where(ROWS > 1, np.nan, ROWS),
    )


def test_members_see_one_array():
    """A table's float32 column is float64 beside another before a member scales it."""
    table = pd.DataFrame({"a": ROWS[:, 0].astype(np.float32), "b": ROWS[:, 1]})
    member = make_pipeline(
        ColumnTransformer([("one", StandardScaler(), [0])]), DecisionTreeRegressor(max_depth=6)
    )
    assert_answers(
        BaggingRegressor(member, n_estimators=3, random_state=0).fit(table, ROWS[:, 0]), table
    )


def test_text_that_members_encode():
    table = pd.DataFrame(
        {
            "colour": np.array(["red", "green", "blue"], object)[np.digitize(X[:, 0], [-1, 1])],
            "count": np.arange(160) % 4,
        }
    )
    model = bagged(make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())).fit(
        table, LABELS
    )
    assert_near(model, *PROBABILITIES, rows=table)


def test_text_beside_numbers_is_refused():
    """The source makes one array of objects of them."""
    table = pd.DataFrame(
        {
            "colour": np.array(["red", "green"], object)[np.arange(160) % 2],
            "count": np.arange(160) % 4,
        }
    )
    encode = ColumnTransformer([("colour", OneHotEncoder(), [0])], remainder=StandardScaler())
    with pytest.raises(UnsupportedError, match="encode the text before the ensemble"):
        parse(bagged(make_pipeline(encode, LogisticRegression())).fit(table, LABELS))


def test_a_member_without_a_parser_is_refused_by_name():
    class Guess(DecisionTreeClassifier):
        def predict_proba(self, X, check_input=True):
            return np.random.default_rng().dirichlet(np.ones(3), len(X))

    with pytest.raises(UnsupportedError, match="Guess"):
        parse(bagged(Guess()).fit(X, LABELS))


class OwnLabels(DecisionTreeClassifier):
    """A tree whose answers are no longer its ``tree_``'s."""

    def predict(self, X, check_input=True):
        return np.where(X[:, 0] > 0, 1, 0)

    def predict_proba(self, X, check_input=True):
        return np.stack([np.where(X[:, 0] > 0, 0.25, 0.75), np.where(X[:, 0] > 0, 0.75, 0.25)], 1)


class OwnNumbers(DecisionTreeRegressor):
    """A tree whose answers are no longer its ``tree_``'s."""

    def predict(self, X, check_input=True):
        return X[:, 0] * 2


OWN = OwnLabels(max_depth=2)
TWO = (X[:, 0] + X[:, 1] / 2 > 0).astype(int)


@pytest.mark.parametrize(
    "ensemble",
    [
        BaggingClassifier(OWN, 3),
        OneVsRestClassifier(OWN),
        BaggingRegressor(OwnNumbers(), 3),
        AdaBoostRegressor(OwnNumbers(), n_estimators=3),
    ],
    ids=lambda ensemble: type(ensemble).__name__,
)
def test_members_of_an_own_class_are_no_plain_trees(ensemble):
    """Ensembles read trees of scikit-learn by their attributes, together."""
    source = ensemble.fit(X, TWO)
    model = hbconv.convert(source, backend="reference")
    np.testing.assert_array_equal(model.predict(X), source.predict(X))


@pytest.mark.parametrize("ensemble", [AdaBoostClassifier(OWN, n_estimators=3)])
def test_members_whose_labels_are_numbers_to_the_tracer_are_refused(ensemble):
    with pytest.raises(UnsupportedError, match="members must predict class labels"):
        hbconv.convert(ensemble.fit(X, TWO), backend="reference")
