"""Finding parsers: subclasses, plugins, and what is refused."""

import importlib.metadata
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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


def parse_halver(step):
    return Affine.of(step.require_finite(), div=2.0)


def test_a_third_party_registers_by_decorator():
    with pytest.raises(UnsupportedError, match=r"has no parser for .*Halver.*hbconv.parses"):
        hbconv.convert(Halver().fit(X), backend="reference")
    hbconv.parses(f"{__name__}.Halver")(parse_halver)
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


def test_a_name_has_one_parser():
    with pytest.raises(
        ValueError, match=r"sklearn.preprocessing.StandardScaler already has a parser"
    ):
        parses("sklearn.preprocessing.StandardScaler")(parse_halver)


def test_a_subclass_counts_as_its_base_while_it_keeps_the_methods():
    assert find_parser(SameScaler().fit(X)).name == "sklearn.preprocessing.StandardScaler"
    with pytest.raises(
        UnsupportedError, match=r"OtherScaler.*overrides transform of StandardScaler"
    ):
        find_parser(OtherScaler().fit(X))


def test_a_subclass_that_overrides_a_private_hook_is_refused():
    with pytest.raises(
        UnsupportedError, match=r"HookedScaler.*overrides _reset of StandardScaler.*hbconv.parses"
    ):
        find_parser(HookedScaler().fit(X))


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
        ("model.csv", "and this is model.csv"),
        (None, "not an estimator"),
    ],
)
def test_what_is_no_estimator_is_refused(thing, why):
    with pytest.raises(ConversionError, match=why):
        hbconv.convert(thing)
