"""Inverse transforms: what ``inverse_transform`` of a transformer makes of a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Cast,
    CastLike,
    Choose,
    Compare,
    ConstantRows,
    Interpolate,
    Map,
    Node,
    Power,
    Select,
)
from hbconv.parse.registry import find_parser
from hbconv.parse.sklearn.preprocessing.function import apply_function
from hbconv.parse.step import Step, concat

__all__ = ["inverse_transform"]


def inverse_transform(step: Step, transformer: Any, x: Node) -> Node:
    """Return what ``transformer.inverse_transform`` makes of x, with its checks of rows."""
    name = find_parser(transformer, step.where).name
    if name not in _INVERSES:
        raise step.refuse(
            "transformer",
            type(transformer).__name__,
            f"hbconv inverts {', '.join(sorted(n.rpartition('.')[2] for n in _INVERSES))}.",
        )
    inner = replace(step, estimator=transformer)
    return _INVERSES[name](inner, x)


def _numbers(step: Step, x: Node) -> Node:
    """Return floats, which may be NaN."""
    return step.require_finite(Cast(x, "float"), allow_nan=True)


def _standard_scaler(step: Step, x: Node) -> Node:
    est = step.estimator
    steps = ({"mul": est.scale_} if est.with_std else {}) | (
        {"add": est.mean_} if est.with_mean else {}
    )
    return Affine.of(_numbers(step, x), **steps)


def _robust_scaler(step: Step, x: Node) -> Node:
    est = step.estimator
    steps = ({"mul": est.scale_} if est.with_scaling else {}) | (
        {"add": est.center_} if est.with_centering else {}
    )
    return Affine.in_place(_numbers(step, x), **steps)


def _function_transformer(step: Step, x: Node) -> Node:
    est = step.estimator
    if est.inv_kw_args:
        raise step.refuse("inv_kw_args", est.inv_kw_args, "hbconv handles no keyword arguments.")
    return apply_function(step, "inverse_func", step.require_finite(x) if est.validate else x)


def _power_transformer(step: Step, x: Node) -> Node:
    """Invert each column in float64, and round to x's dtype."""
    est = step.estimator
    x = _numbers(step, x)
    x = inverse_transform(step, est._scaler, x) if est.standardize else x
    invert = {"yeo-johnson": _inverse_yeo_johnson, "box-cox": _inverse_box_cox}[
        step.require("method", "yeo-johnson", "box-cox")
    ]
    columns = [Cast(column, "float64") for column in _columns(x)]
    return CastLike(
        concat(
            [invert(column, power) for column, power in zip(columns, est.lambdas_, strict=True)]
        ),
        x,
    )


def _inverse_box_cox(x: Node, power: float) -> Node:
    """Return ``exp(log1p(power * x) / power)``, as scipy's ``inv_boxcox``."""
    return Map(
        x if power == 0 else Affine.of(Map(Affine.of(x, mul=power), "log1p"), div=power), "exp"
    )


def _inverse_yeo_johnson(x: Node, power: float) -> Node:
    """Take powers of ``1 + power * x`` from zero on, below of ``1 - (2 - power) * x``."""
    least = np.spacing(1.0)
    above = (
        Map(x, "exp") if abs(power) < least else Power(Affine.of(x, mul=power, add=1.0), 1 / power)
    )
    below = (
        Map(Affine.of(x, mul=-1.0), "exp")
        if abs(power - 2) <= least
        else Power(Affine.of(x, mul=power - 2, add=1.0), 1 / (2 - power))
    )
    return Choose(
        Compare.of(x, "ge", 0.0), Affine.of(above, sub=1.0), Affine.of(below, mul=-1.0, add=1.0)
    )


def _quantile_transformer(step: Step, x: Node) -> Node:
    """Interpolate the quantiles of each column.

    For a normal output, shares within 1e-7 of 0 and 1 count as 0 and 1.
    """
    est = step.estimator
    x = _numbers(step, x)
    share: Node = Cast(x, "float64")
    if step.require("output_distribution", "uniform", "normal") == "normal":
        share = Affine.of(Map(Affine.of(share, div=np.sqrt(2.0)), "erf"), add=1.0, mul=0.5)
    quantiles: npt.NDArray[Any] = est.quantiles_.T
    values: Node = Interpolate(
        share, Array(np.broadcast_to(est.references_, quantiles.shape)), Array(quantiles)
    )
    if est.output_distribution == "normal":
        values = Choose(
            Compare.of(Affine.of(share, add=1e-7), "gt", 1.0),
            ConstantRows(x, Array(quantiles[:, -1])),
            values,
        )
        values = Choose(
            Compare.of(Affine.of(share, sub=1e-7), "lt", 0.0),
            ConstantRows(x, Array(quantiles[:, 0])),
            values,
        )
    return CastLike(values, x)


def _pipeline(step: Step, x: Node) -> Node:
    for _, transformer in reversed(step.estimator.steps):
        x = x if transformer in (None, "passthrough") else inverse_transform(step, transformer, x)
    return x


def _columns(x: Node) -> list[Node]:
    return [Select(x, Array.of([j], np.int32)) for j in range(x.type.width)]


_INVERSES: dict[str, Callable[[Step, Node], Node]] = {
    "sklearn.pipeline.Pipeline": _pipeline,
    "sklearn.preprocessing.FunctionTransformer": _function_transformer,
    "sklearn.preprocessing.MaxAbsScaler": lambda step, x: Affine.in_place(
        _numbers(step, x), mul=step.estimator.scale_
    ),
    "sklearn.preprocessing.MinMaxScaler": lambda step, x: Affine.in_place(
        _numbers(step, x), sub=step.estimator.min_, div=step.estimator.scale_
    ),
    "sklearn.preprocessing.PowerTransformer": _power_transformer,
    "sklearn.preprocessing.QuantileTransformer": _quantile_transformer,
    "sklearn.preprocessing.RobustScaler": _robust_scaler,
    "sklearn.preprocessing.StandardScaler": _standard_scaler,
}
"""Inverses by the name under which the transformer is registered."""
