"""Classes that stand in the place of a library's, as sklearnex, cuml.accel and mocks put them."""

from __future__ import annotations

import functools
import importlib
import pickle
from unittest import mock

import catboost
import lightgbm
import numpy as np
import pytest
import scipy.special
import sklearn.experimental.enable_iterative_imputer
import sklearn.linear_model
import sklearn.metrics
import sklearn.neighbors
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.svm
import xgboost
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import FeatureAgglomeration
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import GradientBoostingRegressor, StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

import hbconv
from hbconv.errors import UnsupportedError
from hbconv.parse import registry
from hbconv.parse.registry import UNPREDICTIVE, find_parser, parser_names

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)
METRIC = sklearn.metrics.DistanceMetric.get_metric("manhattan")
PLACES = {
    "sklearn.linear_model": ("LinearRegression", "LogisticRegression"),
    "sklearn.metrics": ("DistanceMetric",),
    "sklearn.neighbors": ("KNeighborsRegressor",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("StandardScaler",),
    "sklearn.svm": ("SVC",),
    "catboost": ("CatBoostRegressor",),
    "lightgbm": ("LGBMRegressor",),
    "xgboost": ("XGBRegressor",),
}


def stand_in(base, module=__name__):
    """Return a subclass that answers otherwise, as sklearnex has of each class."""

    def predict(self, X):
        return 1 - base.predict(self, X)

    names = {"predict": predict, "transform": predict}
    own = {name: made for name, made in names.items() if hasattr(base, name)}
    return type(base.__name__, (base,), {"__module__": module, **own})


@pytest.fixture
def patched(monkeypatch):
    """Put stand-ins in the place of classes, as a patch of a whole library does."""
    monkeypatch.setattr(registry, "_FOUND", {})
    for module, names in PLACES.items():
        there = importlib.import_module(module)
        for name in names:
            base = getattr(there, name)
            made = stand_in(base) if base.__flags__ & 1 << 10 else mock.Mock()
            monkeypatch.setattr(there, name, made)


PLAIN = {
    "svc": SVC().fit(X, Y),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y),
    "grid": GridSearchCV(SVC(), {"C": [1.0]}, cv=2).fit(X, Y),
    "frozen": FrozenEstimator(LinearRegression().fit(X, Y)),
    "neighbours": KNeighborsRegressor(metric=METRIC, algorithm="brute").fit(X, Y),
    "catboost": catboost.CatBoostRegressor(
        n_estimators=2, silent=True, allow_writing_files=False
    ).fit(X, Y),
    "lightgbm": lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, Y),
    "xgboost": xgboost.XGBRegressor(n_estimators=2).fit(X, Y),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_model_converts_where_classes_are_replaced(patched, name):
    """As it was made, and as it comes out of a file."""
    source = PLAIN[name]
    for model in (source, pickle.loads(pickle.dumps(source)) if name == "svc" else source):
        answer = hbconv.convert(model, "reference").predict(X)
        np.testing.assert_allclose(answer, source.predict(X), rtol=1e-6)


def test_every_class_is_known_by_its_own_name(monkeypatch):
    """Nothing of any library stands where it did, and each class is still found."""
    monkeypatch.setattr(registry, "_FOUND", {})
    places = [name.rpartition(".")[::2] for name in (*parser_names(), *UNPREDICTIVE)]
    for module, _ in places:
        importlib.import_module(module)
    classes = {}
    for module, attribute in places:
        there = importlib.import_module(module)
        classes[f"{module}.{attribute}"] = getattr(there, attribute)
        monkeypatch.setitem(vars(there), attribute, None)
    found = {name: registry._search(classes[name], "") for name in parser_names()}
    assert {name: entry.name for name, entry in found.items()} == {name: name for name in found}
    for name in UNPREDICTIVE:
        with pytest.raises(UnsupportedError, match="predicts no new row on its own"):
            find_parser(object.__new__(classes[name]))


INSIDE = {
    "alone": lambda made: made,
    "pipeline": lambda made: Pipeline([("a", StandardScaler()), ("b", made)]),
    "grid": lambda made: GridSearchCV(made, {"C": [1.0]}, cv=2),
    "stack": lambda made: StackingClassifier([("a", made)], cv=2),
    "calibrated": lambda made: CalibratedClassifierCV(made, cv=2),
}


