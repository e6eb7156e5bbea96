"""Estimators of third parties: the example runs, and a parser that returns nonsense is told so."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.array import Array
from hbconv.containers import VECTOR, Affine, Labels, Output
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse import registry

EXAMPLE = Path(__file__).parents[2] / "examples" / "third_party.py"
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


class Counting(Halver):
    """A third party's transformer that only its own parser could read."""

    def transform(self, X):
        self.rows_ = len(X)
        return super().transform(X)


class Louder(LogisticRegression):
    """A subclass that changes nothing that matters."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        print("predicting", len(X), file=sys.stderr)
        return super().predict(X)


def test_the_example_answers_as_its_source_on_every_backend():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("The model answers as its source does.") == 5


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda _: None, r"parser of .*Halver returned None; it must return a Node"),
        (lambda _: {}, r"returned \{\}; it must return a Node"),
        (
            lambda step: {"transfrom": Output(step.x)},
            r"returned a method 'transfrom'; hbconv knows predict, .*transform",
        ),
        (
            lambda step: {"transform": step.x},
            r"returned Columns for transform; it must be an Output",
        ),
        (
            lambda step: {"predict": Output(step.x, VECTOR)},
            r"output predict is a vector of width 3",
        ),
        (
            lambda step: {"predict": Output(step.x, Labels(["a", "b"], vector=False))},
            r"has class labels of str, not of Array",
        ),
        (
            lambda step: {"predict": Output(step.x, Labels(Array(["a", "b"]), vector=False))},
            r"output predict has codes of dtype float64",
        ),
    ],
)
def test_a_parser_that_returns_nonsense(returned, message):
    hbconv.parses(f"{__name__}.Halver")(returned)
    with pytest.raises((ConversionError, hbconv.VerificationError), match=message):
        hbconv.convert(Halver().fit(X), backend="reference")


def test_a_name_that_is_not_the_class():
    hbconv.parses("elsewhere.Counting")(lambda step: Affine.of(step.x, div=2.0))
    with pytest.raises(
        UnsupportedError,
        match=r"parser of elsewhere.Counting is for another class than .*test_third_party.Counting",
    ):
        hbconv.convert(Counting().fit(X))


def test_a_subclass_is_read_like_its_base_where_its_author_says_so():
    model = make_pipeline(StandardScaler(), Louder()).fit(X, X[:, 0] > 0)
    with pytest.raises(
        UnsupportedError,
        match=r"predict uses sys.stderr.*step.like\('sklearn.linear_model.LogisticRegression'\)",
    ):
        hbconv.convert(model)
    hbconv.parses(f"{__name__}.Louder")(
        lambda step: step.like("sklearn.linear_model.LogisticRegression")
    )
    assert hbconv.verify(model, hbconv.convert(model, backend="reference"), X).ok


def test_nothing_is_like_an_estimator_that_is_unknown():
    hbconv.parses(f"{__name__}.Halver")(
        lambda step: step.like("sklearn.preprocessing.StandardScalar")
    )
    with pytest.raises(
        ConversionError,
        match=r"registered for 'sklearn.preprocessing.StandardScalar'. Did you mean 'sklearn.preprocessing.StandardScaler'",
    ):
        hbconv.convert(Halver().fit(X))
