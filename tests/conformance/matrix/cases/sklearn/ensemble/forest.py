"""Averages of trees, leaves as columns, isolation forests, bagging."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.data import fit_rows, with_missing
from matrix.fitting import Trees, fit
from matrix.tree_families import of_family
from sklearn import ensemble, linear_model, tree


def forests() -> Iterator[Case]:
    """Averages of trees."""
    for family in ("RandomForest", "ExtraTrees"):
        yield from of_family(ensemble, family, n_estimators=6, max_depth=5, random_state=0)


def embeddings() -> Iterator[Case]:
    """Leaves as columns."""
    case = partial(Trees, "sklearn.ensemble.RandomTreesEmbedding")
    make = partial(ensemble.RandomTreesEmbedding, random_state=0)
    yield case("sparse", lambda: make(6, max_depth=3).fit(fit_rows()))
    yield case("dense", lambda: make(4, sparse_output=False).fit(fit_rows()))


def isolation() -> Iterator[Case]:
    """Isolation forests."""
    case = partial(Trees, "sklearn.ensemble.IsolationForest")
    make = partial(ensemble.IsolationForest, n_estimators=8, random_state=0)
    yield case("default", lambda: make().fit(fit_rows()))
    yield case("some columns", lambda: make(max_features=3, max_samples=40).fit(fit_rows()))
    yield case(
        "contamination, missing values",
        lambda: make(contamination=0.2).fit(with_missing(fit_rows())),
    )


def bags() -> Iterator[Case]:
    """Bagging of trees, which become one forest, and of others."""
    classifier = "sklearn.ensemble.BaggingClassifier"
    regressor = "sklearn.ensemble.BaggingRegressor"
    make = ensemble.BaggingClassifier
    bagged = {"n_estimators": 5, "max_features": 0.6, "bootstrap_features": True, "random_state": 0}
    yield Trees(classifier, "three text", fit(make(**bagged), "three_text"))
    few = make(tree.DecisionTreeClassifier(max_depth=2), max_samples=4, random_state=0)
    yield Trees(classifier, "members that know some classes", fit(few, "three", missing=True))
    yield Trees(regressor, "one target", fit(ensemble.BaggingRegressor(**bagged), "value"))
    trees = ensemble.BaggingRegressor(n_estimators=5, random_state=0)
    yield Trees(regressor, "two targets, missing values", fit(trees, "values", missing=True))
    logistic = linear_model.LogisticRegression(max_iter=50)
    some = {"n_estimators": 4, "max_features": 0.5, "random_state": 0}
    yield Case(classifier, "linear members", fit(make(logistic, **some), "three_text"))
    yield Case(classifier, "votes", fit(make(linear_model.RidgeClassifier(), **some), "two_text"))
    yield Case(
        classifier, "few rows", fit(make(logistic, max_samples=5, random_state=1), "three_text")
    )
    ridges = ensemble.BaggingRegressor(linear_model.Ridge(), **some)
    yield Case(regressor, "linear members", fit(ridges, "values"))


CASES = (
    *forests(),
    *embeddings(),
    *isolation(),
    *bags(),
)
