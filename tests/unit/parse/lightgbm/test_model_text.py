"""Model texts that LightGBM loads, in forms that it does not write today, and columns told."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import make_pipeline

import hbconv
from hbconv.errors import UnsupportedError
from hbconv.parse.lightgbm.model_text import read_lightgbm_text

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({
    "x": RNG.normal(size=300),
    "number": RNG.integers(0, 3, 300),
    "plan": pd.Categorical(RNG.choice(list("pqr"), 300)),
    "tier": pd.Categorical(RNG.choice(list("bsg"), 300), categories=list("bsg"), ordered=True),
})  # fmt: skip
TARGET = (TABLE.x + (TABLE.tier == "g")) > 0.7
QUIET = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
PLAIN = TABLE[["x", "number"]].to_numpy()


def _text(rows: Any = PLAIN, **options: Any) -> str:
    data = lightgbm.Dataset(rows, TARGET, **options)
    return lightgbm.train({**QUIET, "objective": "binary"}, data, 4).model_to_string()


FORMS = {
    "a line behind the lists": (_text() + "trained on Monday\n").encode(),
    "no sizes of trees": re.sub("tree_sizes=.*\n", "", _text()).encode(),
    "Latin-1": _text(feature_name=["größe", "b"]).encode("latin-1"),
    "UTF-8": _text(feature_name=["größe", "b"]).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_text_answers_as_lightgbm_reads_it(tmp_path: Path, form: str) -> None:
    """As a file, and as the booster that LightGBM makes of it."""
    path = tmp_path / "model.txt"
    path.write_bytes(FORMS[form])
    booster = lightgbm.Booster(model_file=path)
    want = booster.predict(PLAIN)
    for source in (path, booster):
        model = hbconv.convert(source, "reference")
        rows = pd.DataFrame(PLAIN, columns=getattr(model, "feature_names_in_", None))
        np.testing.assert_array_equal(model.predict(rows), want)
        assert rows.columns[0] in (0, "größe")


@pytest.mark.parametrize("behind", ["", "\n", "x\n", "x" * 19, "x" * 100 + "\n", "x\n" * 2])
def test_lists_of_categories_are_found_where_lightgbm_finds_them(
    tmp_path: Path, behind: str
) -> None:
    """It reads a few characters from the end, which may cut their line."""
    text = _text(TABLE[["x", "plan"]]) + behind
    (tmp_path / "model.txt").write_text(text)
    known = lightgbm.Booster(model_file=tmp_path / "model.txt").pandas_categorical
    found = read_lightgbm_text(text).categories
    assert ([list(values) for values in found.values()] or None) == known
    assert (known is None) == (behind in ("\n", "x\n", "x" * 19, "x\n" * 2))


WRAPPED = {
    "classifier": lightgbm.LGBMClassifier(n_estimators=4, **QUIET),
    "pipeline": make_pipeline(lightgbm.LGBMClassifier(n_estimators=4, **QUIET)),
    "calibrated": CalibratedClassifierCV(lightgbm.LGBMClassifier(n_estimators=4, **QUIET), cv=2),
}


@pytest.mark.parametrize("sample", [pa.Table.from_pandas, pl.from_pandas])
def test_a_sample_of_any_table_tells_them(sample: Callable[[pd.DataFrame], Any]) -> None:
    """Of polars and Arrow too, which have categories of their own."""
    source = lightgbm.LGBMClassifier(n_estimators=4, **QUIET).fit(TABLE, TARGET)
    model = hbconv.convert(source, "reference", sample=sample(TABLE[:3]))
    want = source.predict_proba(TABLE)
    np.testing.assert_array_equal(model.predict_proba(sample(TABLE)), want)


@pytest.mark.parametrize("kind", WRAPPED)
def test_a_sample_tells_the_columns_of_categories(kind: str) -> None:
    """Ints look like the codes of ordered categories, of which the text lists no column."""
    source = WRAPPED[kind].fit(TABLE, TARGET)
    with pytest.raises(UnsupportedError, match=r"pandas_categorical.*sample="):
        hbconv.convert(source, "reference")
    with pytest.raises(UnsupportedError, match="pandas_categorical"):
        hbconv.convert(source, "reference", sample=TABLE.assign(tier=0)[:3])
    model = hbconv.convert(source, "reference", sample=TABLE[:3])
    np.testing.assert_allclose(model.predict_proba(TABLE), source.predict_proba(TABLE), rtol=1e-14)


def test_a_sample_tells_the_columns_of_a_file(tmp_path: Path) -> None:
    """And corrects what the text seems to tell: here the ints are the categorical feature."""
    source = lightgbm.train(
        {**QUIET, "objective": "binary"},
        lightgbm.Dataset(TABLE.drop(columns="plan"), TARGET, categorical_feature=["number"]),
        4,
    )
    source.save_model(tmp_path / "model.txt")
    rows = TABLE.drop(columns="plan")
    for given in (source, tmp_path / "model.txt"):
        model = hbconv.convert(given, "reference", sample=rows[:3])
        np.testing.assert_array_equal(model.predict(rows), source.predict(rows))
