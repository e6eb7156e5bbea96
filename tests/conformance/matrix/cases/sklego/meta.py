"""Estimators around others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import MODERATE, Trees, fit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklego import meta


def estimators() -> Iterator[Case]:
    """Around trees, whose answers are exact, and around linear models."""
    name = "sklego.meta.{}".format
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    forest = RandomForestClassifier(4, max_depth=3, random_state=0)
    numbers = DecisionTreeRegressor(max_depth=4, random_state=0)
    logistic = LogisticRegression(max_iter=200)
    moderate = partial(Case, rows=MODERATE)
    yield Trees(name("Thresholder"), "trees", fit(meta.Thresholder(forest, 0.25), "two_text"))
    odd = meta.Thresholder(logistic, np.float64(0.7), check_input=True)
    yield moderate(name("Thresholder"), "logistic", fit(odd, "two"))
    yield Trees(name("DecayEstimator"), "numbers", fit(meta.DecayEstimator(numbers), "value"))
    named = meta.DecayEstimator(tree, decay_func="linear", check_input=True)
    yield Trees(name("DecayEstimator"), "classes", fit(named, "three_text"))
    transformed = meta.EstimatorTransformer(numbers, check_input=True)
    yield Trees(name("EstimatorTransformer"), "predict", fit(transformed, "value"))
    scores = meta.EstimatorTransformer(logistic, predict_func="decision_function")
    yield moderate(name("EstimatorTransformer"), "decision_function", fit(scores, "two"))
    both = meta.EstimatorTransformer(LinearRegression())
    yield Case(name("EstimatorTransformer"), "two targets", fit(both, "values"))
    yield Trees(name("OrdinalClassifier"), "trees", fit(meta.OrdinalClassifier(tree), "three"))
    calibrated = meta.OrdinalClassifier(logistic, use_calibration=True)
    yield moderate(name("OrdinalClassifier"), "calibrated", fit(calibrated, "three"))
    prior = {"low": 0.6, "middle": 0.1, "high": 0.3}
    for evidence in ("predict_proba", "confusion_matrix", "both"):
        subjective = meta.SubjectiveClassifier(forest, prior, evidence)
        yield Trees(name("SubjectiveClassifier"), evidence, fit(subjective, "three_text"))
    inflated = meta.ZeroInflatedRegressor(tree, numbers)
    yield Trees(name("ZeroInflatedRegressor"), "trees", _inflated(inflated))
    linear = meta.ZeroInflatedRegressor(logistic, LinearRegression())
    yield moderate(name("ZeroInflatedRegressor"), "linear", _inflated(linear))


def _inflated(model: Any) -> Callable[[], Any]:
    return lambda: model.fit(fit_rows(), target("count"))


CASES = (*estimators(),)
