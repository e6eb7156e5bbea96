"""Encoders of category_encoders: what is refused, and what stands around them."""

from __future__ import annotations

from typing import Any

import category_encoders as ce
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import hbconv
from hbconv.errors import InputError, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore:'future.no_silent_downcasting'")
"""category_encoders 2.11 asks pandas 3 for an option that is going."""

ROWS = pd.DataFrame(
    {
        "size": ["S", "M", "L", None, "S", "M"] * 4,
        "height": np.arange(24) / 4,
        "colour": ["red", "green", "red", "blue"] * 6,
    }
)
FLAGS = np.arange(24) % 3 == 0


def test_answers_with_a_frame_of_the_source_names_and_dtypes() -> None:
    """An encoder returns frames by itself, whose columns keep their dtypes."""
    encoder = ce.OneHotEncoder(use_cat_names=True).fit(ROWS)
    found = hbconv.convert(encoder, "reference").transform(ROWS)
    pd.testing.assert_frame_equal(found, encoder.transform(ROWS))


def test_a_pipeline_encodes_before_it_predicts() -> None:
    """The classifier reads what the encoder makes, for values never seen too."""
    model = make_pipeline(ce.TargetEncoder(), LogisticRegression()).fit(ROWS, FLAGS)
    rows = ROWS.assign(size=["XL", None, "S", "M"] * 6, colour=["mauve", "red"] * 12)
    found = hbconv.convert(model, "reference").predict_proba(rows)
    np.testing.assert_allclose(found, model.predict_proba(rows), rtol=1e-12)


def test_reads_its_columns_within_a_column_transformer() -> None:
    """An encoder of some columns of a table is a part as any transformer."""
    parts = make_column_transformer((ce.CountEncoder(), ["colour"]), ("passthrough", ["height"]))
    model = parts.fit(ROWS)
    found = hbconv.convert(model, "reference").transform(ROWS)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(model.transform(ROWS)))


def test_refuses_unknown_and_missing_values_as_the_source() -> None:
    """A policy of "error" is a check of rows."""
    seen = ROWS.dropna()
    options = {"handle_unknown": "error", "handle_missing": "error"}
    encoder = ce.OrdinalEncoder(**options).fit(seen)
    model = hbconv.convert(encoder, "reference")
    pd.testing.assert_frame_equal(model.transform(seen), encoder.transform(seen))
    with pytest.raises(InputError, match="Unexpected categories found in column 'colour'"):
        model.transform(seen.assign(colour="mauve"))
    with pytest.raises(InputError, match="'size' to be encoded cannot contain null"):
        model.transform(ROWS)


@pytest.mark.parametrize("encoder", [ce.OrdinalEncoder(), ce.CountEncoder()])
def test_whole_numbers_stay_ints_where_all_values_are_known(encoder: Any) -> None:
    """A value never seen makes floats of the source's column, but not of others."""
    fitted = encoder.fit(ROWS)
    found = hbconv.convert(fitted, "reference").transform(ROWS)
    pd.testing.assert_frame_equal(found, fitted.transform(ROWS))


@pytest.mark.parametrize(
    "encoder", [ce.CatBoostEncoder(cols=["x"]), ce.LeaveOneOutEncoder(cols=["x"])]
)
def test_refuses_columns_of_bools_that_the_source_does_not_find(encoder: Any) -> None:
    """These two look bools up among floats, and find none; others find them."""
    rows = pd.DataFrame({"x": FLAGS[::-1]})
    with pytest.raises(UnsupportedError, match="gives all values of 'x' the mean"):
        hbconv.convert(encoder.fit(rows, FLAGS), "reference")
    other = ce.TargetEncoder(cols=["x"]).fit(rows, FLAGS)
    found = hbconv.convert(other, "reference").transform(rows)
    pd.testing.assert_frame_equal(found, other.transform(rows))


@pytest.mark.parametrize("dtype", ["str", "string", "category", object])
def test_missing_texts_of_every_dtype_are_missing(dtype: Any) -> None:
    """pandas.NA is a missing value to the source, not an unknown one."""
    encoder = ce.TargetEncoder(cols=["size"]).fit(ROWS[["size"]], FLAGS)
    size = ["S", "XL", pd.NA if dtype == "string" else None]
    rows = pd.DataFrame({"size": pd.Series(size, dtype=dtype)})
    found = hbconv.convert(encoder, "reference").transform(rows)
    pd.testing.assert_frame_equal(found, encoder.transform(rows))


@pytest.mark.parametrize(
    ("encoder", "parameter"),
    [
        (ce.OrdinalEncoder(handle_unknown=lambda value, mapping: 7), "handle_unknown"),
        (ce.TargetEncoder(composite_cols=[("size", "colour")]), "composite_cols"),
        (ce.OrdinalEncoder(cols=["size"]), "cols"),
    ],
)
def test_refuses_by_parameter(encoder: Any, parameter: str) -> None:
    """What no table of one column holds is refused by name."""
    with pytest.raises(UnsupportedError) as caught:
        hbconv.convert(encoder.fit(ROWS, FLAGS), "reference")
    assert caught.value.parameter == parameter
