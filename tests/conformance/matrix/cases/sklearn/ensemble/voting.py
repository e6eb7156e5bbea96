"""Means and votes of estimators, and estimators that read what others predict."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import xgboost
from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import fit
from matrix.members import LIGHT, LINEAR, LOGISTIC, REGRESSION_TREE, RIDGE, TREE, XGB
from sklearn import (
    clone,
    ensemble,
    linear_model,
    multioutput,
    svm,
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


def stacking() -> Iterator[Case]:
    """Every stack_method, the input passed through or not."""
    case = partial(Case, "sklearn.ensemble.StackingClassifier")
    members = [("linear", LOGISTIC), ("tree", TREE), ("svm", svm.LinearSVC())]
    yield case("three text", fit(ensemble.StackingClassifier(members, cv=2), "three_text"))
    yield case(
        "two, passthrough",
        fit(ensemble.StackingClassifier(members, LIGHT(), cv=2, passthrough=True), "two_text"),
    )
    for method in ("predict_proba", "decision_function", "predict"):
        some = [("a", LOGISTIC), ("b", linear_model.SGDClassifier("log_loss", random_state=0))]
        yield case(
            method, fit(ensemble.StackingClassifier(some, TREE, cv=2, stack_method=method), "two")
        )
    several = [
        ("tree", TREE),
        ("chain", multioutput.MultiOutputClassifier(LOGISTIC)),
        ("none", "drop"),
    ]
    yield case(
        "several labels",
        fit(ensemble.StackingClassifier(several, TREE, cv=2), "labels"),
        kind="trees",
    )
    yield case(
        "boosters",
        fit(
            ensemble.StackingClassifier([("xgb", XGB()), ("light", LIGHT())], XGB(), cv=2),
            "three_text",
        ),
        kind="float32 inside",
    )
    case = partial(Case, "sklearn.ensemble.StackingRegressor")
    members = [("linear", RIDGE), ("tree", REGRESSION_TREE), ("none", "drop")]
    yield case("default", fit(ensemble.StackingRegressor(members, cv=2), "value"))
    yield case(
        "passthrough",
        fit(ensemble.StackingRegressor(members, LINEAR, cv=2, passthrough=True), "value"),
    )
    fitted = [
        ("a", xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(fit_rows(), target("value"))),
        ("b", clone(RIDGE).fit(fit_rows(), target("value"))),
    ]
    yield case(
        "prefit, xgboost",
        fit(ensemble.StackingRegressor(fitted, REGRESSION_TREE, cv="prefit"), "value"),
    )


CASES = (
    *voting(),
    *stacking(),
)
