import numpy as np
import pytest
from fitted import available_backends
from scoring import assert_same, forest_of, score, threshold_rows
from sklearn.ensemble import IsolationForest

import hbconv
from hbconv.parse import parse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((101, 5))
METHODS = ("predict", "score_samples", "decision_function")
SMALL = {"n_estimators": 12, "random_state": 0}


def rows_of(model, dtype="float64"):
    return threshold_rows(forest_of(parse(model)), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_features": 2},
        {"max_features": 0.7, "bootstrap": True},
        {"max_samples": 30},
        {"contamination": 0.2},
    ],
    ids=str,
)
def test_at_their_thresholds_and_beyond(settings, dtype):
    model = IsolationForest(**SMALL, **settings).fit(np.where(RNG.random(X.shape) < 0.1, np.nan, X))
    assert_same(model, rows_of(model, dtype), *METHODS)


@pytest.mark.parametrize("max_samples", [1, 2, 3])
def test_trees_of_few_rows(max_samples):
    """One row is at no depth, and no depth is expected: its score is set to a half."""
    model = IsolationForest(**SMALL, max_samples=max_samples).fit(X)
    assert_same(model, rows_of(model), *METHODS)
    if max_samples == 1:
        assert set(score(model, X, "score_samples")) == {-0.5}


@pytest.mark.parametrize(
    "rows",
    [X[:1], np.asfortranarray(X[:7]), X[::2], RNG.integers(-(2**60), 2**60, (9, 5)), X * 1e300],
    ids=["one", "fortran", "strided", "int64", "huge"],
)
def test_row_layouts(rows):
    assert_same(IsolationForest(**SMALL).fit(X), rows, *METHODS)


@pytest.mark.parametrize("backend", available_backends())
def test_a_row_on_the_border_is_no_outlier_on_any_backend(backend):
    """The border is the score of a row that was fitted on, which a power rounded otherwise
    would move to its other side.
    """
    for seed in range(8):
        model = IsolationForest(n_estimators=7, contamination=0.1, random_state=seed).fit(X)
        assert (model.decision_function(X) == 0).any()
        np.testing.assert_array_equal(
            hbconv.convert(model, backend=backend).predict(X), model.predict(X)
        )


@pytest.mark.parametrize(("offset", "label"), [(0.5, -1), (-2.0, 1)])
def test_a_border_beyond_all_scores(offset, label):
    model = IsolationForest(**SMALL).fit(X)
    model.offset_ = offset
    assert_same(model, X, "predict")
    assert set(score(model, X)) == {label}
