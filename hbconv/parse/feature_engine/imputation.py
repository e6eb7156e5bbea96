"""Imputers: a learned or given value in place of missing ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import FillObjects, Impute, Node, Output
from hbconv.parse.common.text_columns import NA
from hbconv.parse.feature_engine.frame import changed, columns, parses_frame
from hbconv.parse.step import Step

_MISSING = (float("nan"), None, NA)


@parses_frame(
    "feature_engine.imputation.ArbitraryNumberImputer",
    "feature_engine.imputation.CategoricalImputer",
    "feature_engine.imputation.EndTailImputer",
    "feature_engine.imputation.MeanMedianImputer",
)
def parse_imputer(step: Step) -> dict[str, Output]:
    """Fill each column by its own value."""
    own = columns(step)
    return changed(
        step,
        {name: _filled(own[name], fill) for name, fill in step.estimator.imputer_dict_.items()},
    )


def _filled(x: Node, fill: Any) -> Node:
    if isinstance(fill, str):
        return FillObjects(x, (fill,), _MISSING)
    return Impute(x, Array(np.array([float(fill)])))
