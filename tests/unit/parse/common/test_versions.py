"""What older versions of scikit-learn do, computed by their own formulas under the one at hand."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import sklearn.experimental.enable_iterative_imputer  # noqa: F401
from late import late
from sklearn.base import BaseEstimator
from sklearn.ensemble import AdaBoostClassifier
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import BayesianRidge, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import PowerTransformer, SplineTransformer
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

import hbconv
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.common import versions
from hbconv.parse.sklearn.neighbors import nearest
from hbconv.parse.sklearn.preprocessing import bins_and_polynomials

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture
def old(monkeypatch):
    """Read estimators as those of an older scikit-learn."""
    return lambda *version: monkeypatch.setattr(versions, "_installed", lambda: version)


def converted(estimator):
    return hbconv.convert(estimator, "reference")


def without_tags(cls, **attributes):
    """Make an estimator that has the dict of tags of 1.5 in place of an object."""

    def no_tags(self):
        raise AttributeError

    body = {"__sklearn_tags__": no_tags, "_get_tags": lambda self: {"allow_nan": True}}
    made = type(cls.__name__, (cls,), {**body, **attributes, "__module__": cls.__module__})
    return made()


def test_kinds_without_tags():
    assert versions.estimator_type(without_tags(SimpleImputer)) is None
    assert versions.estimator_type(object()) is None
    named = without_tags(BaseEstimator, _estimator_type="DensityEstimator")
    assert versions.estimator_type(named) == "density_estimator"


def test_what_is_taken_without_tags():
    assert versions.takes_nan(without_tags(KNNImputer))
    assert not versions.takes_sparse(without_tags(KNNImputer))
    assert versions.takes_sparse(without_tags(SimpleImputer))


def test_every_dense_estimator_is_one_today():
    """The table of 1.5 names no estimator that is not there, or that takes sparse rows now."""
    found = {
        name: getattr(late(f"sklearn.{module}"), name)
        for module, names in versions._DENSE_IN_1_5.items()
        for name in names.split()
    }
    sparse = {
        name
        for name, cls in found.items()
        if name != "SparseCoder" and get_tags(cls()).input_tags.sparse
    }
    taken_later = ("MultiTaskElasticNet", "MultiTaskElasticNetCV", "MultiTaskLasso")
    assert sparse == {*taken_later, "MultiTaskLassoCV"}


def test_statistics_have_the_dtype_of_fills_before_1_8(old):
    source = SimpleImputer(strategy="constant", fill_value=2).fit(X)
    source.statistics_ = source.statistics_.astype(np.float64)
    del source._fill_dtype
    with pytest.raises(ConversionError, match="no attribute '_fill_dtype'"):
        converted(source)
    old(1, 7)
    rows = np.where(X > 0, np.nan, X)
    assert np.array_equal(converted(source).transform(rows), np.where(X > 0, 2.0, X))


def test_splines_have_no_choice_before_1_8(monkeypatch):
    source = SplineTransformer().fit(X)
    expected = source.transform(X)
    source.handle_missing = None
    with pytest.raises(UnsupportedError, match="handle_missing"):
        converted(source)
    monkeypatch.setattr(bins_and_polynomials, "has_missing_policy", lambda _: False)
    assert np.allclose(converted(source).transform(X), expected)


@pytest.mark.parametrize("power", [0.0, 0.5, 2.0, 2.7])
def test_powers_of_power_transformer_before_1_9(old, power):
    source = PowerTransformer(standardize=False).fit(X)
    source.lambdas_ = np.full(3, power)
    old(1, 8)
    least = np.spacing(1.0)
    with np.errstate(invalid="ignore"):
        above = np.log1p(X) if power < least else ((X + 1) ** power - 1) / power
        below = (
            -np.log1p(-X)
            if abs(power - 2) <= least
            else -((1 - X) ** (2 - power) - 1) / (2 - power)
        )
    expected = np.where(X >= 0, above, below)
    assert np.allclose(converted(source).transform(X), expected, rtol=1e-15, atol=1e-300)


def test_deviations_are_not_centred_before_1_9(old):
    source = BayesianRidge().fit(X + 3, X[:, 0])
    old(1, 8)
    variance = ((X @ source.sigma_) * X).sum(axis=1) + 1 / source.alpha_
    model = converted(source)
    assert np.allclose(model.predict(X, return_std=True)[1], np.sqrt(variance), rtol=1e-12)


def test_centroids_have_no_priors_before_1_6(monkeypatch):
    source = NearestCentroid(priors=[0.01, 0.99]).fit(X, Y)
    monkeypatch.setattr(nearest, "has_priors", lambda _: False)
    model = converted(source)
    distances = np.linalg.norm(X[:, None] - source.centroids_, axis=2)
    assert np.array_equal(model.predict(X), distances.argmin(axis=1))
    assert model.methods == ("predict",)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("base", [None, DecisionTreeClassifier(max_depth=3), GaussianNB()])
def test_boosting_by_probabilities_before_1_6(old, base, classes):
    """As ``_samme_proba`` and ``decision_function`` of 1.5 are written."""
    y = np.digitize(X[:, 0], np.linspace(-0.5, 0.5, classes - 1))
    source = AdaBoostClassifier(base, n_estimators=5, random_state=0).fit(X, y)
    source.algorithm = "SAMME.R"
    source.estimator_weights_ = np.ones(len(source.estimators_))
    assert np.array_equal(converted(source).predict(X), source.predict(X))
    shares = []
    for member in source.estimators_:
        logs = np.log(np.clip(member.predict_proba(X), np.finfo(float).eps, None))
        shares.append((classes - 1) * (logs - (1.0 / classes) * logs.sum(axis=1)[:, np.newaxis]))
    scores = sum(shares) / len(shares)
    codes = scores.argmax(axis=1)
    if classes == 2:
        scores = scores[:, 1] - scores[:, 0]
        codes = (scores > 0).astype(int)
    old(1, 5)
    model = converted(source)
    assert np.allclose(model.decision_function(X), scores, rtol=1e-12, atol=1e-14)
    assert np.array_equal(model.predict(X), codes)
    *_, last = model.staged_decision_function(X)
    assert np.array_equal(last, model.decision_function(X))


def test_boosting_by_probabilities_needs_them(old):
    source = AdaBoostClassifier(RidgeClassifier(), n_estimators=3).fit(X, Y)
    source.algorithm = "SAMME.R"
    old(1, 5)
    with pytest.raises(UnsupportedError, match="no predict_proba"):
        converted(source)


def test_self_training_names_its_classifier_otherwise_before_1_6(old):
    source = SelfTrainingClassifier(LogisticRegression()).fit(X, np.where(X[:, 1] > 1, -1, Y))
    expected = source.predict_proba(X)
    source.base_estimator_ = source.estimator_
    del source.estimator_
    old(1, 5)
    assert np.allclose(converted(source).predict_proba(X), expected)


def unpickled(source, version, action):
    """Unpickle an estimator as another version left it."""
    state = source.__getstate__() | {"_sklearn_version": version}
    made = type(source).__new__(type(source))
    with warnings.catch_warnings():
        warnings.simplefilter(action, InconsistentVersionWarning)
        made.__setstate__(pickle.loads(pickle.dumps(state)))
    return made


def test_a_pickle_of_another_version_names_both():
    source = SimpleImputer().fit(X)
    del source._fill_dtype
    with pytest.raises(ConversionError) as caught:
        converted(unpickled(source, "1.7.2", "default"))
    said = str(caught.value)
    assert "was fitted by scikit-learn 1.7.2, and 1.9.1 is installed" in said
    assert "install scikit-learn==1.7.2 and convert it there" in said
    assert "damaged" not in said
