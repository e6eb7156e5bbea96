"""Transformers before trees: each kind that moves thresholds, with a library that compares in
float32 or in float64.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from xgboost import XGBClassifier

__all__ = ["CHAINS", "TREES", "chain_rows", "fitted_chain", "is_imputed", "taken_by"]

WIDTH = 4
FIT_ROWS = 300
LEAST_POSITIVE = 1e-3

CHAINS = {
    "standard": lambda: [StandardScaler()],
    "robust": lambda: [RobustScaler()],
    "range": lambda: [MinMaxScaler((-1, 1))],
    "clipped range": lambda: [MinMaxScaler(clip=True)],
    "largest": lambda: [MaxAbsScaler()],
    "scaled twice": lambda: [RobustScaler(), StandardScaler()],
    "mean imputed": lambda: [SimpleImputer()],
    "constant imputed": lambda: [SimpleImputer(strategy="constant", fill_value=0.5)],
    "imputed with flags": lambda: [SimpleImputer(strategy="median", add_indicator=True)],
    "imputed, standard": lambda: [SimpleImputer(), StandardScaler()],
    "quantiles": lambda: [QuantileTransformer(n_quantiles=20)],
    "imputed, quantiles": lambda: [SimpleImputer(), QuantileTransformer(n_quantiles=20)],
    "power": lambda: [PowerTransformer()],
    "power, not scaled": lambda: [PowerTransformer(standardize=False)],
    "imputed, power": lambda: [SimpleImputer(), PowerTransformer()],
    "box-cox": lambda: [PowerTransformer(method="box-cox")],
    "imputed, box-cox": lambda: [SimpleImputer(), PowerTransformer(method="box-cox")],
    "normal quantiles": lambda: [
        QuantileTransformer(n_quantiles=20, output_distribution="normal"),
    ],
    "imputed, normal quantiles": lambda: [
        SimpleImputer(),
        QuantileTransformer(n_quantiles=200, output_distribution="normal"),
    ],
    "splines": lambda: [SplineTransformer(n_knots=4)],
    "splines, linear outside": lambda: [SplineTransformer(n_knots=4, extrapolation="linear")],
    "bins": lambda: [KBinsDiscretizer(8, encode="ordinal")],
    "bins of equal width": lambda: [
        KBinsDiscretizer(8, encode="ordinal", strategy="uniform"),
        StandardScaler(),
    ],
    "power of float32": lambda: [PowerTransformer()],
    "imputed, power of float32": lambda: [SimpleImputer(), PowerTransformer()],
    "box-cox of float32": lambda: [PowerTransformer(method="box-cox")],
    "normal quantiles of float32": lambda: [
        QuantileTransformer(n_quantiles=20, output_distribution="normal"),
    ],
    "one-hot bins": lambda: [KBinsDiscretizer(6, encode="onehot-dense")],
}
"""Transformers by name; a name ends with the dtype that they are fitted on, if not float64."""

TREES = {
    "forest": lambda: RandomForestClassifier(4, max_depth=5, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=12),
    "LightGBM": lambda: LGBMClassifier(n_estimators=4, verbose=-1, n_jobs=1),
    "XGBoost": lambda: XGBClassifier(n_estimators=4, max_depth=4, n_jobs=1),
}
"""Trees by name: the first and the last compare in float32, the others in float64."""


def is_imputed(chain: str) -> bool:
    """Whether a chain fills missing values, so that it takes them before all trees."""
    return "imputed" in chain


def chain_rows(chain: str, count: int, seed: int) -> np.ndarray:
    """Draw columns of very different scales and shapes, one of them of few values."""
    rng = np.random.default_rng(seed)
    columns = [
        rng.normal(3, 20, count),
        rng.gamma(2, 0.01, count),
        -np.exp(rng.normal(0, 2, count)),
        rng.integers(-3, 4, count).astype(np.float64),
    ]
    rows = np.stack(columns, axis=1)
    rows = np.where(rng.random(rows.shape) < 0.1, np.nan, rows) if is_imputed(chain) else rows
    rows = rows.astype("float32" if chain.endswith("of float32") else "float64")
    return taken_by(chain, np.abs(rows) if "box-cox" in chain else rows)


def taken_by(chain: str, rows: np.ndarray) -> np.ndarray:
    """Raise values that a chain refuses: Box-Cox powers are of positive numbers alone."""
    if "box-cox" not in chain:
        return rows
    return np.where(rows < LEAST_POSITIVE, rows.dtype.type(LEAST_POSITIVE), rows)


@cache
def fitted_chain(chain: str, trees: str) -> Any:
    """Return the fitted pipeline of these names."""
    rows = chain_rows(chain, FIT_ROWS, 0)
    target = np.nan_to_num(rows[:, 0] / 20 + rows[:, 1] * 90 + rows[:, 3]) > 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = CHAINS[chain]()
        return make_pipeline(*steps, TREES[trees]()).fit(rows, target.astype(int))
