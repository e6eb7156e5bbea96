"""Several targets, side by side and in chains."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lightgbm
import numpy as np
import xgboost
from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import MODERATE, fit
from matrix.members import LOGISTIC, RIDGE, TREE, XGB
from sklearn import (
    multioutput,
    svm,
)


def targets() -> Iterator[Case]:
    """Several targets, side by side and in chains."""
    case = partial(Case, "sklearn.multioutput.MultiOutputClassifier")
    yield case("probabilities", fit(multioutput.MultiOutputClassifier(LOGISTIC), "labels"))
    texts = np.stack([target("three_text"), target("two_text")], axis=1)
    yield case(
        "text", lambda: multioutput.MultiOutputClassifier(TREE).fit(fit_rows(), texts), kind="trees"
    )
    yield case(
        "no probabilities", fit(multioutput.MultiOutputClassifier(svm.LinearSVC()), "labels")
    )
    yield case("xgboost", fit(multioutput.MultiOutputClassifier(XGB()), "labels"), kind="trees")
    case = partial(Case, "sklearn.multioutput.MultiOutputRegressor")
    yield case("linear", fit(multioutput.MultiOutputRegressor(RIDGE), "values"))
    yield case(
        "xgboost",
        fit(
            multioutput.MultiOutputRegressor(xgboost.XGBRegressor(n_estimators=3, n_jobs=1)),
            "values",
        ),
        kind="trees",
    )
    case = partial(Case, "sklearn.multioutput.ClassifierChain")
    chain = multioutput.ClassifierChain
    yield case("default", fit(chain(LOGISTIC), "labels"))
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        yield case(
            method,
            fit(chain(LOGISTIC, order=[2, 0, 1], chain_method=method, cv=2), "labels"),
            rows=MODERATE,
        )
    yield case(
        "xgboost",
        fit(chain(XGB(), order="random", random_state=1, chain_method="predict_proba"), "labels"),
        kind="float32 inside",
    )
    case = partial(Case, "sklearn.multioutput.RegressorChain")
    yield case("linear", fit(multioutput.RegressorChain(RIDGE, order=[1, 0]), "values"))
    light = lightgbm.LGBMRegressor(n_estimators=3, num_leaves=5, verbosity=-1, n_jobs=1)
    yield case("lightgbm", fit(multioutput.RegressorChain(light), "values"), kind="trees")


CASES = (*targets(),)
