"""PowerTransformer: a power of each column, then perhaps a scaler."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    BoxCox,
    Cast,
    CastLike,
    Choose,
    Compare,
    IsOutside,
    Map,
    Node,
    Power,
    Select,
    YeoJohnson,
)
from hbconv.parse.inverses import finite, inverted, inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, concat

_LARGEST = 709.0
"""Logarithm of nearly the largest number."""


@parses("sklearn.preprocessing.PowerTransformer")
def parse_power_transformer(step: Step) -> Node:
    """Compute the powers, round to the input's dtype, scale."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"), allow_nan=True)
    lambdas = np.asarray(est.lambdas_)
    powers = (
        _yeo_johnson(x, lambdas)
        if step.require("method", "yeo-johnson", "box-cox") == "yeo-johnson"
        else _box_cox(step, x, lambdas)
    )
    rounded = CastLike(powers, x)
    return step.transform(est._scaler, rounded, "_scaler") if est.standardize else rounded


def _box_cox(step: Step, x: Node, lambdas: npt.NDArray[Any]) -> Node:
    """Compute in float64 as ``scipy.special.boxcox``.

    Rows for which a power would overflow are refused; scipy computes these differently.
    """
    step.check(
        Compare.of(x, "le", 0.0),
        f"The Box-Cox transformation (step {step.where!r}) takes positive numbers alone.",
    )
    powers = _powers(lambdas)
    with np.errstate(divide="ignore", over="ignore"):
        ends = np.exp(_LARGEST / powers.data)
    low = np.where(powers.data < 0, ends, 0.0)
    high = np.where(powers.data > 0, ends, np.inf)
    step.check(IsOutside.of(x, low, high), f"Powers of the input overflow (step {step.where!r}).")
    return BoxCox(Cast(x, "float64"), powers)


def _yeo_johnson(x: Node, lambdas: npt.NDArray[Any]) -> Node:
    """Compute as ``scipy.stats.yeojohnson``: powers of ``1 + x`` or ``1 - x`` by the sign of x.

    ``2 - lambda`` is rounded as lambda is.
    """
    return YeoJohnson(x, Array(lambdas), Array(2 - lambdas))


def _powers(exponents: npt.NDArray[Any]) -> Array:
    """Return float64 exponents, with zero for those that the source model takes for zero."""
    return Array(np.where(np.abs(exponents) < 1e-19, 0.0, exponents).astype(np.float64))


@inverts("sklearn.preprocessing.PowerTransformer")
def invert_power_transformer(step: Step) -> Node:
    """Invert the scaler, then each column in float64, and round to x's dtype."""
    est = step.estimator
    x = finite(step)
    x = inverted(step, est._scaler, x, "_scaler").node if est.standardize else x
    invert = {"yeo-johnson": _inverse_yeo_johnson, "box-cox": _inverse_box_cox}[
        step.require("method", "yeo-johnson", "box-cox")
    ]
    columns = [Cast(Select(x, Array.of([j], np.int32)), "float64") for j in range(x.type.width)]
    powers = zip(columns, est.lambdas_, strict=True)
    return CastLike(concat([invert(column, power) for column, power in powers]), x)


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
