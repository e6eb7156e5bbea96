"""Pipelines at the ends: one projection read by fifty models, and tables of Nomao's shape.

The last are Figures 9 and 10 of the Hummingbird paper (OSDI'20): selection after encoding, and
weights of zero.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectPercentile, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hbconv_datasets.pipelines.case import PipelineCase
from hbconv_datasets.pipelines.tables import nomao, wide
from hbconv_datasets.pipelines.trees import one_hot

__all__ = ["PENALTIES", "PERCENTILES", "STRESS", "penalized", "selected"]

PERCENTILES = (20, 40, 60, 80)
"""Shares of the features that Figure 9 selects."""
PENALTIES = (0.001, 0.01, 0.1, 1.0)
"""Values of C in Figure 10."""


def shared_projection(_: int) -> Any:
    """Scale, ten principal axes, fifty ridge regressions of them."""
    return make_pipeline(StandardScaler(), PCA(10), MultiOutputRegressor(Ridge()))


def prepared() -> Any:
    """Impute and scale the numbers, impute and one-hot encode the codes."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    codes = make_pipeline(SimpleImputer(strategy="most_frequent"), one_hot())
    return ColumnTransformer(
        [("numbers", numbers, list(range(89))), ("codes", codes, list(range(89, 119)))]
    )


def selected_logistic(_: int, percentile: int) -> Any:
    """Select a share of the encoded columns, logistic regression."""
    selection = SelectPercentile(f_classif, percentile=percentile)
    return make_pipeline(prepared(), selection, LogisticRegression(max_iter=300))


def sparse_logistic(_: int, c: float) -> Any:
    """Fit a logistic regression of which a penalty makes weights zero."""
    model = LogisticRegression(solver="liblinear", l1_ratio=1, C=c, random_state=0)
    return make_pipeline(prepared(), model)


def selected(percentile: int) -> PipelineCase:
    """Return a case of Figure 9."""
    make = partial(selected_logistic, percentile=percentile)
    return PipelineCase(f"figure 9, {percentile} %", nomao, make)


def penalized(c: float) -> PipelineCase:
    """Return a case of Figure 10."""
    return PipelineCase(f"figure 10, C={c:g}", nomao, partial(sparse_logistic, c=c))


STRESS = (
    PipelineCase("35 scale+PCA+50 ridges", wide, shared_projection),
    *map(selected, PERCENTILES),
    *map(penalized, PENALTIES),
)
"""The cases, beside the 34."""
