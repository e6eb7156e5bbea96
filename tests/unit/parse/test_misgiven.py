"""What is given in place of an estimator is refused with the place of the estimator in it."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.model_selection import cross_validate

import hbconv
from hbconv.errors import ConversionError, InputError
from hbconv.parse.registry import say_instead

ROWS = np.random.default_rng(0).normal(size=(40, 3))
FITTED = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1).fit(ROWS, ROWS[:, 0])
FOLDS = lightgbm.cv(
    {"verbose": -1, "num_threads": 1}, lightgbm.Dataset(ROWS, ROWS[:, 0]), 2, nfold=2,
    return_cvbooster=True, stratified=False,
)  # fmt: skip
OTHERS = {"names": list("abc"), "rows": ROWS, "score": 0.5, "itself": SimpleNamespace}


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({**OTHERS, "model": FITTED}, "['model'] (LGBMRegressor)."),
        ([FITTED], "[0] (LGBMRegressor)."),
        (("scaler", FITTED), "[1] (LGBMRegressor)."),
        (np.array([None, FITTED], object), "[1] (LGBMRegressor)."),
        ({"a": {"b": [FITTED]}}, "['a']['b'][0] (LGBMRegressor)."),
        (SimpleNamespace(model=FITTED, **OTHERS), ".model (LGBMRegressor)."),
        (FOLDS["cvbooster"], "convert one of its .boosters"),
        (FOLDS, "['cvbooster'].boosters[0] (Booster) or ['cvbooster'].boosters[1] (Booster)."),
        ([FITTED] * 5, "[2] (LGBMRegressor), ..."),
        (cross_validate(FITTED, ROWS, ROWS[:, 0], cv=2, return_estimator=True), "['estimator'][0]"),
        (io.BytesIO(b"tree"), "Give its bytes"),
    ],
)
def test_the_message_says_where(given: Any, place: str) -> None:
    """Containers, objects of attributes, and files that are open."""
    with pytest.raises(ConversionError, match=re.escape(place)):
        hbconv.convert(given)


@pytest.mark.parametrize("given", [OTHERS, [], None, 3, ROWS, xgboost.DMatrix(ROWS)])
def test_what_holds_none_is_no_estimator(given: Any) -> None:
    """In one short sentence."""
    with pytest.raises(ConversionError, match=r"is not an estimator: .{0,60}\Z"):
        hbconv.convert(given)


def test_many_items_are_not_all_looked_at() -> None:
    """Rows given as lists of lists, and a list of itself."""
    asked: list[type] = []
    rows: list[Any] = [[[0.5] * 200] * 200] * 200
    rows[0] = rows
    assert say_instead(rows, lambda cls: bool(asked.append(cls))) == ""
    assert asked == [list]  # once for each type
    assert "[999]" in say_instead([0] * 999 + [FITTED] * 2, lambda cls: cls is type(FITTED))
    assert say_instead([0] * 1000 + [FITTED], lambda cls: cls is type(FITTED)) == ""


@pytest.mark.parametrize(
    "rows", [xgboost.DMatrix(ROWS), lightgbm.Dataset(ROWS), catboost.Pool(ROWS)], ids=type
)
def test_data_of_a_library_are_refused_as_rows(rows: Any) -> None:
    """By predict, as a sample and by verify."""
    model = hbconv.convert(FITTED, "reference")
    for ask in (
        model.predict,
        lambda given: hbconv.convert(FITTED, "reference", sample=given),
        lambda given: hbconv.verify(FITTED, model, given),
    ):
        with pytest.raises(InputError, match=f"got {type(rows).__name__}. Give the table or array"):
            ask(rows)
