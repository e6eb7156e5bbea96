"""StringEncoder: texts become the first components of their weighted n-grams."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import Affine, Cast, FillObjects, Node, Select
from hbconv.parse.common.extracted_entries import item_column
from hbconv.parse.common.text_columns import MISSING, NA
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

_MISSING = (None, float("nan"), NA, MISSING)


@parses("skrub.StringEncoder", features=item_column, frames=lambda _: "pandas")
def parse_string_encoder(step: Step) -> Node:
    """Weigh n-grams in float64, project them in float32, and divide by one scale.

    A missing text is an empty one.
    Where there are few n-grams, the first of them are kept instead of components.
    """
    est = step.estimator
    texts = FillObjects(step.x, ("",), _MISSING)
    weighed = Cast(step.transform(est.vectorizer_, texts, "vectorizer_"), "float32")
    if hasattr(est, "tsvd_"):
        components = step.transform(est.tsvd_, weighed, "tsvd_")
    else:
        components = Select(weighed, Array(np.arange(est.n_components_, dtype=np.int32)))
    return Affine.of(components, div=est.scaling_factor_)
