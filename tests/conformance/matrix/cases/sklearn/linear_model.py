"""Linear regressors and classifiers, and a linear one-class machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import WIDTH, fit_rows, target
from matrix.fitting import MODERATE, fit, known
from matrix.kernel_rows import fit_few
from sklearn import (
    linear_model,
)

FEW = (0.01, 0.1, 1.0)
"""Penalties to choose from, in a form that all versions take."""


def deprecated(name: str, y: str) -> Any:
    """Make and fit an estimator that warns when it is made."""
    return fit(getattr(linear_model, name)(random_state=0), y)()


def regressors() -> Iterator[Case]:
    """Regressors of one matrix product."""
    name = "sklearn.linear_model.{}".format
    m = linear_model
    yield Case(name("LinearRegression"), "one target", fit(m.LinearRegression(), "value"))
    yield Case(name("LinearRegression"), "two targets", fit(m.LinearRegression(), "values"))
    yield Case(
        name("LinearRegression"),
        "a column",
        lambda: m.LinearRegression().fit(fit_rows(), target("value")[:, None]),
    )
    yield Case(
        name("LinearRegression"),
        "positive, no intercept",
        fit(m.LinearRegression(positive=True, fit_intercept=False), "value"),
    )
    for each in ("Ridge", "Lasso", "ElasticNet"):
        estimator = partial(getattr(m, each), alpha=0.1)
        yield Case(name(each), "one target", fit(estimator(), "value"))
        yield Case(name(each), "two targets", fit(estimator(), "values"))
        yield Case(name(each), "fitted on float32", fit(estimator(), "value", "float32"))
        yield Case(
            name(each),
            "float32, no intercept",
            fit(estimator(fit_intercept=False), "values", "float32"),
        )
    yield Case(
        name("SGDRegressor"), "huber", fit(m.SGDRegressor(loss="huber", random_state=0), "value")
    )
    yield Case(
        name("SGDRegressor"),
        "float32, averaged",
        fit(m.SGDRegressor(average=True, random_state=0), "value", "float32"),
    )
    yield Case(
        name("PassiveAggressiveRegressor"),
        "default",
        partial(deprecated, "PassiveAggressiveRegressor", "value"),
        same_as="SGDRegressor",
    )
    for each in ("PoissonRegressor", "GammaRegressor"):
        yield Case(name(each), "default", fit(getattr(m, each)(), "positive"), rows=MODERATE)
    for power, link in ((0, "auto"), (1.5, "auto"), (0, "log"), (1, "identity")):
        yield Case(
            name("TweedieRegressor"),
            f"power {power}, link {link}",
            fit(m.TweedieRegressor(power=power, link=link), "positive"),
            rows=MODERATE,
        )


def relatives() -> Iterator[Case]:
    """Regressors that predict as LinearRegression does, however they fit."""
    m = linear_model
    case = partial(Case, same_as="LinearRegression")
    more = {
        "ARDRegression": {}, "BayesianRidge": {}, "ElasticNetCV": {"cv": 2, "alphas": FEW},
        "HuberRegressor": {}, "Lars": {}, "LarsCV": {"cv": 2},
        "LassoCV": {"cv": 2, "alphas": FEW}, "LassoLars": {"alpha": 0.1}, "LassoLarsCV": {"cv": 2},
        "LassoLarsIC": {}, "OrthogonalMatchingPursuit": {},
        "OrthogonalMatchingPursuitCV": {"cv": 2}, "QuantileRegressor": {"alpha": 0.01},
        "RidgeCV": {},
        "TheilSenRegressor": {"max_subpopulation": 50, "random_state": 0},
    }  # fmt: skip
    for name, settings in more.items():
        yield case(
            f"sklearn.linear_model.{name}", "default", fit(getattr(m, name)(**settings), "value")
        )
    yield case("sklearn.linear_model.RidgeCV", "two targets", fit(m.RidgeCV(), "values"))
    tasks = {
        "MultiTaskElasticNet": {},
        "MultiTaskElasticNetCV": {"cv": 2, "alphas": FEW},
        "MultiTaskLasso": {},
        "MultiTaskLassoCV": {"cv": 2, "alphas": FEW},
    }
    for name, settings in tasks.items():
        yield case(
            f"sklearn.linear_model.{name}",
            "two targets",
            fit(getattr(m, name)(**settings), "values"),
        )


def consensus() -> Iterator[Case]:
    """Regressors fitted on inliers."""
    name = "sklearn.linear_model.RANSACRegressor"
    yield Case(name, "linear", fit(linear_model.RANSACRegressor(random_state=0), "value"))
    yield Case(
        name,
        "two targets",
        fit(
            linear_model.RANSACRegressor(linear_model.Ridge(), min_samples=20, random_state=0),
            "values",
        ),
    )


def sparse_weights(estimator: Any, y: str) -> Callable[[], Any]:
    """Return a function that fits the estimator and makes its weights a scipy matrix."""
    return lambda: fit(estimator, y)().sparsify()


def classifiers() -> Iterator[Case]:
    """Classifiers of two and of more classes, with labels of every type."""
    name = "sklearn.linear_model.{}".format
    m = linear_model
    yield Case(name("LogisticRegression"), "two", fit(m.LogisticRegression(), "two"))
    yield Case(name("LogisticRegression"), "three text", fit(m.LogisticRegression(), "three_text"))
    yield Case(
        name("LogisticRegression"),
        "liblinear, bool",
        fit(m.LogisticRegression(solver="liblinear"), "two_bool"),
    )
    sparse = m.LogisticRegression(solver="saga", l1_ratio=1, fit_intercept=False)
    yield Case(
        name("LogisticRegression"), "l1, float32, no intercept", fit(sparse, "three", "float32")
    )
    yield Case(
        name("LogisticRegression"),
        "sparse weights",
        sparse_weights(m.LogisticRegression(solver="liblinear", l1_ratio=1, C=0.1), "two_text"),
    )
    cv = known(
        partial(m.LogisticRegressionCV, Cs=2, cv=2, scoring="neg_log_loss"),
        l1_ratios=(0,),
        use_legacy_attributes=False,
    )
    yield Case(
        name("LogisticRegressionCV"),
        "two text",
        fit(cv(), "two_text"),
        same_as="LogisticRegression",
    )
    yield Case(
        name("LogisticRegressionCV"), "three", fit(cv(), "three"), same_as="LogisticRegression"
    )
    sgd = partial(m.SGDClassifier, random_state=0, max_iter=20)
    undecided = (
        "hinge",
        "squared_hinge",
        "perceptron",
        "squared_error",
        "huber",
        "epsilon_insensitive",
        "squared_epsilon_insensitive",
    )
    for loss in ("log_loss", "modified_huber", *undecided):
        yield Case(name("SGDClassifier"), f"{loss}, two text", fit(sgd(loss=loss), "two_text"))
    for loss in ("log_loss", "modified_huber", "hinge"):
        yield Case(name("SGDClassifier"), f"{loss}, three", fit(sgd(loss=loss), "three"))
    yield Case(
        name("SGDClassifier"),
        "modified_huber, float32",
        fit(sgd(loss="modified_huber"), "two", "float32"),
    )
    yield Case(name("SGDClassifier"), "rows of zero probability", no_class_for_anyone)
    for each in ("RidgeClassifier", "RidgeClassifierCV"):
        yield Case(name(each), "two", fit(getattr(m, each)(), "two"))
        yield Case(name(each), "three text", fit(getattr(m, each)(), "three_text"))
        yield Case(name(each), "several labels", fit(getattr(m, each)(), "labels"))
    yield Case(
        name("Perceptron"), "three", fit(m.Perceptron(random_state=0), "three"), same_as="LinearSVC"
    )
    yield Case(
        name("PassiveAggressiveClassifier"),
        "two",
        partial(deprecated, "PassiveAggressiveClassifier", "two"),
        same_as="LinearSVC",
    )


def no_class_for_anyone() -> Any:
    """Return a model whose scores are below -1 for every class on some rows, so that its
    probabilities sum to zero there.
    """
    model = fit(linear_model.SGDClassifier(loss="modified_huber", random_state=0), "three")()
    model.coef_ = np.zeros((3, WIDTH))
    model.coef_[:, 2] = [1.0, 2.0, 3.0]
    model.intercept_ = np.full(3, -1.0)
    return model


def one_class() -> Iterator[Case]:
    """A linear one-class machine."""
    yield Case(
        "sklearn.linear_model.SGDOneClassSVM",
        "default",
        fit_few(linear_model.SGDOneClassSVM(random_state=0)),
    )


CASES = (
    *regressors(),
    *relatives(),
    *consensus(),
    *classifiers(),
    *one_class(),
)
