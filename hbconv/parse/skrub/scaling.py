"""SquashingScaler: a robust scale, then a smooth limit.

StringEncoder: texts become the first components of their weighted n-grams.
"""

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
    FillObjects,
    IsMissing,
    Map,
    Multiply,
    Node,
    Quotient,
    Relation,
    Select,
)
from hbconv.parse.common.linear_scores import promote
from hbconv.parse.common.text_columns import MISSING, NA, item_column
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
        wide = promote(own, scaler.median_)
        parts.append(CastLike(Affine.of(wide, sub=scaler.median_, mul=scaler.scale_), own))
    if est.zero_cols_.any():
        own = _columns(x, est.zero_cols_)
        parts.append(Choose(IsMissing(own), own, _constant(own, 0.0)))
    kinds = (est.robust_cols_, est.minmax_cols_, est.zero_cols_)
    order = np.argsort(np.concatenate([np.flatnonzero(own) for own in kinds]))
    return Select(concat(parts), Array(order.astype(np.int32)))


def _columns(x: Node, chosen: np.ndarray) -> Node:
    return Select(x, Array(np.flatnonzero(chosen).astype(np.int32)))


_MISSING = (None, float("nan"), NA, MISSING)


@parses("skrub.StringEncoder", features=item_column, frames=lambda _: "pandas")
def parse_string_encoder(step: Step) -> Node:
    """Weigh n-grams in float64, project them in float32, and divide by one scale.

    A missing text is an empty one.
    Where there are few n-grams, the first of them are kept instead of components.
    """
    est = step.estimator
    texts = FillObjects(step.x, ("",), _MISSING)
    weighed = Cast(step.transform(est.vectorizer_, texts, "vectorizer_"), "float32")
    if hasattr(est, "tsvd_"):
        components = step.transform(est.tsvd_, weighed, "tsvd_")
    else:
        components = Select(weighed, Array(np.arange(est.n_components_, dtype=np.int32)))
    return Affine.of(components, div=est.scaling_factor_)
