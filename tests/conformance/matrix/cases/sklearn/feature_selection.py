"""Feature selectors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from matrix.case import Case
from matrix.data import fit_rows, target
from matrix.fitting import Entries, fit
from sklearn import feature_selection
from sklearn.linear_model import LogisticRegression, Ridge


def selectors() -> Iterator[Case]:
    """Feature selectors."""
    name = "sklearn.feature_selection.{}".format
    s = feature_selection
    yield Entries(name("SelectKBest"), "3", fit(s.SelectKBest(s.f_classif, k=3), "three"))
    yield Entries(name("SelectKBest"), "all", fit(s.SelectKBest(s.f_regression, k="all"), "value"))
    yield Entries(
        name("SelectPercentile"), "40", fit(s.SelectPercentile(s.f_classif, percentile=40), "two")
    )
    yield Entries(name("VarianceThreshold"), "0.3", fit(s.VarianceThreshold(0.3)))
    l1 = LogisticRegression(solver="liblinear", l1_ratio=1, C=0.1)
    yield Entries(name("SelectFromModel"), "l1", fit(s.SelectFromModel(l1), "two"))
    yield Entries(name("SelectFromModel"), "prefit", partial(_prefit, l1))
    select = partial(Entries, same_as="SelectKBest")
    for each in ("SelectFpr", "SelectFdr", "SelectFwe"):
        yield select(name(each), "default", fit(getattr(s, each)(s.f_classif), "three"))
    yield select(
        name("GenericUnivariateSelect"),
        "k best",
        fit(s.GenericUnivariateSelect(s.f_classif, mode="k_best", param=2), "three"),
    )
    yield select(
        name("SequentialFeatureSelector"),
        "ridge",
        fit(s.SequentialFeatureSelector(Ridge(), n_features_to_select=2, cv=2), "value"),
    )
    yield Case(
        name("RFE"),
        "logistic",
        fit(s.RFE(LogisticRegression(), n_features_to_select=3), "three_text"),
    )
    yield Case(name("RFECV"), "ridge", fit(s.RFECV(Ridge(), cv=2), "value"), same_as="RFE")


def _prefit(estimator: Any) -> Any:
    return feature_selection.SelectFromModel(
        estimator.fit(fit_rows(), target("two")), prefit=True, max_features=3
    ).fit(fit_rows(), target("two"))


CASES = (*selectors(),)
