"""Scalers: all become Affine, and Clip where they clip."""

from __future__ import annotations

import numpy as np

from hbconv.containers import Node
from hbconv.containers.affine import Affine
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.preprocessing.StandardScaler")
def parse_standard_scaler(step: Step) -> Node:
    """Subtract ``mean_``, divide by ``scale_``; either may be off."""
    x, est = step.require_finite(allow_nan=True), step.estimator
    steps = {}
    if est.with_mean:
        steps["sub"] = est.mean_
    if est.with_std:
        steps["div"] = est.scale_
    return Affine.of(x, **steps)


@parses("sklearn.preprocessing.MaxAbsScaler")
def parse_max_abs_scaler(step: Step) -> Node:
    """Divide by ``scale_``."""
    x = step.require_finite(allow_nan=True)
    return Affine.of(x, div=np.asarray(step.estimator.scale_))
