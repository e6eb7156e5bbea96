"""Means and votes of estimators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import xgboost
from matrix.case import Case
from matrix.fitting import fit
from matrix.members import LIGHT, LOGISTIC, REGRESSION_TREE, RIDGE, TREE, XGB
from sklearn import (
    ensemble,
)


def voting() -> Iterator[Case]:
    """Means and votes."""
    case = partial(Case, "sklearn.ensemble.VotingClassifier")
    members = [("linear", LOGISTIC), ("tree", TREE), ("light", LIGHT())]
    yield case("soft", fit(ensemble.VotingClassifier(members, voting="soft"), "three_text"))
    yield case("hard", fit(ensemble.VotingClassifier(members), "three_text"))
    weighted = ensemble.VotingClassifier(
        [*members, ("none", "drop"), ("xgb", XGB())], voting="soft", weights=[0.1, 2, 3, 7, 0.3]
    )
    yield case("soft, weights, drop, xgboost", fit(weighted, "two_bool"), kind="float32 inside")
    yield case(
        "hard, weights", fit(ensemble.VotingClassifier(members, weights=[0.1, 0.2, 0.3]), "two")
    )
    of_xgb = ensemble.VotingClassifier([("a", XGB()), ("b", XGB(max_depth=2))], voting="soft")
    yield case("soft, float32", fit(of_xgb, "three"), kind="trees")
    case = partial(Case, "sklearn.ensemble.VotingRegressor")
    members = [("linear", RIDGE), ("tree", REGRESSION_TREE)]
    yield case("mean", fit(ensemble.VotingRegressor(members), "value"))
    yield case(
        "weights, drop",
        fit(ensemble.VotingRegressor([*members, ("none", "drop")], weights=[1, 2.5, 3]), "value"),
    )
    boosters = [
        ("a", xgboost.XGBRegressor(n_estimators=3, n_jobs=1)),
        ("b", xgboost.XGBRegressor(n_estimators=2, n_jobs=1)),
    ]
    yield case("float32", fit(ensemble.VotingRegressor(boosters), "value"), kind="trees")


CASES = (*voting(),)
