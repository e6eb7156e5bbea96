"""Watching a block of code: which calls are judged, and that models, rows and the process stay
as they were.
"""

import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier, StackingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import hbconv
from hbconv.testing import asking, assert_same, judge

X = np.random.default_rng(0).normal(size=(20, 3))
y = (X[:, 0] > 0).astype(int)


def told(report):
    """Kind, estimator and method of each outcome."""
    return [(o.kind, o.estimator, o.method) for o in report.outcomes]


def test_calls_while_fitting_pass_unseen():
    with asking() as report:
        StackingClassifier([("a", LogisticRegression())], LogisticRegression(), cv=2).fit(X, y)
        make_pipeline(StandardScaler()).fit_transform(X)
    assert told(report) == []


def test_calls_inside_others_pass_unseen_in_threads_too():
    model = make_pipeline(StandardScaler(), RandomForestClassifier(4, n_jobs=2)).fit(X, y)
    with asking() as report:
        model.predict(X)
    assert told(report) == [("right", "Pipeline", "predict")]


def test_calls_of_other_threads_are_seen():
    model = StandardScaler().fit(X)
    with asking() as report:
        threads = [threading.Thread(target=model.transform, args=(X,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert told(report) == 4 * [("right", "StandardScaler", "transform")]


def test_generators_answer_as_without_it():
    model = AdaBoostClassifier(n_estimators=3).fit(X, y)
    with asking() as report:
        stages = model.staged_predict(X)
        assert told(report) == [("right", "AdaBoostClassifier", "staged_predict")]
    assert sum(1 for _ in stages) == len(model.estimators_)


def test_a_model_fitted_again_is_converted_again():
    model = LinearRegression().fit(X, y)
    with asking() as report:
        model.predict(X)
        model.fit(X, -y)
        model.predict(X)
        model.coef_ = model.coef_ + 1
        model.predict(X)
    assert told(report) == 3 * [("right", "LinearRegression", "predict")]


def test_models_and_rows_and_chance_stay_as_they_were():
    model, rows = StandardScaler(copy=False).fit(X), X.copy()
    state, chance = pickle.dumps(model), random_states()
    with asking() as report:
        assert model.transform(rows) is rows
    assert told(report) == [("right", "StandardScaler", "transform")]
    assert pickle.dumps(model) == state
    assert random_states() == chance


def random_states():
    return pickle.dumps(np.random.get_state()), random.getstate()  # noqa: NPY002


def test_warnings_of_hbconv_stay_inside():
    """scikit-learn warns once of the missing names; hbconv, which warns too, must not be heard."""
    import pandas as pd

    model = LinearRegression().fit(pd.DataFrame(X, columns=list("abc")), y)
    with asking() as report, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.predict(X)
    assert told(report) == [("right", "LinearRegression", "predict")]
    assert len(heard) == 1


def test_what_both_refuse_is_right_and_the_error_is_the_sources():
    model = LinearRegression().fit(X, y)
    with asking() as report, pytest.raises(ValueError, match="3 features as input"):
        model.predict(X[:, :2])
    assert told(report) == [("right", "LinearRegression", "predict")]


def test_what_cannot_be_asked_is_skipped_with_its_reason():
    process = GaussianProcessRegressor().fit(X, y)
    with asking() as report:
        process.predict(X, return_std=True)
        with pytest.raises(Exception, match="not fitted"):
            StandardScaler().transform(X)
        CountVectorizer(vocabulary=["a"]).transform(text for text in ["a b"])
    assert report.reasons("skipped") == [
        ("called with return_std", 1),
        ("not fitted", 1),
        ("rows that cannot be copied, or none", 1),
    ]


def test_the_rows_are_what_the_method_calls_so():
    """An argument given by name may stand before them, or without them."""
    search = NearestNeighbors(n_neighbors=2).fit(X)
    with asking() as report:
        search.kneighbors(return_distance=False)
        search.kneighbors(n_neighbors=2, X=X[:3])
    assert [(o.kind, o.reason) for o in report.outcomes] == [
        ("skipped", "called with return_distance"),
        ("skipped", "called with n_neighbors"),
    ]


def test_estimators_without_state_learn_their_width_from_the_rows():
    with asking() as report:
        for width in (3, 2):
            make_pipeline(Normalizer(), FunctionTransformer(np.log1p)).transform(
                np.abs(X[:, :width])
            )
    assert told(report) == 2 * [("right", "Pipeline", "transform")]


def test_all_is_as_before_after_the_block():
    before = (
        vars(StandardScaler)["transform"],
        vars(LogisticRegression)["predict_proba"],
        threading.Thread.start,
    )
    with asking():
        assert vars(StandardScaler)["transform"] is not before[0]
        assert pickle.loads(pickle.dumps(StandardScaler.transform)) is StandardScaler.transform
    assert (
        vars(StandardScaler)["transform"],
        vars(LogisticRegression)["predict_proba"],
        threading.Thread.start,
    ) == before


def test_modules_imported_later_are_watched():
    script = """
from hbconv.testing import asking
with asking() as report:
    from sklearn.preprocessing import StandardScaler
    from lightgbm import LGBMRegressor
    rows = StandardScaler().fit([[0.0], [1.0], [3.0]]).transform([[2.0]])
    LGBMRegressor(n_estimators=1, verbose=-1).fit([[0.0]] * 9, [1.0] * 9).predict(rows)
print([(o.kind, o.estimator) for o in report.outcomes])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (
        "[('right', 'StandardScaler'), ('right', 'LGBMRegressor')]\n",
        0,
    ), done.stderr


def test_what_takes_too_long_is_skipped(monkeypatch):
    model = StandardScaler().fit(X)
    monkeypatch.setattr(judge, "convert", lambda *_, **__: time.sleep(60))
    with asking(limit=0.05) as report:
        model.transform(X)
    assert report.reasons("skipped") == [("more than 0.05 s", 1)]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


class Own(BaseEstimator):
    """An estimator that hbconv does not follow."""

    n_features_in_ = 3

    def predict(self, X):
        return X[:, 0] / len(X)


def test_assert_same_lists_what_differs(monkeypatch):
    model = LogisticRegression().fit(X, y)
    assert_same(model, X)
    with pytest.raises(hbconv.UnsupportedError, match="number of rows"):
        assert_same(Own(), X)
    with pytest.raises(
        AssertionError,
        match="inverse_transform on reference: refused: SimpleImputer with add_indicator",
    ):
        assert_same(SimpleImputer(add_indicator=True).fit(X), X, ["transform", "inverse_transform"])
    monkeypatch.setattr(model, "classes_", np.array([1, 0]))
    assert_same(model, X, ["predict"])
    monkeypatch.setattr(hbconv.Model, "_method", lambda self, name: lambda X: np.zeros(20))
    with pytest.raises(AssertionError, match="predict_proba on reference: wrong"):
        assert_same(model, X, ["predict_proba"])
