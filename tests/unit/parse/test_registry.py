"""Finding parsers: subclasses, plugins, and what is refused."""

import functools
import importlib.metadata
import sys
from types import SimpleNamespace
from typing import ClassVar

import lightgbm
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import hbconv
from hbconv.containers import Affine
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse import registry
from hbconv.parse.registry import find_parser, parses

X = np.random.default_rng(0).normal(size=(50, 3))


@pytest.fixture(autouse=True)
def registry_of_this_test(monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    monkeypatch.setattr(registry, "_FOUND", {})


class Halver(TransformerMixin, BaseEstimator):
    """A third party's transformer."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X / 2


class Guesser(BaseEstimator):
    """A third party's model, whose method is that of no function."""

    n_features_in_ = 3

    predict = staticmethod(min)


class Scaled(BaseEstimator):
    """A third party's transformer with a helper."""

    def transform(self, X):
        return X / self._factor()

    def _factor(self):
        return 2


class ScaledOtherwise(Scaled):
    """A subclass in the same package that changes the helper."""

    def _factor(self):
        return 3


class SameScaler(StandardScaler):
    """A subclass that changes nothing."""


class OtherScaler(StandardScaler):
    """A subclass that changes the answer."""

    def transform(self, X, copy=None):
        return super().transform(X, copy) + 1


class HookedScaler(StandardScaler):
    """A subclass that changes what a private hook computes."""

    def _reset(self):
        super()._reset()


class FittedOtherwise(LogisticRegression):
    """A subclass that changes fitting alone."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight)

    def score(self, X, y, sample_weight=None):
        return 1.0

    def __repr__(self, N_CHAR_MAX=700):
        return "FittedOtherwise()"


class RenamedScaler(StandardScaler):
    """A subclass whose method is an object that is no function."""

    transform = functools.partial(np.multiply, 2.0)


class OtherMachine(SVC):
    """A subclass that changes a plain attribute, which predict reads."""

    _impl = "nu_svc"


class Substituted(StandardScaler):
    """A subclass that looks all attributes up in a way of its own."""

    def __getattribute__(self, name):
        return super().__getattribute__(name)


class Scored(GaussianNB):
    """A subclass with a method that its base lacks."""

    def decision_function(self, X):
        return X[:, 1]


class Constrained(GaussianNB):
    """A subclass that says less of its parameters."""

    _parameter_constraints: ClassVar = {}
    own = 3

    def __init__(self, own_parameter=1):
        super().__init__()
        self.own_parameter = own_parameter


def parse_halver(step):
    return Affine.of(step.require_finite(), div=2.0)


def test_a_third_party_registers_by_decorator():
    with pytest.raises(UnsupportedError, match=r"has no parser for .*Guesser.*hbconv.parses"):
        hbconv.convert(Guesser(), backend="reference")
    hbconv.parses(f"{__name__}.Halver")(parse_halver)
    assert find_parser(Halver().fit(X)).parse is parse_halver
    pipeline = make_pipeline(Halver(), LogisticRegression()).fit(X, X[:, 0] > 0)
    np.testing.assert_allclose(
        hbconv.convert(pipeline, backend="reference").predict_proba(X),
        pipeline.predict_proba(X),
        rtol=1e-12,
    )


def test_a_third_party_registers_by_entry_point(monkeypatch):
    monkeypatch.setitem(sys.modules, "third_party", SimpleNamespace(Halver=Halver))
    point = SimpleNamespace(load=lambda: parses("third_party.Halver")(parse_halver))
    monkeypatch.setattr(
        importlib.metadata,
        "entry_points",
        lambda group: [point] if group == "hbconv.parsers" else [],
    )
    assert find_parser(Halver().fit(X)).name == "third_party.Halver"


def plugin(name, load):
    return SimpleNamespace(name=name, value=f"{name}.hb", load=load)


def fail():
    raise ModuleNotFoundError("No module named 'broken.hb'")


def test_a_plugin_that_does_not_load_is_named(monkeypatch):
    """It is no damage of the model, and keeps no other plugin from loading."""
    points = [plugin("broken", fail)]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    source = make_pipeline(Halver(), LogisticRegression()).fit(X, X[:, 0] > 0)
    with pytest.raises(UnsupportedError, match=r"Halver.*broken.hb \(ModuleNotFoundError: No") as e:
        hbconv.convert(source, "reference")
    assert "damaged" not in str(e.value)
    with pytest.raises(ConversionError, match="int is not an estimator"):
        hbconv.convert(3)
    points.append(plugin("whole", lambda: parses(f"{__name__}.Halver")(parse_halver)))
    assert hbconv.convert(source, "reference").predict(X).shape == (50,)


def test_libraries_that_are_not_read_have_their_own_way_out():
    """And not the advice to register the name that a class of one's own has."""
    made = type("StackingClassifier", (Halver,), {"__module__": "mlxtend.classifier"})
    with pytest.raises(UnsupportedError, match=r"of mlxtend.*scikit-learn's StackingClass") as e:
        hbconv.convert(made().fit(X))
    assert "hbconv.parses" not in str(e.value)


@pytest.mark.parametrize(
    ("module", "way_out"),
    [("lightgbm.dask", r"its to_local\(\)"), ("xgboost.dask", r"its get_booster\(\)")],
)
def test_estimators_of_clusters_name_what_is_read(module, way_out):
    made = type(
        "Regressor", (StandardScaler,), {"__module__": module, "transform": Halver.transform}
    )
    with pytest.raises(UnsupportedError, match=rf"overrides transform.*{way_out}") as e:
        hbconv.convert(made().fit(X))
    assert "hbconv.parses" not in str(e.value)


def test_a_booster_of_folds_names_those_it_holds():
    """It answers every name by its boosters."""
    folds = lightgbm.CVBooster()
    with pytest.raises(UnsupportedError, match=r"CVBooster.*one of its .boosters"):
        hbconv.convert(folds)


def test_a_class_of_a_name_that_is_read_elsewhere():
    own = type("StandardScaler", (Guesser,), {})
    with pytest.raises(UnsupportedError, match=r"Near it.*sklearn.preprocessing.StandardScaler\."):
        hbconv.convert(own())
    parses("elsewhere.Guesser")(parse_halver)
    with pytest.raises(UnsupportedError, match=r"parser of elsewhere.Guesser.*give hbconv.parses"):
        hbconv.convert(Guesser())


def test_a_name_has_one_parser():
    with pytest.raises(
        ValueError, match=r"sklearn.preprocessing.StandardScaler already has a parser"
    ):
        parses("sklearn.preprocessing.StandardScaler")(parse_halver)


def test_a_subclass_counts_as_its_base_while_it_keeps_the_methods():
    assert find_parser(SameScaler().fit(X)).name == "sklearn.preprocessing.StandardScaler"
    source = OtherScaler().fit(X)
    model = hbconv.convert(source, "reference")
    np.testing.assert_allclose(model.transform(X), source.transform(X), rtol=1e-12)


def test_a_subclass_that_overrides_a_private_hook_is_refused():
    with pytest.raises(
        UnsupportedError, match=r"HookedScaler.*overrides _reset of StandardScaler.*hbconv.parses"
    ):
        find_parser(HookedScaler().fit(X))


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (RenamedScaler(), "overrides transform of StandardScaler"),
        (OtherMachine(), "overrides _impl of SVC"),
        (Substituted(), "overrides __getattribute__ of StandardScaler"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_whose_body_may_change_answers_is_refused(source, what):
    with pytest.raises(UnsupportedError, match=rf"{type(source).__name__}.*{what}"):
        find_parser(source)


def test_an_estimator_around_a_subclass_would_ask_for_what_it_adds():
    """The source calibrates the decision_function that the base lacks."""
    labels = X[:, 0] > 0
    source = CalibratedClassifierCV(Scored(), ensemble=False).fit(X, labels)
    plain = CalibratedClassifierCV(GaussianNB(), ensemble=False).fit(X, labels)
    assert not np.allclose(source.predict_proba(X), plain.predict_proba(X))
    model = hbconv.convert(source, "reference")
    np.testing.assert_allclose(model.predict_proba(X), source.predict_proba(X), rtol=1e-12)


def test_a_subclass_in_the_package_of_its_base_is_held_to_its_helpers():
    """The package of a registered class is not one that hbconv knows."""
    parses(f"{__name__}.Scaled")(lambda step: Affine.of(step.x, div=2.0))
    assert find_parser(Scaled()).name == f"{__name__}.Scaled"
    with pytest.raises(UnsupportedError, match="overrides _factor of Scaled"):
        find_parser(ScaledOtherwise())


def test_a_subclass_may_have_parameters_and_attributes_of_its_own():
    source = Constrained().fit(X, X[:, 0] > 0)
    model = hbconv.convert(source, "reference")
    np.testing.assert_allclose(model.predict_proba(X), source.predict_proba(X), rtol=1e-12)


def test_a_subclass_may_change_how_it_is_fitted():
    assert (
        find_parser(FittedOtherwise().fit(X, X[:, 0] > 0)).name
        == "sklearn.linear_model.LogisticRegression"
    )


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        (StandardScaler, "is a class"),
        (3, "not an estimator"),
        ("model.txt", "No file"),
        ("model.csv", "No file model.csv"),
        (None, "not an estimator"),
    ],
)
def test_what_is_no_estimator_is_refused(thing, why):
    with pytest.raises(ConversionError, match=why):
        hbconv.convert(thing)