@pytest.mark.parametrize("place", INSIDE)
def test_a_replacement_is_refused_by_name(patched, place):
    """sklearn.svm.SVC is no longer the class that scikit-learn defined."""
    source = INSIDE[place](sklearn.svm.SVC()).fit(X, Y)
    with pytest.raises(UnsupportedError, match=r"SVC.*in the place of sklearn.svm.SVC. Undo that"):
        hbconv.convert(source, "reference")


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("sklearnex.svm._classes", r"SVC.*overrides predict.*sklearnex.unpatch_sklearn\(\)"),
        ("daal4py.sklearn.svm", r"SVC.*sklearnex.unpatch_sklearn\(\)"),
        ("cuml.svm.svc", r"SVC.*of cuML.*without cuml.accel"),
        ("sklearn.svm._classes", "SVC.*overrides predict"),
    ],
)
def test_a_replacement_of_a_known_library_has_its_way_out(monkeypatch, module, says):
    """The last takes the name of its base, in all that it says of itself."""
    made = stand_in(SVC, module)
    monkeypatch.setattr(sklearn.svm, "SVC", made)
    with pytest.raises(UnsupportedError, match=says):
        hbconv.convert(made().fit(X, Y), "reference")


def test_a_mock_is_refused_as_one():
    with pytest.raises(UnsupportedError, match=r"MagicMock.*Convert the fitted estimator"):
        hbconv.convert(mock.MagicMock(spec=["predict"]), "reference")


def test_a_subclass_of_another_library_that_changes_fitting_alone_is_read():
    made = type("SVC", (SVC,), {"__module__": "sklearnex.svm", "fit": lambda s, x, y: s.go(x, y)})
    made.go = SVC.fit
    source = made().fit(X, Y)
    assert (hbconv.convert(source, "reference").predict(X) == source.predict(X)).all()


def test_a_proxy_that_takes_the_name_of_a_class_is_refused():
    """As those of cuml.accel do: they hold an estimator, and wrap its methods."""

    class Proxy(BaseEstimator):
        def fit(self, X, y):
            return self

        @functools.wraps(SVC.predict)
        def predict(self, X):
            return 1 - self.held.predict(X)

    Proxy.__name__ = Proxy.__qualname__ = "SVC"
    Proxy.__module__ = "sklearn.svm"
    proxy = Proxy()
    proxy.held = PLAIN["svc"]
    vars(proxy).update(vars(PLAIN["svc"]))
    with pytest.raises(
        UnsupportedError, match=r"SVC.*predict is a method of (tests|test_replaced_classes)"
    ):
        hbconv.convert(proxy, "reference")


@pytest.mark.parametrize("made", [lambda self, X: 1 - Y, mock.MagicMock()], ids=["own", "mock"])
@pytest.mark.parametrize("name", ["svc", "grid", "lightgbm"])
def test_methods_replaced_on_a_class(monkeypatch, name, made):
    """A class that was read before is asked again."""
    source = PLAIN[name]
    hbconv.convert(source, "reference")
    cls = type(getattr(source, "best_estimator_", source))
    monkeypatch.setattr(cls, "predict", made)
    with pytest.raises(
        UnsupportedError, match=r"predict is a method of (tests|test_replaced_classes|unittest)"
    ):
        hbconv.convert(source, "reference")


def test_methods_that_mlflow_watches_are_read(monkeypatch):
    """Autologging wraps them, and returns what they returned."""
    scope = {"__name__": "mlflow.utils.autologging_utils.safety", "original": SVC.predict}
    exec("def watched(self, X): return original(self, X)", scope)
    monkeypatch.setattr(SVC, "predict", scope["watched"])
    source = PLAIN["svc"]
    assert (hbconv.convert(source, "reference").predict(X) == source.predict(X)).all()


def test_a_first_estimator_of_boosting_is_known_by_its_class():
    """A class of the same name may say something else of each row."""

    class Steep(LinearRegression):
        strategy = "mean"

    Steep.__name__ = Steep.__qualname__ = "DummyRegressor"
    source = GradientBoostingRegressor(n_estimators=2, init=Steep()).fit(X, X[:, 0])
    model = hbconv.convert(source, "reference")
    np.testing.assert_allclose(model.predict(X), source.predict(X), rtol=1e-12)
    plain = GradientBoostingRegressor(n_estimators=2, init=DummyRegressor()).fit(X, X[:, 0])
    model = hbconv.convert(plain, "reference")
    np.testing.assert_allclose(model.predict(X), plain.predict(X), rtol=1e-12)


def test_functions_of_numpy_are_known_where_others_stand_in_their_place(monkeypatch):
    function = FunctionTransformer(np.square).fit(X)
    pooled = FeatureAgglomeration(pooling_func=np.max).fit(X)
    for name in ("square", "max"):
        monkeypatch.setattr(np, name, mock.Mock())
    for source in (function, pooled):
        answer = hbconv.convert(source, "reference").transform(X)
        np.testing.assert_allclose(answer, source.transform(X), rtol=1e-12)


@pytest.mark.parametrize("func", [scipy.special.log1p, scipy.special.expm1])
def test_a_function_of_scipy_is_not_numpy_s_of_that_name(func):
    """It computes int16 in float64, where numpy's computes it in float32."""
    with pytest.raises(UnsupportedError, match=rf"func=<ufunc '{func.__name__}'>"):
        hbconv.convert(FunctionTransformer(func).fit(X), "reference")
