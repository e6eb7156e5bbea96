"""Names of the values of answers: what a model, its file, tables and a server call them."""

from __future__ import annotations

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import hbconv
from hbconv.engines.scorer import column_names
from hbconv.errors import OptionError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(size=90),
        "city": RNG.choice(["Rome", "Oslo"], 90),
        "x": RNG.normal(size=90),
    }
)
NUMBERS = FRAME[["age", "x"]]
BINARY, LABELS = RNG.integers(0, 2, 90), RNG.choice(["a", "b", "c"], 90)
READ = ["age", "x", "city_Oslo", "city_Rome"]
FOREST = RandomForestClassifier(3, max_depth=3, random_state=0)


def prepared(last):
    steps = (StandardScaler(), ["age", "x"]), (OneHotEncoder(sparse_output=False), ["city"])
    return make_pipeline(make_column_transformer(*steps, verbose_feature_names_out=False), last)


def converted(source, rows, labels):
    return hbconv.convert(clone(source).fit(rows, labels), backend="reference")


BOOSTED = xgboost.XGBClassifier(n_estimators=3, max_depth=3)
LEAVES = lightgbm.LGBMClassifier(n_estimators=3, verbosity=-1)
ALONE = [*READ, "expected value"]
OF_CLASSES = [f"{label}_{name}" for label in "abc" for name in ALONE]


@pytest.mark.parametrize(
    ("source", "rows", "labels", "names"),
    [
        (prepared(BOOSTED), FRAME, BINARY, ALONE),
        (prepared(LEAVES), FRAME, BINARY, ALONE),
        (prepared(LEAVES), FRAME, LABELS, OF_CLASSES),
        (prepared(FOREST), FRAME, LABELS, OF_CLASSES),
        (GridSearchCV(prepared(BOOSTED), {}, cv=2), FRAME, BINARY, ALONE),
        (BOOSTED, NUMBERS, BINARY, ["age", "x", "expected value"]),
        (BOOSTED, NUMBERS.to_numpy(), BINARY, ["x0", "x1", "expected value"]),
        (
            RFE(BOOSTED, n_features_to_select=1),
            NUMBERS.assign(x=BINARY + 0.0),
            BINARY,
            ["x", "expected value"],
        ),
        (
            StackingClassifier([("one", BOOSTED)], BOOSTED, cv=2),
            NUMBERS,
            BINARY,
            ["stackingclassifier_one", "expected value"],
        ),
        (
            make_pipeline(FunctionTransformer(np.abs), BOOSTED),
            NUMBERS,
            BINARY,
            ["0", "1", "expected value"],  # the function names no columns
        ),
    ],
)
def test_contributions_have_the_names_of_what_the_trees_read(source, rows, labels, names, tmp_path):
    model = converted(source, rows, labels)
    assert model.output_names("contributions") == names
    assert model.contributions(rows).reshape(len(rows), -1).shape[1] == len(names)
    model.save(tmp_path / "m.hbc")
    assert hbconv.load(tmp_path / "m.hbc").output_names("contributions") == names
    assert column_names(model, "contributions") == [f"contributions_{name}" for name in names]


def test_a_frozen_model_has_the_names_of_its_own():
    source = FrozenEstimator(prepared(BOOSTED).fit(FRAME, BINARY))
    assert hbconv.convert(source, backend="reference").output_names("contributions") == ALONE


def test_as_many_classes_as_features_are_told_apart():
    """Three raw scores of two features and the expected value."""
    model = converted(BOOSTED, NUMBERS, RNG.integers(0, 3, 90))
    names = model.output_names("contributions")
    assert names[:4] == ["0_age", "0_x", "0_expected value", "1_age"]
    pairs = model.output_names("interactions")
    assert (len(pairs), pairs[1], pairs[-1]) == (27, "0_age:x", "2_expected value:expected value")


def test_interactions_name_both_features():
    model = converted(BOOSTED, NUMBERS, BINARY)
    assert model.output_names("interactions") == [
        *("age:age", "age:x", "age:expected value"),
        *("x:age", "x:x", "x:expected value"),
        *("expected value:age", "expected value:x", "expected value:expected value"),
    ]


def test_other_answers_have_names():
    model = converted(prepared(FOREST), FRAME, LABELS)
    assert model.output_names("predict") == ["predict"]
    assert model.output_names("predict_proba") == ["a", "b", "c"]
    scaler = hbconv.convert(StandardScaler().fit(NUMBERS), backend="reference")
    assert scaler.output_names("transform") == ["age", "x"]
    targets = hbconv.convert(
        LinearRegression().fit(NUMBERS, NUMBERS.to_numpy()), backend="reference"
    )
    assert targets.output_names("predict") == ["0", "1"]
    with pytest.raises(OptionError, match="Did you mean 'predict'"):
        model.output_names("predikt")
