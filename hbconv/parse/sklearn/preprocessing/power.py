"""PowerTransformer: a power of each column, then perhaps a scaler."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import BoxCox, Cast, CastLike, Compare, IsOutside, Node, YeoJohnson
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

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
