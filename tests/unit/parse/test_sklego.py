"""scikit-lego: what a table of cases cannot say, and what is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklego import meta, preprocessing

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "height": RNG.normal(size=40),
        "colour": RNG.choice(["red", "green", "blue"], 40),
        "count": RNG.integers(0, 9, 40),
    }
)
FLAGS = np.arange(40) % 3 == 0


@pytest.mark.parametrize("rows", [ROWS, ROWS[ROWS.columns[::-1]], ROWS.assign(more=1)])
def test_columns_are_chosen_by_name_before_a_model(rows: pd.DataFrame) -> None:
    """In any order, beside others, numbers and text."""
    numbers = make_pipeline(
        preprocessing.ColumnSelector(["count", "height"]), StandardScaler(), LogisticRegression()
    ).fit(ROWS, FLAGS)
    found = hbconv.convert(numbers, "reference").predict_proba(rows)
    np.testing.assert_allclose(found, numbers.predict_proba(rows), rtol=1e-12)
    texts = make_pipeline(preprocessing.ColumnSelector("colour"), OneHotEncoder()).fit(ROWS)
    found = hbconv.convert(texts, "reference").transform(rows)
    np.testing.assert_array_equal(found.toarray(), texts.transform(rows).toarray())


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("fitted", [ROWS, pl.from_pandas(ROWS)], ids=["pandas", "polars"])
@pytest.mark.parametrize("asked", [ROWS, pl.from_pandas(ROWS)], ids=["pandas", "polars"])
def test_answers_are_frames_of_the_library_of_the_rows(fitted: Any, asked: Any) -> None:
    """Whatever the rows of fitting were; other rows are answered by arrays."""
    selector = preprocessing.ColumnSelector(["count", "height"]).fit(fitted)
    identity = preprocessing.IdentityTransformer().fit(fitted[["height", "count"]])
    for source, rows in ((selector, asked), (identity, asked[["height", "count"]])):
        model = hbconv.convert(source, "reference")
        found = model.transform(rows)
        want = source.transform(rows)
        assert type(found) is type(want)
        assert found.equals(want)
        columns = {name: rows[name].to_numpy() for name in rows.columns}
        np.testing.assert_array_equal(model.transform(columns), want.to_numpy())
    behind = make_pipeline(StandardScaler(), preprocessing.IdentityTransformer())
    numbers = ROWS[["height", "count"]]
    found = hbconv.convert(behind.fit(numbers), "reference").transform(numbers)
    np.testing.assert_array_equal(found, behind.transform(numbers))


TYPED = pd.DataFrame(
    {
        "a": RNG.normal(size=9),
        "b": np.arange(9),
        "c": np.arange(9, dtype=np.float32),
        "d": np.arange(9) % 2 == 0,
        "e": np.arange(9, dtype=np.int8),
    }
)


@pytest.mark.parametrize(
    "selector",
    [
        preprocessing.ColumnSelector(["e", "c", "a"]),
        preprocessing.ColumnSelector("b"),
        preprocessing.ColumnDropper(["b"]),
        preprocessing.TypeSelector(include="number"),
        preprocessing.TypeSelector(exclude=["float64", "int8"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_selectors_return_frames(selector: Any, backend: str) -> None:
    """Of the columns' own dtypes and index, also behind a pipeline, saved, and of any rows."""
    source = selector.fit(TYPED)
    for model in (source, make_pipeline(source)):
        found = hbconv.convert(model, backend)
        for rows in (TYPED, TYPED[3:4], TYPED[::-1]):
            pd.testing.assert_frame_equal(found.transform(rows), source.transform(rows))


def test_columns_that_a_step_makes_are_not_found_by_name() -> None:
    """Their names are not known."""
    scaler = StandardScaler().set_output(transform="pandas")
    source = make_pipeline(scaler, preprocessing.ColumnSelector(["count"]))
    source.fit(ROWS[["height", "count"]])
    with pytest.raises(UnsupportedError, match="put it first"):
        hbconv.convert(source, "reference")


def test_a_type_selector_refuses_other_floats() -> None:
    """So does the source, which compares all dtypes."""
    rows = ROWS[["height", "count"]]
    model = hbconv.convert(preprocessing.TypeSelector(include="number").fit(rows), "reference")
    with pytest.raises(InputError, match="'height' is not float64"):
        model.transform(rows.astype({"height": "float32"}))


@pytest.mark.parametrize("threshold", [0.25, np.float32(0.25), 0, 1])
def test_a_probability_on_the_threshold_is_of_the_first_class(threshold: Any) -> None:
    """The comparison is strict."""
    from sklearn.tree import DecisionTreeClassifier

    x = np.repeat([[0.0], [1.0]], 8, axis=0)
    y = np.array([0] * 6 + [1] * 10)
    source = meta.Thresholder(DecisionTreeClassifier(max_depth=1), threshold).fit(x, y)
    assert source.predict_proba(x)[0, 1] == 0.25
    found = hbconv.convert(source, "reference").predict(x)
    np.testing.assert_array_equal(found, source.predict(x))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_capped_rows_keep_missing_and_infinite_values_as_the_source(kind: Any) -> None:
    """Infinite values are capped, or count as missing."""
    x = ROWS[["height", "count"]].to_numpy()
    odd = np.array([[np.inf, np.nan], [-np.inf, 1e-310], [-0.0, 1e30]]).astype(kind)
    for discards in (True, False):
        source = preprocessing.ColumnCapper(discard_infs=discards).fit(x)
        found = hbconv.convert(source, "reference").transform(odd)
        want = source.transform(odd.copy())
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (preprocessing.RandomAdder(), "leave it out of the pipeline"),
        (
            preprocessing.OutlierRemover(preprocessing.IdentityTransformer(), refit=False),
            "leave it out of the pipeline",
        ),
        (meta.GroupedPredictor(LinearRegression(), groups=[0]), "no parser for sklego.meta"),
        (
            meta.EstimatorTransformer(LogisticRegression(), predict_func="predict_proba"),
            "lays several columns below each other",
        ),
    ],
)
def test_refuses_by_name(estimator: Any, reason: str) -> None:
    """What changes rows in fitting alone, and what is not read."""
    x = ROWS[["count", "height"]].to_numpy()
    with pytest.raises(UnsupportedError, match=reason):
        hbconv.convert(estimator.fit(x, FLAGS), "reference")
