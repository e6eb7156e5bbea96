"""The compiler of the tour keeps the promises of hbconv: equal answers, or a refusal."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from docs.pages import ROOT
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier


@pytest.fixture
def tiny(monkeypatch):
    """Import the compiler of the tour."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/tour"))
    monkeypatch.delitem(sys.modules, "tiny", raising=False)
    import tiny

    return tiny


def fitted(data, **settings):
    """Fit a pipeline on a data set of scikit-learn; labels are words."""
    X, y = data(return_X_y=True)
    labels = np.array(["no", "yes", "perhaps"])[y]
    tree = DecisionTreeClassifier(random_state=0, **settings)
    return make_pipeline(StandardScaler(), tree).fit(X, labels), X


def hard_rows(pipeline, X):
    """Return rows that lie on the thresholds of the tree, and one unit to both sides."""
    scaler = pipeline.steps[0][1]
    tree = pipeline.steps[1][1].tree_
    rows = []
    for node in np.flatnonzero(tree.feature >= 0):
        row = X[node % len(X)].copy()
        column = tree.feature[node]
        row[column] = tree.threshold[node] * scaler.scale_[column] + scaler.mean_[column]
        for side in (-np.inf, np.inf):
            near = row.copy()
            near[column] = np.nextafter(row[column], side)
            rows += [row, near]
    zeros = np.zeros((2, X.shape[1]))
    zeros[1] = -0.0
    return np.vstack([*rows, zeros, zeros + 1e30, zeros - 1e30, X]) if rows else X


@pytest.mark.parametrize("rows", [1, 1_000_000])
@pytest.mark.parametrize("depth", [1, 2, 5, None])
@pytest.mark.parametrize("data", [load_iris, load_breast_cancer])
def test_answers_are_equal(tiny, data, depth, rows):
    """Both strategies, on rows made to hurt."""
    pipeline, X = fitted(data, max_depth=depth)
    model = tiny.convert(pipeline, rows)
    hard = hard_rows(pipeline, X)
    assert np.array_equal(model.call("predict_proba", hard), pipeline.predict_proba(hard))
    assert np.array_equal(model.call("predict", hard), pipeline.predict(hard))


def test_a_tree_of_one_leaf(tiny):
    X, y = np.arange(6.0).reshape(3, 2), np.zeros(3)
    pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X, y)
    for rows in (1, 1_000_000):
        answer = tiny.convert(pipeline, rows).call("predict", X)
        assert np.array_equal(answer, pipeline.predict(X))


def test_both_strategies_are_taken(tiny):
    pipeline, _ = fitted(load_iris, max_depth=2)
    graphs = [tiny.convert(pipeline, rows).graph for rows in (1, 1_000_000)]
    taken = {graph.outputs["predict_proba"].node.strategy for graph in graphs}
    assert taken == set(tiny.STRATEGIES)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e300])
def test_refused_rows_are_refused(tiny, value):
    """In any column, also in those that the tree does not read; of NaN tiny promises no more."""
    pipeline, X = fitted(load_iris, max_depth=2)
    model = tiny.convert(pipeline)
    for column in range(X.shape[1]):
        row = X[:1].copy()
        row[0, column] = value
        with pytest.raises(ValueError, match="A row holds NaN, or a value that exceeds"):
            model.call("predict", row)
        if not np.isnan(value):
            with np.errstate(over="ignore"), pytest.raises(ValueError, match="infinity"):
                pipeline.predict(row)


def test_other_models_are_refused(tiny):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(NotImplementedError, match="tiny has no parser for MinMaxScaler"):
        tiny.convert(make_pipeline(MinMaxScaler(), DecisionTreeClassifier()).fit(X, y))
    two = DecisionTreeClassifier().fit(X, np.stack([y, y], axis=1))
    with pytest.raises(NotImplementedError, match="trees of one output, not 2"):
        tiny.convert(two)
    with pytest.raises(TypeError, match="rows of float64, not float32"):
        tiny.convert(fitted(load_iris)[0]).call("predict", X.astype(np.float32))
