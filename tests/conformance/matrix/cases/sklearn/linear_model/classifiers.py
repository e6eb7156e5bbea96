"""Linear classifiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import WIDTH
from matrix.fitting import fit
from sklearn import linear_model


def sparse_weights(estimator: Any, y: str) -> Callable[[], Any]:
    """Return a function that fits the estimator and makes its weights a scipy matrix."""
    return lambda: fit(estimator, y)().sparsify()


def deprecated(name: str, y: str) -> Any:
    """Make and fit an estimator that warns when it is made."""
    return fit(getattr(linear_model, name)(random_state=0), y)()


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
    cv = partial(
        m.LogisticRegressionCV,
        Cs=2,
        cv=2,
        l1_ratios=(0,),
        use_legacy_attributes=False,
        scoring="neg_log_loss",
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


CASES = (*classifiers(),)
