"""feature-engine: frames, chains, and what is refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from feature_engine import discretisation, encoding, imputation, outliers, transformation
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import hbconv
from hbconv.errors import InputError, UnsupportedError

ROWS = pd.DataFrame(
    {
        "height": np.where(np.arange(24) % 7 == 3, np.nan, np.arange(24) / 4),
        "colour": pd.Series(["red", "green", None, "blue", "red", "red"] * 4, dtype=object),
        "count": np.arange(24) % 5 + 1,
    }
)
FLAGS = np.arange(24) % 3 == 0


def test_a_chain_from_missing_text_to_probabilities() -> None:
    """Text is filled, joined to rare ones, and encoded, all in one vocabulary."""
    model = make_pipeline(
        imputation.MeanMedianImputer(),
        imputation.CategoricalImputer(),
        encoding.RareLabelEncoder(tol=0.2, n_categories=2),
        encoding.CountFrequencyEncoder(unseen="encode"),
        outliers.Winsorizer(variables=["height"], capping_method="iqr"),
        LogisticRegression(),
    ).fit(ROWS, FLAGS)
    rows = ROWS.assign(colour=pd.Series(["mauve", None, "red", "Rare"] * 6, dtype=object))
    found = hbconv.convert(model, "reference").predict_proba(rows)
    np.testing.assert_allclose(found, model.predict_proba(rows), rtol=1e-12)


def test_rare_labels_take_nan_and_na_for_missing_but_not_none() -> None:
    """The source looks for NaN alone; in a column of dtype string NA is found too."""
    model = make_pipeline(
        encoding.RareLabelEncoder(tol=0.3, n_categories=1, missing_values="ignore"),
        encoding.CountFrequencyEncoder(missing_values="ignore", unseen="encode"),
    )
    texts = pd.DataFrame({"colour": ["red", "red", "green", np.nan, "blue", "green"] * 4})
    compiled = hbconv.convert(model.fit(texts), "reference")
    for colours in (
        pd.Series([None, np.nan, "red", "mauve"], dtype=object),
        pd.Series([None, "red", "mauve"], dtype="string"),
    ):
        rows = pd.DataFrame({"colour": colours})
        want = model.transform(rows).astype("int64")
        pd.testing.assert_frame_equal(compiled.transform(rows), want)


def test_encoders_refuse_na_where_the_source_does() -> None:
    """NA in a column of dtype string is no value never seen."""
    encoder = encoding.OrdinalEncoder(encoding_method="arbitrary", unseen="encode")
    model = hbconv.convert(encoder.fit(ROWS[["colour"]].dropna()), "reference")
    with pytest.raises(InputError, match="contains NaN"):
        model.transform(pd.DataFrame({"colour": pd.Series([None, "red"], dtype="string")}))


def test_answers_with_frames_whose_columns_keep_their_dtypes() -> None:
    """Columns that no step changes are as they were, and the order is the fitted one."""
    width = discretisation.EqualWidthDiscretiser(bins=3, variables=["count"])
    rows = ROWS[["count", "height"]].astype({"height": "float32"})
    fitted = width.fit(rows)
    found = hbconv.convert(fitted, "reference").transform(rows[["height", "count"]])
    pd.testing.assert_frame_equal(found, fitted.transform(rows[["height", "count"]]))


def test_refuses_the_rows_that_the_source_refuses() -> None:
    """NaN in a column that a transformer reads, and values outside of its domain."""
    log = transformation.LogTransformer(variables=["count"]).fit(ROWS)
    model = hbconv.convert(log.fit(ROWS[["count", "height"]]), "reference")
    with pytest.raises(InputError, match="zero or negative"):
        model.transform(ROWS[["count", "height"]].assign(count=0))
    with pytest.raises(InputError, match="NaN"):
        model.transform(ROWS[["count", "height"]].assign(count=np.nan))


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_box_cox_takes_columns_of_ints(dtype: str) -> None:
    """Whatever the dtype of a column, the source computes in float64."""
    rows = ROWS[["count"]]
    power = transformation.BoxCoxTransformer().fit(rows)
    found = hbconv.convert(power, "reference").transform(rows.astype(dtype))
    pd.testing.assert_frame_equal(found, power.transform(rows.astype(dtype)), rtol=1e-12)


def test_refuses_text_as_an_answer() -> None:
    """A filled text that no step encodes is no number."""
    with pytest.raises(UnsupportedError, match="encode text"):
        hbconv.convert(imputation.CategoricalImputer().fit(ROWS), "reference").transform(ROWS)


def test_refuses_by_parameter() -> None:
    """Intervals as text, and indicators of capped values."""
    boundaries = discretisation.EqualWidthDiscretiser(return_boundaries=True)
    with pytest.raises(UnsupportedError, match="return_boundaries=True"):
        hbconv.convert(boundaries.fit(ROWS[["count"]]), "reference")
    capped = outliers.Winsorizer(add_indicators=True, capping_method="iqr")
    with pytest.raises(UnsupportedError, match="add_indicators=True"):
        hbconv.convert(capped.fit(ROWS[["count"]]), "reference")
