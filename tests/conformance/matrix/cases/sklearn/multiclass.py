"""Classifiers of several classes, made of others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.fitting import fit
from matrix.members import LIGHT, LOGISTIC, REGRESSION_TREE, RIDGE, TREE, XGB
from sklearn import (
    multiclass,
    svm,
)


def strategies() -> Iterator[Case]:
    """One against the rest, one against one, codes."""
    case = partial(Case, "sklearn.multiclass.OneVsRestClassifier")
    for y in ("three_text", "two_bool", "labels"):
        yield case(f"scores, {y}", fit(multiclass.OneVsRestClassifier(LOGISTIC), y))
        yield case(
            f"probabilities, {y}", fit(multiclass.OneVsRestClassifier(LIGHT()), y), kind="trees"
        )
        yield case(f"float32, {y}", fit(multiclass.OneVsRestClassifier(XGB()), y), kind="trees")
    yield case("regressors", fit(multiclass.OneVsRestClassifier(RIDGE), "three"))
    yield case("regressors of two", fit(multiclass.OneVsRestClassifier(REGRESSION_TREE), "two"))
    case = partial(Case, "sklearn.multiclass.OneVsOneClassifier")
    yield case("scores", fit(multiclass.OneVsOneClassifier(LOGISTIC), "three_text"))
    yield case("scores, two", fit(multiclass.OneVsOneClassifier(svm.LinearSVC()), "two_text"))
    yield case("trees", fit(multiclass.OneVsOneClassifier(TREE), "three"), kind="trees")
    yield case(
        "xgboost, two", fit(multiclass.OneVsOneClassifier(XGB()), "two_bool"), kind="float32 inside"
    )
    yield case(
        "regressors", fit(multiclass.OneVsOneClassifier(REGRESSION_TREE), "three"), kind="trees"
    )
    case = partial(Case, "sklearn.multiclass.OutputCodeClassifier")
    yield case(
        "scores",
        fit(multiclass.OutputCodeClassifier(LOGISTIC, code_size=3, random_state=0), "three_text"),
    )
    yield case(
        "probabilities",
        fit(multiclass.OutputCodeClassifier(TREE, code_size=4, random_state=1), "three"),
        kind="trees",
    )


CASES = (*strategies(),)
