"""The mixed pipeline: numbers and categories, with missing values, then boosted trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.gpu.place import Place

__all__ = ["mixed_pipeline", "mixed_rows"]

NUMBERS = 20
CATEGORIES = 4


def mixed_rows(count: int) -> npt.NDArray[np.float64]:
    """Draw numbers and categories; one value in twenty is missing."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(count, NUMBERS))
    x = np.column_stack([numbers, rng.integers(0, 9, (count, CATEGORIES))])
    x[rng.random(x.shape) < 0.05] = np.nan
    return x


def mixed_pipeline(place: Place) -> Any:
    """Fit a pipeline of 200 trees to 5,000 rows."""
    codes = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    prepared = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), list(range(NUMBERS))),
        (codes, list(range(NUMBERS, NUMBERS + CATEGORIES))),
        sparse_threshold=0,
    )
    trees = GradientBoostingClassifier(n_estimators=place.trees(200))
    x = mixed_rows(place.rows(5000))
    return make_pipeline(prepared, trees).fit(x, np.nan_to_num(x[:, 0] * x[:, 1]) > 0)
