"""Every estimator as a query that DuckDB answers, against the fitted estimator, or refused by name."""

from __future__ import annotations

import pytest
from matrix.case import Case, as_dtype, fitted
from matrix.compare import compare
from matrix.estimators import first_names

import hbconv
from hbconv.errors import BackendError

REFUSED = frozenset(
    {
        "interpret.glassbox.ExplainableBoostingClassifier",
        "sklearn.decomposition.DictionaryLearning",
        "sklearn.decomposition.LatentDirichletAllocation",
        "sklearn.decomposition.NMF",
        "sklearn.decomposition.SparseCoder",
        "sklearn.ensemble.AdaBoostRegressor",
        "sklearn.impute.KNNImputer",
        "sklearn.manifold.Isomap",
        "sklearn.manifold.LocallyLinearEmbedding",
        "sklearn.neighbors.KNeighborsClassifier",
        "sklearn.neighbors.KNeighborsRegressor",
        "sklearn.neighbors.KNeighborsTransformer",
        "sklearn.neighbors.LocalOutlierFactor",
        "sklearn.neighbors.NearestNeighbors",
        "sklearn.svm.SVC",
        "skrub.StringEncoder",
    }
)
"""Estimators that need loops, the nearest of many, or an order."""

ROWS = (40, 0)
FIRST = [name for name in first_names() if not name.same_as]


@pytest.mark.parametrize("case", FIRST, ids=str, indirect=True)
@pytest.mark.share("case")
def test_answers_as_the_source(case: Case) -> None:
    """The same values within tolerance, labels exactly, in both dtypes."""
    if case.estimator in REFUSED:
        with pytest.raises(BackendError, match=r"cannot run|longer than"):
            hbconv.convert(fitted(case), "sql").compile(case.rows(7))
        return
    model = hbconv.convert(fitted(case), "sql")
    for dtype in case.dtypes:
        for n in ROWS:
            x = as_dtype(case.rows(n), dtype)
            for method in case.names:
                compare(case, method, x, getattr(model, method)(x))
