"""The mixed pipeline that the benchmark of CUDA devices times."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

__all__ = ["mixed_pipeline"]

PIPELINE_ROWS = 1_000_000


def mixed_pipeline() -> tuple[Any, Any]:
    """Return rows of numbers and categories, with missing values, and a pipeline of 200 trees."""
    rng = np.random.default_rng(0)
    x = np.column_stack(
        [rng.normal(size=(PIPELINE_ROWS, 20)), rng.integers(0, 9, (PIPELINE_ROWS, 4))]
    )
    x[rng.random(x.shape) < 0.05] = np.nan
    codes = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    prepared = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), list(range(20))),
        (codes, list(range(20, 24))),
        sparse_threshold=0,
    )
    source = make_pipeline(prepared, GradientBoostingClassifier(n_estimators=200))
    few = x[:5000]
    return x, source.fit(few, np.nan_to_num(few[:, 0] * few[:, 1]) > 0)
