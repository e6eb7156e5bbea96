"""IsotonicRegression: interpolate between the fitted thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Cast,
    Choose,
    ConstantRows,
    Interpolate,
    IsOutside,
    Node,
    Output,
    Schema,
)
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

__all__ = ["isotonic_prediction"]


@parses("sklearn.isotonic.IsotonicRegression", features=lambda _: Schema.sequence())
def parse_isotonic_regression(step: Step) -> dict[str, Output]:
    """Return the same values from predict and from transform."""
    prediction = Output(isotonic_prediction(step, step.estimator, step.x), VECTOR)
    return {"predict": prediction, "transform": prediction}


def isotonic_prediction(step: Step, isotonic: Any, x: Node) -> Node:
    """Return what a fitted IsotonicRegression predicts for the one column of x.

    The dtype is that of fitting.
    In float64 the source model calls ``numpy.interp``.
    In float32 it calls scipy, whose pieces hold their right ends.
    """
    knots = isotonic.X_thresholds_
    values = isotonic.y_thresholds_
    # The source interpolates by f_, which it made of the thresholds when fitting.
    built: Any = getattr(isotonic, "f_", None)
    if (
        built is not None
        and hasattr(built, "x")
        and not (np.array_equal(built.x, knots) and np.array_equal(np.ravel(built.y), values))
    ):
        raise replace(step, estimator=isotonic).damaged(
            "X_thresholds_ and y_thresholds_ are not those of f_"
        )
    dtype = np.dtype(knots.dtype).name
    x = step.require_finite(Cast(x, dtype))
    closed = "left" if dtype == "float64" else "right"
    prediction = Interpolate(x, Array(knots[None]), Array(values[None].astype(dtype)), closed)
    return (
        prediction
        if len(knots) == 1
        else _out_of_bounds(replace(step, estimator=isotonic), prediction)
    )


def _out_of_bounds(step: Step, prediction: Interpolate) -> Node:
    """Clip values beyond the thresholds, make them NaN, or refuse them."""
    rule = step.require("out_of_bounds", "clip", "nan", "raise")
    outside = IsOutside(prediction.x, *(Array(prediction.knots.data[:, end]) for end in (0, -1)))
    if rule == "nan":
        return Choose(
            outside,
            ConstantRows(prediction, Array(np.full(1, np.nan, prediction.type.dtype))),
            prediction,
        )
    if rule == "raise":
        step.check(
            outside,
            f"A value lies outside the range that {step.name} (step {step.where!r}) was fitted on.",
        )
    return prediction
