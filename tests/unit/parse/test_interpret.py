"""Explainable boosting machines: the ways to say that a text is missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from interpret.glassbox import ExplainableBoostingRegressor

import hbconv

pytestmark = pytest.mark.filterwarnings("ignore:Missing values detected")
"""Of the library's pictures, which show none."""


@pytest.mark.parametrize("dtype", ["str", "string", "category", object])
def test_missing_texts_of_every_dtype_are_missing(dtype: object) -> None:
    """pandas.NA is a missing value to the source, not an unknown one."""
    options = {"max_rounds": 5, "outer_bags": 1, "n_jobs": 1, "interactions": 0}
    texts = pd.DataFrame({"city": ["a", "b", None, "c"] * 12})
    machine = ExplainableBoostingRegressor(**options).fit(texts, np.arange(48) % 4)
    rows = pd.DataFrame({"city": pd.Series(["a", "z", None, "c"], dtype=dtype)})
    found = hbconv.convert(machine, "reference").predict(rows)
    np.testing.assert_allclose(found, machine.predict(rows), rtol=1e-12)
