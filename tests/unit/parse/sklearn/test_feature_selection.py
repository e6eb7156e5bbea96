import warnings

import numpy as np
import pandas as pd
import pytest
from agreement import agree, refuses_as_source
from scipy.sparse import csr_matrix
from sklearn.feature_selection import (
    RFE,
    GenericUnivariateSelect,
    SelectFdr,
    SelectFpr,
    SelectFromModel,
    SelectFwe,
    SelectKBest,
    SelectPercentile,
    SequentialFeatureSelector,
    VarianceThreshold,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv
from hbconv.parse import parse

RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 6)) * [1, 2, 3, 1e-9, 5, 6]
Y = (X[:, 1] + X[:, 4] > 0).astype(int)
SELECTORS = [
    SelectKBest(k=3), SelectKBest(k="all"), SelectKBest(k=0), SelectPercentile(percentile=40),
    VarianceThreshold(1e-3), SelectFpr(), SelectFdr(), SelectFwe(),
    GenericUnivariateSelect(mode="k_best", param=2),
    SelectFromModel(LogisticRegression(), threshold="median"),
    SelectFromModel(LogisticRegression(), max_features=2, threshold=-np.inf),
    SequentialFeatureSelector(LogisticRegression(), n_features_to_select=2, cv=2),
    RFE(LogisticRegression(), n_features_to_select=2),
]  # fmt: skip


@pytest.mark.parametrize("selector", SELECTORS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_selects(selector, dtype):
    agree(selector.fit(X, Y), X.astype(dtype))


def test_a_selected_column_keeps_the_common_dtype():
    frame = pd.DataFrame({"a": X[:, 1].astype(np.float32), "b": X[:, 3], "c": np.arange(80)})
    agree(VarianceThreshold(1e-3).fit(frame), frame)
    agree(make_pipeline(VarianceThreshold(1e-3), StandardScaler()).fit(frame), frame)


def test_refuses_nan_where_the_source_does():
    rows = np.where(np.arange(6) == 2, np.nan, X[:4])
    refuses_as_source(SelectKBest(k=3).fit(X, Y), rows, "NaN")
    agree(VarianceThreshold().fit(X), rows)


def test_elimination_also_predicts():
    graph = parse(RFE(LogisticRegression(), n_features_to_select=2).fit(X, Y))
    assert {"transform", "predict", "predict_proba", "decision_function"} <= set(graph.outputs)


def test_selects_from_a_sparse_matrix():
    texts = np.array([["a", "x"], ["b", "y"], ["b", "x"], ["c", "x"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(make_pipeline(OneHotEncoder(), VarianceThreshold(0.2)).fit(texts), texts)


def test_no_column_of_a_sparse_matrix_is_a_dense_array():
    none = SelectKBest(k=0).fit(X, Y)
    rows = csr_matrix(X)
    with pytest.warns(UserWarning, match="No features"):
        wanted = none.transform(rows)
    answer = hbconv.convert(none, backend="reference").transform(rows)
    assert type(answer) is type(wanted)
    assert answer.shape == wanted.shape == (len(X), 0)
