"""A converted model inside another estimator counts as the model that it was made of."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import hbconv
from hbconv.errors import InputError, OptionError, UnsupportedError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
Y = (X[:, 0] + RNG.normal(size=90) > 0).astype(int)
TABLE = pd.DataFrame({"a": X[:, 0], "b": RNG.choice(["p", "q", "r"], 90), "c": X[:, 2]})
DOCS = ["red green", "green blue red", "green"] * 30


def converted(source):
    return hbconv.convert(source, "reference")


FOREST = converted(RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, Y))
ENCODE = ColumnTransformer(
    [("n", StandardScaler(), ["a", "c"]), ("c", OneHotEncoder(handle_unknown="ignore"), ["b"])]
)
MIXED = converted(make_pipeline(ENCODE, LogisticRegression()).fit(TABLE, Y))
SCALER = converted(StandardScaler().fit(X))
NAMED = converted(StandardScaler().fit(TABLE[["a", "c"]]))
TEXTS = converted(TfidfVectorizer().fit(DOCS))
LINEAR = LogisticRegression().fit(X, Y)
SPARSE = scipy.sparse.csr_matrix(np.round(X))
BOOSTED = converted(lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(X, Y))
HOLES = TABLE.assign(b=TABLE["b"].where(TABLE.index > 5), c=TABLE["c"].round())

AROUND = {
    "itself": (lambda: FOREST, X),
    "frozen": (lambda: FrozenEstimator(FOREST), X),
    "threshold": (lambda: TunedThresholdClassifierCV(FrozenEstimator(FOREST), cv=2).fit(X, Y), X),
    "calibrated": (lambda: CalibratedClassifierCV(FrozenEstimator(MIXED)).fit(TABLE, Y), HOLES),
    "first": (lambda: Pipeline([("s", SCALER), ("l", LINEAR)]), X.astype(np.float32)),
    "last": (lambda: Pipeline([("s", StandardScaler().fit(X)), ("m", FOREST)]), X),
    "boosted": (lambda: Pipeline([("s", StandardScaler().fit(X)), ("m", BOOSTED)]), X),
    "transformer": (lambda: Pipeline([("s", SCALER)]), X),
    "sparse": (lambda: FrozenEstimator(converted(LogisticRegression().fit(SPARSE, Y))), SPARSE),
    "texts": (
        lambda: Pipeline([("t", TEXTS), ("l", LogisticRegression().fit(TEXTS.transform(DOCS), Y))]),
        DOCS,
    ),
    "stack": (
        lambda: StackingClassifier([("a", FOREST), ("b", LINEAR)], cv="prefit").fit(X, Y),
        X,
    ),
    "columns": (
        lambda: ColumnTransformer([("m", FrozenEstimator(NAMED), ["a", "c"])]).fit(TABLE),
        TABLE,
    ),
}


@pytest.mark.parametrize("place", AROUND)
def test_its_graph_is_taken(place):
    make, rows = AROUND[place]
    source = make()
    model = converted(source)
    for method in ("predict", "predict_proba", "decision_function", "transform"):
        assert hasattr(model, method) == hasattr(source, method)
        if hasattr(source, method):
            answer, own = getattr(model, method)(rows), getattr(source, method)(rows)
            np.testing.assert_allclose(answer, own, rtol=1e-12, atol=1e-14)


def test_its_inverse_is_taken():
    source = Pipeline([("s", SCALER)])
    rows = source.transform(X)
    model = converted(source)
    np.testing.assert_array_equal(model.inverse_transform(rows), source.inverse_transform(rows))


def test_rows_that_it_refuses_are_refused():
    model = converted(Pipeline([("m", converted(LINEAR))]))
    with pytest.raises(InputError, match="NaN"):
        model.predict(np.where(X > 1, np.nan, X))


def test_it_has_one_set_of_iterations():
    with pytest.raises(OptionError, match="iterations"):
        hbconv.convert(BOOSTED, "reference", iterations=(0, 1))


def behind(step, model):
    return Pipeline([("s", step), ("m", model)])


def test_rows_that_another_step_reads_otherwise():
    """LightGBM's categories are values of a table, and its ints are floats."""
    table = TABLE.assign(b=TABLE["b"].astype("category"))
    boosted = converted(lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(table, Y))
    whole = OrdinalEncoder(dtype=np.int64).fit(TABLE)
    for model in (boosted, BOOSTED):
        with pytest.raises(UnsupportedError, match=r"m/Model.*a converted model.*Convert the est"):
            converted(behind(whole, model))
    with pytest.raises(UnsupportedError, match=r"m/Model.*reads texts or categories"):
        converted(behind(whole, MIXED))
