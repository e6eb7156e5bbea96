"""TargetEncoder: the mean target of each category."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import Node, Recode
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.preprocessing.encoders import object_matrix
from hbconv.parse.step import Step, select


@parses("sklearn.preprocessing.TargetEncoder")
def parse_target_encoder(step: Step) -> Node:
    """Look up the encoding of each category, for each class where there are several.

    The unknown category gets the mean over all rows.
    """
    est = step.estimator
    means = np.atleast_1d(est.target_mean_)
    codes = select(
        object_matrix(step), np.repeat(np.arange(len(est.categories_)), len(means)).tolist()
    )
    tables = (
        np.append(means[k % len(means)], encoding) for k, encoding in enumerate(est.encodings_)
    )
    return Recode(codes, tuple(Array(np.asarray(table, dtype=np.float64)) for table in tables))
