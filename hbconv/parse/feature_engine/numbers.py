"""Transformers of columns of numbers, column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Bins,
    BoxCox,
    Cast,
    Clip,
    Compare,
    Map,
    Node,
    Output,
    Power,
    YeoJohnson,
)
from hbconv.parse.feature_engine.frame import as_frame, changed, columns, numeric, parses_frame
from hbconv.parse.step import Step


@parses_frame(
    "feature_engine.discretisation.EqualFrequencyDiscretiser",
    "feature_engine.discretisation.EqualWidthDiscretiser",
    "feature_engine.discretisation.GeometricWidthDiscretiser",
)
def parse_discretiser(step: Step) -> dict[str, Output]:
    """Find the interval of each value; an interval includes its upper end."""
    for parameter in ("return_boundaries", "return_object"):
        step.require(parameter, False)
    return changed(
        step,
        {
            name: _interval(x, np.asarray(step.estimator.binner_dict_[name], np.float64)[1:-1])
            for name, x in numeric(step, step.estimator.variables_).items()
        },
    )


def _interval(x: Node, inner: Any) -> Node:
    """Count the inner edges below each value: those that the next smaller float reaches."""
    edges = np.nextafter(inner, np.inf)
    return Cast(Bins(Cast(x, "float64"), Array(edges[None])), "int64")


@parses_frame(
    "feature_engine.outliers.ArbitraryOutlierCapper",
    "feature_engine.outliers.Winsorizer",
)
def parse_capper(step: Step) -> dict[str, Output]:
    """Hold values between the caps of their column."""
    est = step.estimator
    if getattr(est, "add_indicators", False):
        raise step.refuse("add_indicators", True, "Fit with add_indicators=False.")
    upper: Mapping[Any, float] = est.right_tail_caps_
    lower: Mapping[Any, float] = est.left_tail_caps_
    own = columns(step)
    if est.missing_values == "raise":
        own |= numeric(step, est.variables_)
    caps = {**upper, **lower}
    return changed(
        step,
        {
            name: Clip.of(own[name], lower.get(name, -np.inf), upper.get(name, np.inf))
            for name in caps
        },
    )


def _mapped(step: Step, function: Callable[[Any, Node], Node]) -> dict[str, Output]:
    """Replace the columns that a transformer reads by what a function makes of them."""
    found = numeric(step, step.estimator.variables_)
    return changed(step, {name: function(name, x) for name, x in found.items()})


def _refuse(step: Step, x: Node, op: str, why: str) -> None:
    step.check(Compare.of(x, op, 0.0), f"{why} (step {step.where!r}).")


@parses_frame("feature_engine.transformation.LogTransformer")
def parse_log(step: Step) -> dict[str, Output]:
    """Take the logarithm of positive values."""
    function = {"e": "log", "10": "log10"}[step.require("base", "e", "10")]

    def logarithm(_: Any, x: Node) -> Node:
        _refuse(step, x, "le", "Some variables contain zero or negative values")
        return Map(Cast(x, "float64"), function)

    return _mapped(step, logarithm)


@parses_frame("feature_engine.transformation.ReciprocalTransformer")
def parse_reciprocal(step: Step) -> dict[str, Output]:
    """Divide 1 by values that are not zero."""

    def reciprocal(_: Any, x: Node) -> Node:
        _refuse(step, x, "eq", "Some variables contain the value zero")
        return Map(Cast(x, "float64"), "reciprocal")

    return _mapped(step, reciprocal)


@parses_frame("feature_engine.transformation.PowerTransformer")
def parse_power(step: Step) -> dict[str, Output]:
    """Raise values to a power."""
    exponent = float(step.estimator.exp)
    if exponent == 0.5:
        return _mapped(step, lambda _, x: Map(Cast(x, "float64"), "sqrt"))
    if exponent == 2:
        return _mapped(step, lambda _, x: Map(Cast(x, "float64"), "square"))
    return _mapped(step, lambda _, x: Power(Cast(x, "float64"), exponent))


@parses_frame("feature_engine.transformation.BoxCoxTransformer")
def parse_box_cox(step: Step) -> dict[str, Output]:
    """Apply the power transform of each column to positive values."""

    def transformed(name: Any, x: Node) -> Node:
        _refuse(step, x, "le", "Data must be positive")
        return BoxCox(
            Cast(x, "float64"), Array(np.array([float(step.estimator.lambda_dict_[name])]))
        )

    return _mapped(step, transformed)


@parses_frame("feature_engine.transformation.YeoJohnsonTransformer")
def parse_yeo_johnson(step: Step) -> dict[str, Output]:
    """Apply the power transform of each column."""

    def transformed(name: Any, x: Node) -> Node:
        power = float(step.estimator.lambda_dict_[name])
        return YeoJohnson(x, Array(np.array([power])), Array(np.array([2.0 - power])))

    return _mapped(step, transformed)


@parses_frame("feature_engine.scaling.MeanNormalizationScaler")
def parse_mean_normalization(step: Step) -> dict[str, Output]:
    """Subtract the mean and divide by the range."""
    est = step.estimator
    return _mapped(
        step,
        lambda name, x: Affine.of(
            Cast(x, "float64"), sub=np.array([est.mean_[name]]), div=np.array([est.range_[name]])
        ),
    )


@parses_frame(
    "feature_engine.selection.DropConstantFeatures",
    "feature_engine.selection.DropCorrelatedFeatures",
    "feature_engine.selection.DropDuplicateFeatures",
    "feature_engine.selection.DropFeatures",
    "feature_engine.selection.DropHighPSIFeatures",
    "feature_engine.selection.SelectByShuffling",
    "feature_engine.selection.SelectBySingleFeaturePerformance",
    "feature_engine.selection.SelectByTargetMeanPerformance",
    "feature_engine.selection.SmartCorrelatedSelection",
)
def parse_selection(step: Step) -> dict[str, Output]:
    """Drop the columns that the selector found."""
    dropped = set(step.estimator.features_to_drop_)
    return as_frame({name: x for name, x in columns(step).items() if name not in dropped})
