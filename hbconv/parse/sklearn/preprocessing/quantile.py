"""QuantileTransformer: the share of values below, and its normal quantile."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    CastLike,
    Choose,
    Clip,
    Compare,
    ConstantRows,
    Interpolate,
    Map,
    Node,
    NormalQuantile,
    Output,
    sparse_form,
)
from hbconv.parse.inverses import finite, inverts
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

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
