"""A model where scikit-learn expects an estimator: scores, parameters, clones, searches."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest
from fitted import fit, labels, matrix
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.errors import HbconvError, MissingPackageError, OptionError


def converted(estimator):
    return hbconv.convert(estimator, "reference")


def pipeline():
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(matrix(), labels())


def searched(**options):
    grid = {"C": [0.1, 1.0]}
    return GridSearchCV(LogisticRegression(), grid, cv=2, **options).fit(matrix(), labels())


SCORED = {
    "pipeline": pipeline,
    "neighbours": lambda: KNeighborsClassifier().fit(matrix(), labels()),
    "frozen": lambda: FrozenEstimator(pipeline()),
    "search": searched,
    "regressor": lambda: Ridge().fit(matrix(), matrix()[:, :2]),
}


@pytest.mark.parametrize("name", SCORED)
def test_the_score_is_that_of_the_source(name):
    source = SCORED[name]()
    y = matrix()[:, :2] + 1 if name == "regressor" else labels()
    weights = np.arange(len(matrix())) + 1.0
    model = converted(source)
    assert "score" in dir(model)
    assert model.score(matrix(), y) == source.score(matrix(), y)
    if name not in ("search", "frozen"):
        assert model.score(matrix(), y, weights) == source.score(matrix(), y, sample_weight=weights)


def with_scorer():
    options = {"l1_ratios": (0,), "use_legacy_attributes": False}
    return LogisticRegressionCV(cv=2, scoring="neg_log_loss", **options)


UNSCORED = {
    "search": lambda: searched(scoring="neg_log_loss"),
    "regression": lambda: with_scorer().fit(matrix(), labels()),
    "pipeline": lambda: make_pipeline(StandardScaler(), with_scorer()).fit(matrix(), labels()),
}


@pytest.mark.parametrize("name", UNSCORED)
def test_other_scores_are_refused_rather_than_answered_otherwise(name):
    model = converted(UNSCORED[name]())
    assert not hasattr(model, "score")
    with pytest.raises(AttributeError, match="has no score: that of its source is none of"):
        _ = model.score


def test_the_score_lasts_in_a_file(tmp_path):
    converted(pipeline()).save(tmp_path / "model.hbc")
    loaded = hbconv.load(tmp_path / "model.hbc")
    assert loaded.score(matrix(), labels()) == pipeline().score(matrix(), labels())


def test_the_score_needs_scikit_learn(monkeypatch):
    model = converted(pipeline())
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hbconv\[sklearn\]'"):
        model.score(matrix(), labels())


def test_it_has_no_parameters():
    model = converted(pipeline())
    assert model.get_params() == {}
    assert model.set_params() is model
    assert clone(model) is model
    with pytest.raises(OptionError, match="no parameter 'C', nor any other"):
        model.set_params(C=1.0)


def test_cross_validation_takes_it_frozen():
    model = converted(pipeline())
    frozen, source = FrozenEstimator(model), FrozenEstimator(pipeline())
    np.testing.assert_array_equal(
        cross_val_predict(frozen, matrix(), labels(), cv=3),
        cross_val_predict(source, matrix(), labels(), cv=3),
    )
    np.testing.assert_array_equal(
        cross_val_score(frozen, matrix(), labels(), cv=3),
        cross_val_score(source, matrix(), labels(), cv=3),
    )
    with pytest.raises(HbconvError, match=r"wrap the model: sklearn\.frozen\.FrozenEstimator"):
        cross_val_predict(model, matrix(), labels(), cv=3)


@pytest.mark.parametrize(
    "outer", [partial(VotingClassifier, voting="soft"), StackingClassifier], ids=["vote", "stack"]
)
def test_others_are_fitted_around_it(outer):
    model = converted(pipeline())
    forest = RandomForestClassifier(5, random_state=0)

    def around(member):
        members = [("member", FrozenEstimator(member)), ("forest", forest)]
        return outer(members).fit(matrix(), labels())

    np.testing.assert_array_equal(
        around(model).predict(matrix()), around(pipeline()).predict(matrix())
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("predict_prob", "Did you mean 'predict_proba'"),
        ("predct", "Did you mean 'predict'"),
        ("feature_name", "Did you mean"),
        ("zzz", "'zzz'. Its methods are predict, predict_proba"),
    ],
)
def test_a_misspelt_method_meets_the_nearest(written, said):
    with pytest.raises(AttributeError, match=f"of LogisticRegression.*{said}"):
        getattr(converted(fit("linear")[-1]), written)


def test_a_misspelt_option_of_an_export_meets_the_nearest(tmp_path):
    with pytest.raises(OptionError, match=r"no option 'devce'\. Did you mean 'device'"):
        converted(pipeline()).export(tmp_path / "m.pt", devce="cpu")


def test_a_misspelt_option_of_a_target_meets_the_nearest():
    model = converted(pipeline())
    with pytest.raises(OptionError, match=r"Unknown option 'bakend'\. Did you mean 'backend'"):
        model.for_target(bakend="reference")
    with pytest.raises(OptionError, match=r"Unknown backend 'referense'\. Did you mean 'refer"):
        model.for_target(backend="referense")
