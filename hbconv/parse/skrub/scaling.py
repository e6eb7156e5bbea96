"""SquashingScaler: a robust scale, then a smooth limit."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Cast,
    CastLike,
    Choose,
    Compare,
    ConstantRows,
    IsMissing,
    Map,
    Multiply,
    Node,
    Quotient,
    Relation,
    Select,
)
from hbconv.parse.common.promotion import promoted
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, concat


@parses("skrub.SquashingScaler")
def parse_squashing_scaler(step: Step) -> Node:
    """Scale, then divide by ``sqrt(1 + (x / limit) ** 2)``; infinite values become the limit."""
    limit = float(step.estimator.max_absolute_value)
    step.refuse_sparse()
    x = Cast(step.x, "float")
    above = Compare.of(x, "eq", np.inf)
    below = Compare.of(x, "eq", -np.inf)
    finite = Choose(Relation(above, below, "or"), _constant(x, np.nan), x)
    scaled = _scaled(step, finite)
    share = Affine.of(scaled, div=limit)
    root = Map(Affine.of(Multiply((share, share)), add=1.0), "sqrt")
    clipped = Choose(above, _constant(x, limit), Quotient((scaled, root)))
    return Choose(below, _constant(x, -limit), clipped)


def _constant(x: Node, value: float) -> Node:
    """Return the same number in each column of x, in its dtype."""
    return CastLike(ConstantRows(x, Array(np.full(x.type.width, value))), x)


def _scaled(step: Step, x: Node) -> Node:
    """Scale columns by quantiles, by their range where these are equal, and constants to 0."""
    est = step.estimator
    parts: list[Node] = []
    if est.robust_cols_.any():
        own = _columns(x, est.robust_cols_)
        parts.append(CastLike(step.transform(est.robust_scaler_, own, "robust_scaler_"), own))
    if est.minmax_cols_.any():
        own = _columns(x, est.minmax_cols_)
        scaler = est.minmax_scaler_
        wide = promoted(own, scaler.median_)
        parts.append(CastLike(Affine.of(wide, sub=scaler.median_, mul=scaler.scale_), own))
    if est.zero_cols_.any():
        own = _columns(x, est.zero_cols_)
        parts.append(Choose(IsMissing(own), own, _constant(own, 0.0)))
    kinds = (est.robust_cols_, est.minmax_cols_, est.zero_cols_)
    order = np.argsort(np.concatenate([np.flatnonzero(own) for own in kinds]))
    return Select(concat(parts), Array(order.astype(np.int32)))


def _columns(x: Node, chosen: np.ndarray) -> Node:
    return Select(x, Array(np.flatnonzero(chosen).astype(np.int32)))
