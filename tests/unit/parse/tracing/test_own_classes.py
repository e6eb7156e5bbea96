"""Transformers of users are traced through their ``transform``: right, or refused by name."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(9)
X = np.abs(RNG.normal(size=(120, 3))) * [1, 10, 100]
Y = X[:, 0] > 0.6
TABLE = pd.DataFrame(
    {
        "income": RNG.gamma(2, 2000, 120),
        "city": RNG.choice(["Oslo", "Rome", "Lima"], 120),
        "age": RNG.integers(18, 90, 120).astype(float),
    }
)


class Own(TransformerMixin, BaseEstimator):
    def fit(self, x, y=None):
        return self


class OutlierClipper(Own):
    def __init__(self, share=0.05):
        self.share = share

    def fit(self, x, y=None):
        self.low_, self.high_ = np.quantile(x, [self.share, 1 - self.share], axis=0)
        return self

    def transform(self, x):
        return np.clip(x, self.low_, self.high_)


class LogClipper(OutlierClipper):
    def transform(self, x):
        return np.log1p(super().transform(x))


class RatioAdder(Own):
    def __init__(self, pairs=((0, 1), (1, 2))):
        self.pairs = pairs

    def fit(self, x, y=None):
        self.n_columns_ = x.shape[1]
        return self

    def _ratio(self, x, i, j):
        return (x[:, i] / (x[:, j] + 1.0)).reshape(-1, 1)

    def transform(self, x):
        check_is_fitted(self)
        x = check_array(x)
        if x.shape[1] != self.n_columns_:
            raise ValueError("other columns")
        return np.hstack([x] + [self._ratio(x, i, j) for i, j in self.pairs])


class Weigher:
    """It has no base class at all."""

    factor = 2.0

    def fit(self, x, y=None):
        self.mean = x.mean(axis=0)
        return self

    @property
    def scale(self):
        return self.factor / (self.mean + 1)

    @staticmethod
    def squash(x):
        return np.tanh(x)

    def transform(self, x):
        return self.squash((x - self.mean) * self.scale)

    def fit_transform(self, x, y=None):
        return self.fit(x, y).transform(x)


class Validated(Own):
    def fit(self, x, y=None):
        validate_data(self, x)
        return self

    def transform(self, x):
        x = validate_data(self, x, reset=False, dtype=np.float64)
        return np.sqrt(np.abs(x))


class CityMean(Own):
    def fit(self, df, y=None):
        self.means_ = df.groupby("city")["income"].mean().to_dict()
        self.other_ = float(df["income"].mean())
        return self

    def transform(self, df):
        out = df.copy()
        out["mean"] = out["city"].map(self.means_).fillna(self.other_)
        out["relative"] = out["income"] / out["mean"]
        return out[["age", "mean", "relative"]]


class Selector(Own):
    def __init__(self, columns):
        self.columns = columns

    def transform(self, df):
        return df[self.columns]


class Holder(Own):
    def fit(self, x, y=None):
        self.inner_ = OutlierClipper().fit(x, y)
        return self

    def transform(self, x):
        return self.inner_.transform(x)


RIGHT: list[tuple[Any, Any]] = [
    *(
        (t, X)
        for t in (OutlierClipper(), LogClipper(0.1), RatioAdder(), Weigher(), Validated(), Holder())
    ),
    *((t, TABLE) for t in (CityMean(), Selector(["income", "age"]))),
]


@pytest.mark.parametrize("backend", ["reference", "tvm", "torch", "onnx"])
@pytest.mark.parametrize(("own", "rows"), RIGHT, ids=lambda v: type(v).__name__)
def test_an_own_transformer_is_its_method(own: Any, rows: Any, backend: str) -> None:
    source = make_pipeline(own, LogisticRegression(max_iter=500)).fit(rows, Y)
    model = hbconv.convert(source, backend, sample=rows[:5])
    for asked in (rows, rows[::-1][:7], rows[3:4]):
        want = source.predict_proba(asked)
        np.testing.assert_allclose(model.predict_proba(asked), want, rtol=1e-9)


def test_a_saved_model_needs_no_class(tmp_path: Any) -> None:
    source = make_pipeline(RatioAdder(), LogisticRegression(max_iter=500)).fit(X, Y)
    hbconv.convert(source, "reference", sample=X[:5]).save(tmp_path / "model.hbc")
    assert b"RatioAdder.transform" not in (tmp_path / "model.hbc").read_bytes()
    loaded = hbconv.load(tmp_path / "model.hbc")
    np.testing.assert_allclose(loaded.predict_proba(X), source.predict_proba(X), rtol=1e-9)


def test_checks_of_rows_stay() -> None:
    source = make_pipeline(RatioAdder(), LogisticRegression(max_iter=500)).fit(X, Y)
    model = hbconv.convert(source, "reference", sample=X[:5])
    wrong = X[:4].copy()
    wrong[2, 1] = np.nan
    with pytest.raises(InputError, match=r"NaN or infinity"):
        model.predict(wrong)


class Counter(Own):
    calls = 0

    def transform(self, x):
        self.calls += 1
        return x * self.calls


class Noisy(Own):
    def transform(self, x):
        return x + np.random.normal(size=x.shape)  # noqa: NPY002


class Centred(Own):
    def transform(self, x):
        return x - x.mean(axis=0)


class Clocked(Own):
    def __getattr__(self, name):
        if name == "bonus":
            return time.time()
        raise AttributeError(name)

    def transform(self, x):
        return x * self.bonus


class Framed(OneToOneFeatureMixin, Own):
    def fit(self, x, y=None):
        validate_data(self, x)
        return self

    def transform(self, x):
        return x * 2


class Writer(Holder):
    def transform(self, x):
        self.inner_.share = 1.0
        return self.inner_.transform(x)


class Refitting(Own):
    def transform(self, x):
        return StandardScaler().fit_transform(x)


class Sampling(Own):
    def fit(self, x, y=None):
        self.seen_ = pd.DataFrame(x)
        return self

    def transform(self, x):
        return x + self.seen_.sample(1).to_numpy()[0]


class Sparse(Own):
    def fit(self, x, y=None):
        self.encoder_ = OneHotEncoder().fit(x[:3])
        return self

    def transform(self, x):
        return self.encoder_.transform(x)


REFUSED = [
    (Counter(), "Line .* of transform writes self.calls"),
    (Noisy(), "numpy.random.normal, which is chance"),
    (Centred(), "along the rows"),
    (Clocked(), "no attribute 'bonus'"),
    (Framed().set_output(transform="pandas"), "differs from it"),
    (Writer(), "writes self.inner_.share"),
    (Refitting(), "makes an object of StandardScaler"),
    (Sampling(), "sample of a table"),
    (Sparse(), "refuses all rows"),
]


@pytest.mark.parametrize(("own", "why"), REFUSED, ids=lambda v: type(v).__name__)
def test_what_is_not_followed_is_refused_by_name(own: Any, why: str) -> None:
    name = type(own).__name__
    with pytest.raises(UnsupportedError, match=rf"{name} .*is not supported.*{why}"):
        hbconv.convert(own.fit(X, Y), "reference", sample=X[:5])
