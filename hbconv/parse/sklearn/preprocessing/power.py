"""PowerTransformer: a power of each column, then perhaps a scaler.

QuantileTransformer: the share of values below, and its normal quantile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    BoxCox,
    Cast,
    CastLike,
    Choose,
    Clip,
    Compare,
    ConstantRows,
    Interpolate,
    IsOutside,
    Map,
    Node,
    NormalQuantile,
    Output,
    Power,
    Select,
    YeoJohnson,
    sparse_form,
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


_BOUND = 1e-7
"""Distance to the outermost quantiles, and to 0 and 1, that counts as none."""


@parses("sklearn.preprocessing.QuantileTransformer")
def parse_quantile_transformer(step: Step) -> dict[str, Output]:
    """Map values to shares, then shares to a normal distribution.

    Entries that a sparse matrix leaves out stay zero.
    """
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float"), allow_nan=True)
    shares = CastLike(_shares(step, x), x)
    normal = step.require("output_distribution", "uniform", "normal") == "normal"
    node: Node = CastLike(_normal(shares), x) if normal else shares
    if not est.ignore_implicit_zeros:
        step.check_sparse(
            Compare.of(x, "lt", 0.0),
            f"A sparse matrix must hold no negative values (step {step.where!r}).",
        )
    node = step.by_form(node, Choose(Compare.of(x, "eq", 0.0), x, node))
    return {"transform": Output(node, sparse_form(step.x_sparse, "csc", arrays=True))}


def _shares(step: Step, x: Node) -> Node:
    """Interpolate from the left and from the right, and take the mean.

    Quantiles repeat where values do, so the two sides differ.
    """
    quantiles = np.asarray(step.estimator.quantiles_, dtype=np.float64).T
    shares = np.broadcast_to(step.estimator.references_, quantiles.shape)
    left = Interpolate(x, Array(quantiles), Array(shares))
    right = Interpolate(Map(x, "neg"), Array(-quantiles[:, ::-1]), Array(-shares[:, ::-1]))
    return _at_the_bounds(step, x, Affine.of(Add((left, Map(right, "neg"))), mul=0.5))


def _at_the_bounds(step: Step, x: Node, shares: Node) -> Node:
    """Return exactly 0 and 1 at the outermost quantiles, for a normal output near them."""
    low, high = (Array(step.estimator.quantiles_[end].astype(np.float64)) for end in (0, -1))
    zeros, ones = (ConstantRows(x, Array(np.full(x.type.width, value))) for value in (0.0, 1.0))
    if step.estimator.output_distribution == "uniform":
        is_low = Compare(x, "eq", low)
        is_high = Compare(x, "eq", high)
    else:
        is_low = Compare(Affine.of(x, sub=_BOUND), "lt", low)
        is_high = Compare(Affine.of(x, add=_BOUND), "gt", high)
    return Choose(is_low, zeros, Choose(is_high, ones, shares))


def _normal(shares: Node) -> Node:
    """Clip shares so that their normal quantiles are finite, as the source model does."""
    least = _BOUND - np.spacing(1)
    return NormalQuantile(Clip.of(Cast(shares, "float64"), least, 1 - least))


@inverts("sklearn.preprocessing.QuantileTransformer", takes_sparse=True)
def invert_quantile_transformer(step: Step) -> Output:
    """Interpolate the quantiles of each column; entries that a sparse matrix leaves out stay zero.

    For a normal output, shares within 1e-7 of 0 and 1 count as 0 and 1.
    """
    x = finite(step)
    normal = step.require("output_distribution", "uniform", "normal") == "normal"
    share: Node = Cast(x, "float64")
    share = _share_below(share) if normal else share
    quantiles = np.asarray(step.estimator.quantiles_).T
    references = np.broadcast_to(step.estimator.references_, quantiles.shape)
    values: Node = Interpolate(share, Array(references), Array(quantiles))
    if normal:
        first, last = (ConstantRows(x, Array(quantiles[:, end])) for end in (0, -1))
        values = Choose(Compare.of(Affine.of(share, add=_BOUND), "gt", 1.0), last, values)
        values = Choose(Compare.of(Affine.of(share, sub=_BOUND), "lt", 0.0), first, values)
    node: Node = CastLike(values, x)
    node = step.by_form(node, Choose(Compare.of(x, "eq", 0.0), x, node))
    return Output(node, sparse_form(step.x_sparse, "csc", arrays=True))


def _share_below(x: Node) -> Node:
    """Return the share of a normal distribution that lies below x."""
    return Affine.of(Map(Affine.of(x, div=np.sqrt(2.0)), "erf"), add=1.0, mul=0.5)
