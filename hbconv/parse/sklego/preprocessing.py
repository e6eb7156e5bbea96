"""Transformers of columns: chosen, capped, projected, interpolated and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Cast,
    CastLike,
    Choose,
    Clip,
    Compare,
    ConstantRows,
    FrameFormat,
    Interpolate,
    IsOtherDtype,
    Linear,
    Map,
    Maximum,
    Multiply,
    Node,
    Output,
    Relation,
    Schema,
    Select,
    sparse_form,
)
from hbconv.parse.common.frames import transform_frame
from hbconv.parse.common.named_columns import positions_by_name
from hbconv.parse.common.promotion import promoted
from hbconv.parse.registry import parses
from hbconv.parse.schema import read_schema
from hbconv.parse.step import Step, select


def _named(names: Sequence[object]) -> Schema:
    return Schema.table([str(name) for name in names])


def _framed(names: Sequence[object]) -> FrameFormat:
    return FrameFormat("given", tuple(map(str, names)))


def _chosen(step: Step, parameter: str, names: Sequence[object]) -> dict[str, Output]:
    """Keep columns, found by name, each of its own dtype."""
    places = positions_by_name(step, parameter, names)
    return transform_frame([select(step.x, [place]) for place in places])


@parses(
    "sklego.preprocessing.ColumnSelector",
    features=lambda est: _named(est.columns_),
    frames=lambda est: _framed(est.columns_),
)
def parse_column_selector(step: Step) -> dict[str, Output]:
    """Keep some columns."""
    return _chosen(step, "columns", step.estimator.columns_)


@parses(
    "sklego.preprocessing.ColumnDropper",
    features=lambda est: _named(est.feature_names_),
    frames=lambda est: _framed(est.feature_names_),
)
def parse_column_dropper(step: Step) -> dict[str, Output]:
    """Keep the other columns, in the fitted order."""
    return _chosen(step, "columns", step.estimator.feature_names_)


@parses(
    "sklego.preprocessing.TypeSelector",
    features=lambda est: _named(est.feature_names_),
    frames=lambda est: _framed(est.feature_names_),
)
def parse_type_selector(step: Step) -> dict[str, Output]:
    """Keep the columns that had some types in fitting; columns of other floats are refused."""
    names = step.estimator.feature_names_
    chosen = _chosen(step, "include", names)
    for place, name in enumerate(names):
        dtype = str(step.estimator.X_dtypes_[name]).lower()
        if dtype in ("float32", "float64"):
            step.check(
                IsOtherDtype(select(chosen["transform"].node, [place]), dtype),
                f"Column {name!r} is not {dtype}, as in fitting {step.name} (step {step.where!r}).",
            )
    return chosen


def _as_given(identity: Any) -> FrameFormat | str:
    """Return rows as they are, unless they are checked, which makes an array of them."""
    return "default" if identity.check_X else FrameFormat("rows", None)


@parses("sklego.preprocessing.IdentityTransformer", frames=_as_given)
def parse_identity_transformer(step: Step) -> dict[str, Output]:
    """Return the rows as they are, checked where that is asked for."""
    if not step.estimator.check_X:
        return {"transform": Output(step.x, sparse_form(step.x_sparse, "kept", arrays=True))}
    step.refuse_sparse()
    return {"transform": Output(step.require_finite())}


@parses("sklego.preprocessing.ColumnCapper")
def parse_column_capper(step: Step) -> Node:
    """Cap by quantiles; infinite values may count as missing first."""
    step.refuse_sparse()
    low, high = step.estimator.quantiles_
    x: Node = Cast(step.x, "float")
    if step.estimator.discard_infs:
        infinite = Relation(Compare.of(x, "eq", np.inf), Compare.of(x, "eq", -np.inf), "or")
        nothing = ConstantRows(x, Array(np.full(x.type.width, np.nan)))
        x = Choose(infinite, CastLike(nothing, x), x)
    return Clip.of(promoted(x, step.estimator.quantiles_), low, high)


@parses("sklego.preprocessing.OrthogonalTransformer")
def parse_orthogonal_transformer(step: Step) -> Node:
    """Project, then divide by the lengths."""
    step.refuse_sparse()
    est = step.estimator
    projected = Linear.of(promoted(step.require_finite(), est.inv_R_), est.inv_R_)
    lengths = est.normalization_vector_
    return Affine.of(promoted(projected, lengths), div=lengths)


@parses("sklego.preprocessing.LinearEmbedder")
def parse_linear_embedder(step: Step) -> Node:
    """Multiply each column by its coefficient."""
    step.refuse_sparse()
    weights = np.asarray(step.estimator.coef_)
    x = step.require_finite() if step.estimator.check_input else step.x
    return Affine.of(promoted(x, weights), mul=weights[0])


@parses("sklego.preprocessing.IntervalEncoder")
def parse_interval_encoder(step: Step) -> Node:
    """Interpolate each column through the heights at its quantiles, in float64."""
    step.refuse_sparse()
    est = step.estimator
    x = Cast(step.require_finite(), "float64")
    return Interpolate(x, Array(est.quantiles_), Array(est.heights_))


@parses(
    "sklego.preprocessing.RepeatingBasisFunction", features=lambda est: read_schema(est.pipeline_)
)
def parse_repeating_basis_function(step: Step) -> dict[str, Output]:
    """Answer as the column transformer inside."""
    step.refuse_sparse()
    return step.child(step.estimator.pipeline_, step.x, "pipeline_")


@parses("sklego.preprocessing.repeatingbasis._RepeatingBasisFunction")
def parse_basis(step: Step) -> Node:
    """Return bells about points of a circle, in float64: ``exp(-(distance / width) ** 2)``."""
    step.refuse_sparse()
    est = step.estimator
    first, last = est.input_range
    x = Cast(step.require_finite(), "float64" if _is_wide(first, last) else "float")
    share = Cast(Affine.of(x, sub=first, div=last - first), "float64")
    bases = np.asarray(est.bases_)
    repeated = Select(share, Array(np.zeros(len(bases), np.int32)))
    there = Map(Affine.of(repeated, sub=bases), "abs")
    around = Affine.of(there, mul=-1.0, add=1.0)
    nearer = Map(Maximum((Map(there, "neg"), Map(around, "neg"))), "neg")
    widths = Affine.of(nearer, div=est.width_)
    return Map(Map(Multiply((widths, widths)), "neg"), "exp")


def _is_wide(*bounds: Any) -> bool:
    """Tell whether numpy promotes float32 by the bounds, which it does not by Python numbers."""
    return any(isinstance(bound, np.generic) and bound.dtype != np.float32 for bound in bounds)
