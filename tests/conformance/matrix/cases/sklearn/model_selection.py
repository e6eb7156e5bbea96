"""Moved thresholds, and searches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from matrix.case import Case
from matrix.data import table_rows
from matrix.fitting import fit
from matrix.members import LOGISTIC, TREE, XGB
from matrix.tables import encode, fit_mixed
from sklearn import (
    metrics,
    model_selection,
    svm,
)
from sklearn.decomposition import PCA
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
)
from sklearn.pipeline import make_pipeline


def thresholds() -> Iterator[Case]:
    """Moved thresholds."""
    case = partial(Case, "sklearn.model_selection.FixedThresholdClassifier")
    make = model_selection.FixedThresholdClassifier
    yield case("automatic", fit(make(LOGISTIC), "two_text"))
    yield case(
        "first class",
        fit(make(LOGISTIC, threshold=0.3, pos_label=3, response_method="decision_function"), "two"),
    )
    yield case("no probabilities", fit(make(svm.LinearSVC(), threshold=-0.2), "two"))
    yield case(
        "xgboost", fit(make(XGB(), threshold=0.4, pos_label=False), "two_bool"), kind="trees"
    )
    case = partial(Case, "sklearn.model_selection.TunedThresholdClassifierCV")
    make = partial(model_selection.TunedThresholdClassifierCV, cv=2)
    yield case("default", fit(make(LOGISTIC), "two_text"))
    yield case(
        "first class",
        fit(make(TREE, scoring=metrics.make_scorer(metrics.f1_score, pos_label="no")), "two_text"),
        kind="trees",
    )
    yield case(
        "scores",
        fit(
            make(
                LOGISTIC,
                scoring="accuracy",
                response_method="decision_function",
                refit=False,
                cv=0.5,
                random_state=0,
            ),
            "two",
        ),
    )


def searches() -> Iterator[Case]:
    """Searches, which answer as their best estimator."""
    name = "sklearn.model_selection.{}".format
    yield Case(
        name("GridSearchCV"),
        "logistic",
        fit(GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), "three_text"),
    )
    yield Case(
        name("GridSearchCV"),
        "pca",
        fit(GridSearchCV(PCA(random_state=0), {"n_components": [2, 3]}, cv=2)),
    )
    mixed = make_pipeline(encode(SimpleImputer()), LogisticRegression())
    yield Case(
        name("GridSearchCV"),
        "table",
        fit_mixed(GridSearchCV(mixed, {"logisticregression__C": [0.1]}, cv=2), "two"),
        rows=table_rows,
    )
    alphas = {"alpha": [0.1, 1.0]}
    yield Case(
        name("RandomizedSearchCV"),
        "ridge",
        fit(RandomizedSearchCV(Ridge(), alphas, n_iter=2, cv=2, random_state=0), "value"),
    )
    for search in (HalvingGridSearchCV, HalvingRandomSearchCV):
        yield Case(
            name(search.__name__),
            "ridge",
            fit(search(Ridge(), alphas, cv=2, random_state=0), "value"),
            same_as="GridSearchCV",
        )


CASES = (*thresholds(), *searches())
