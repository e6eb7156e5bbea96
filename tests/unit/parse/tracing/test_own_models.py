"""Models of users, and subclasses that override one method: traced, or refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, LabelEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(12)
X = RNG.normal(size=(150, 3)) * [1, 5, 20]
Y = np.where(X[:, 0] + X[:, 1] / 5 > 0.3, "yes", "no")
AMOUNTS = X @ [1.0, 2.0, 0.5] + 3


class Own(ClassifierMixin, BaseEstimator):
    """A score of each class, in plain numpy."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([x[y == c].mean(axis=0) for c in self.classes_])
        return self

    def decision_function(self, x):
        return np.column_stack([-((x - mean) ** 2).sum(axis=1) for mean in self.means_])

    def predict_proba(self, x):
        scores = np.exp(self.decision_function(x) / 100)
        return scores / scores.sum(axis=1, keepdims=True)

    def predict(self, x):
        return self.classes_[np.argmax(self.decision_function(x), axis=1)]


class Numbered(Own):
    def fit(self, x, y):
        return super().fit(x, (y == "yes").astype(int) * 3 + 2)


class Cut(Own):
    """It holds two estimators, and chooses labels at a threshold."""

    def fit(self, x, y):
        self.scaler_ = StandardScaler().fit(x)
        self.model_ = LogisticRegression().fit(self.scaler_.transform(x), y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, x):
        return self.model_.predict_proba(self.scaler_.transform(x))

    def predict(self, x):
        return np.where(self.predict_proba(x)[:, 1] > 0.3, "yes", "no")

    decision_function = None


class Encoded(Own):
    def fit(self, x, y):
        self.encoder_ = LabelEncoder().fit(y)
        self.classes_ = self.encoder_.classes_
        self.tree_ = DecisionTreeClassifier(max_depth=3).fit(x, self.encoder_.transform(y))
        return self

    def predict(self, x):
        return self.encoder_.inverse_transform(self.tree_.predict(x))

    predict_proba = decision_function = None


class Graded(Own):
    def predict(self, x):
        size = np.abs(x[:, 2])
        grade = np.select([size < 5, size > 30], ["low", "high"], default="middle")
        return np.where(grade == "low", "low", np.where(x[:, 0] > 0, "high", "middle"))

    predict_proba = decision_function = None


class Smoothed(LogisticRegression):
    def predict_proba(self, x):
        return 0.9 * super().predict_proba(x) + 0.05


class Positive(Ridge):
    def predict(self, x):
        return np.maximum(super().predict(x), 0.0)


METHODS = ("predict", "predict_proba", "decision_function")
RIGHT = [(own, Y) for own in (Own(), Numbered(), Cut(), Encoded(), Graded(), Smoothed())]


@pytest.mark.parametrize("backend", ["reference", "tvm", "torch", "onnx"])
@pytest.mark.parametrize(
    ("own", "y"), [*RIGHT, (Positive(), AMOUNTS)], ids=lambda v: type(v).__name__
)
def test_an_own_model_is_its_methods(own: Any, y: Any, backend: str) -> None:
    source = make_pipeline(StandardScaler(), own).fit(X, y)
    model = hbconv.convert(source, backend)
    for method in METHODS:
        if getattr(own, method, None) is None:
            continue
        for rows in (X, X[::-1][:7], X[3:4]):
            want, got = getattr(source, method)(rows), getattr(model, method)(rows)
            assert got.shape == want.shape
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
            else:
                assert got.dtype == want.dtype
                assert got.tolist() == want.tolist()


def test_labels_are_those_of_the_model(tmp_path: Any) -> None:
    source = Numbered().fit(X, Y)
    model = hbconv.convert(source, "reference", sample=X[:5])
    assert model.parsed.outputs["predict"].classes.data.tolist() == [2, 5]
    model.save(tmp_path / "own.hbc")
    loaded = hbconv.load(tmp_path / "own.hbc")
    assert loaded.predict(X).tolist() == source.predict(X).tolist()


class Drifting(Own):
    def predict_proba(self, x):
        return x - x.mean(axis=0)


def test_a_refused_method_leaves_the_others() -> None:
    source = Drifting().fit(X, Y)
    model = hbconv.convert(source, "reference", sample=X[:5])
    assert model.predict(X).tolist() == source.predict(X).tolist()
    assert "predict_proba" not in model.methods
    assert "along the rows" in model.parsed.refused["predict_proba"]


class Flipped(LogisticRegression):
    def decision_function(self, x):
        return -super().decision_function(x)


