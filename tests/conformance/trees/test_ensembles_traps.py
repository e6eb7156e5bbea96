"""Where other converters of scikit-learn's ensembles went wrong or stopped: one named test for
each.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
)
from sklearn.tree import DecisionTreeClassifier
from trees.battery import FEW, check

import hbconv

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 6))
VALUE = X[:, 0] - X[:, 1] + 0.3 * RNG.standard_normal(200)
ROWS = RNG.standard_normal((300, 6))
MISSING = np.where(RNG.random(ROWS.shape) < 0.15, np.nan, ROWS)
POWERS = {
    "transformed": ("score_samples", "decision_function"),
    "largest": {"decision_function": 0.5},
}


@pytest.mark.parametrize("max_features", [1, 0.5, 5])
def test_isolation_forest_over_some_columns(max_features):
    """Each tree counts the columns of its own: as columns of the input they are others."""
    model = IsolationForest(n_estimators=10, max_features=max_features, random_state=0).fit(X)
    assert any(not np.array_equal(own, np.arange(len(own))) for own in model.estimators_features_)
    check(model, [ROWS, MISSING], **POWERS)


def test_isolation_forest_at_double_thresholds():
    """A threshold between two float32 numbers is rounded down, never to the nearest."""
    grid = (RNG.integers(0, 40, (200, 6)) / 10).astype(np.float32)
    model = IsolationForest(n_estimators=10, random_state=0).fit(grid)
    thresholds = np.concatenate([tree.tree_.threshold for tree in model.estimators_])
    rows = RNG.choice(thresholds, (300, 6))
    check(
        model,
        [rows, rows.astype(np.float32), np.nextafter(rows.astype(np.float32), np.float32(9))],
        **POWERS,
    )


@pytest.mark.parametrize(
    "labels",
    [np.digitize(VALUE, [-1, 0, 1]), np.where(VALUE > 0, 2, 1)],
    ids=["four", "one and two"],
)
@pytest.mark.parametrize("max_features", [1.0, 0.5])
def test_bagging_of_any_labels_and_columns(labels, max_features):
    """More than two classes, labels that are no positions, and columns drawn for each member."""
    check(
        BaggingClassifier(n_estimators=5, max_features=max_features, random_state=0).fit(X, labels),
        [ROWS, MISSING],
    )


def test_bagging_has_a_kind():
    """The kind of estimator is read by its tags."""
    assert (
        hbconv.convert(BaggingClassifier(n_estimators=2).fit(X, VALUE > 0)).parsed.traits.kind
        == "classifier"
    )
    assert (
        hbconv.convert(BaggingRegressor(n_estimators=2).fit(X, VALUE)).parsed.traits.kind
        == "regressor"
    )


@pytest.mark.parametrize("rows", [ROWS[:0], ROWS[:1]], ids=["none", "one"])
def test_few_rows(rows):
    for model in (
        IsolationForest(n_estimators=3).fit(X),
        BaggingRegressor(n_estimators=3).fit(X, VALUE),
        AdaBoostClassifier(n_estimators=3).fit(X, VALUE > 0),
    ):
        assert [hbconv.convert(model, backend=backend).predict(rows).shape for backend in FEW] == [
            (len(rows),)
        ] * len(FEW)


def test_members_of_a_single_leaf():
    """A tree that found nothing to test is a leaf."""
    model = BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=150), n_estimators=3).fit(
        X, VALUE > 0
    )
    assert {member.tree_.node_count for member in model.estimators_} == {1}
    check(model, [ROWS])