def test_what_names_a_method_that_is_changed_is_not_taken_from_the_base() -> None:
    source = Flipped().fit(X, Y)
    model = hbconv.convert(source, "reference")
    np.testing.assert_allclose(model.decision_function(X), source.decision_function(X), rtol=1e-9)
    # predict and predict_proba of LogisticRegression name decision_function.
    assert model.methods == ("decision_function",)


class Halved(LogisticRegression):
    def predict_proba(self, x):
        return super().predict_proba(x) / 2

    def decision_function(self, x):
        return super().decision_function(x) / 2


def test_super_is_refused_where_it_calls_what_is_changed() -> None:
    model = hbconv.convert(Halved().fit(X, Y), "reference")
    refusal = model.parsed.refused["predict_proba"]
    assert "calls predict_proba, which calls decision_function of the class" in refusal


class Tabled(TransformerMixin, BaseEstimator):
    def fit(self, x, y=None):
        self.table_ = np.array([10.0, 20.0, 40.0])
        return self

    def transform(self, x):
        return self.table_[np.floor(x[:, :2]).astype(int)]


def test_a_place_outside_of_a_table_is_refused_by_row() -> None:
    source = Tabled().fit(X)
    model = hbconv.convert(source, "reference", sample=X[:5])
    rows = np.array([[0.5, 2.9, 0.0], [1.0, 1.5, 7.0]])
    assert model.transform(rows).tolist() == source.transform(rows).tolist()
    with pytest.raises(InputError, match="outside of a constant array"):
        model.transform(np.array([[0.5, 3.0, 0.0]]))


class OfFrames(Own):
    def fit(self, df, y):
        self.medians_ = df[["income", "age"]].median()
        self.prior_ = df.groupby("city")["income"].mean()
        self.classes_ = np.unique(y)
        self.model_ = LogisticRegression().fit(self._made(df), y)
        return self

    def _made(self, df):
        numbers = df[["income", "age"]].fillna(self.medians_) / self.medians_
        city = df["city"].map(self.prior_).fillna(0.0) / 5_000
        return np.column_stack([numbers.to_numpy(), city.to_numpy()])

    def predict_proba(self, df):
        return self.model_.predict_proba(self._made(df))

    def predict(self, df):
        return np.where(self.predict_proba(df)[:, 1] > 0.4, "yes", "no")

    decision_function = None


def _frame(n_rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(n_rows)
    income = np.where(rng.random(n_rows) < 0.1, np.nan, rng.gamma(2, 2_000, n_rows))
    city = rng.choice(["Oslo", "Rome", "Lima"], n_rows)
    return pd.DataFrame({"income": income, "age": rng.uniform(18, 90, n_rows), "city": city})


def test_an_own_model_of_frames() -> None:
    table = _frame(150)
    source = OfFrames().fit(table, Y)
    model = hbconv.convert(source, "reference", sample=table[:5])
    fresh = _frame(40).replace({"city": {"Rome": "Paris"}})
    assert model.predict(fresh).tolist() == source.predict(fresh).tolist()
    np.testing.assert_allclose(model.predict_proba(fresh), source.predict_proba(fresh), rtol=1e-9)


def _ratio(df):
    return df.assign(ratio=df["n__income"] / (df["n__age"] + 10))


def _steps() -> list[Any]:
    scaled = ColumnTransformer([("n", StandardScaler(), ["income", "age"])])
    return [scaled.set_output(transform="pandas"), LogisticRegression()]


def test_a_table_that_a_step_makes_is_followed_by_its_names() -> None:
    table = _frame(150).fillna({"income": 0.0})
    scaled, last = _steps()
    source = make_pipeline(scaled, FunctionTransformer(_ratio), last).fit(table, Y)
    model = hbconv.convert(source, "reference")
    np.testing.assert_allclose(model.predict_proba(table), source.predict_proba(table), rtol=1e-9)


def test_the_rest_of_a_pipeline_has_the_names_of_the_table_that_it_reads() -> None:
    table = _frame(150).fillna({"income": 0.0})
    scaled, last = _steps()
    first = FunctionTransformer(lambda df: df.assign(income=df["income"] - df["income"].mean()))
    source = make_pipeline(make_pipeline(first, scaled), last).fit(table, Y)
    offer = r"hbconv.convert\(pipeline\[1:\]\), and give it what pipeline\[:1\].transform"
    with pytest.raises(UnsupportedError, match=offer):
        hbconv.convert(source, "reference")
    rest = hbconv.convert(source[1:], "reference")
    assert list(rest.feature_names_in_) == ["n__income", "n__age"]
    got = rest.predict_proba(source[:1].transform(table))
    np.testing.assert_allclose(got, source.predict_proba(table), rtol=1e-12)
