"""Estimators of scikit-lego: around others, linear regressors, and transformers of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Add,
    Affine,
    ArgMax,
    Cast,
    CastLike,
    Choose,
    Clip,
    Compare,
    Concat,
    ConstantRows,
    FrameFormat,
    Interpolate,
    IsOtherDtype,
    Labels,
    Linear,
    LookupRows,
    Map,
    Minimum,
    Multiply,
    Node,
    Normalize,
    Output,
    Relation,
    Schema,
    Select,
    sparse_form,
)
from hbconv.parse.common.linear_scores import promote
from hbconv.parse.common.members import as_numbers, as_vector
from hbconv.parse.registry import parses
from hbconv.parse.schema import as_validated, positions_by_name, read_schema, transform_frame
from hbconv.parse.step import Step, concat, select


def _columns(est: Any) -> Schema | None:
    return as_validated(est, read_schema(est.estimator_))


def _columns_of_classifier(est: Any) -> Schema | None:
    return as_validated(est, read_schema(est.classifier_))


def _columns_of_first(est: Any) -> Schema | None:
    return as_validated(est, read_schema(next(iter(est.estimators_.values()))))


def _require_floats(step: Step) -> Node:
    """Return the rows as floats; those that are not finite are refused."""
    step.refuse_sparse()
    return step.require_finite(Cast(step.x, "float"))


@parses("sklego.meta.Thresholder", features=_columns)
def parse_thresholder(step: Step) -> dict[str, Output]:
    """Take the second class where its probability is above the threshold."""
    est = step.estimator
    if est.check_input:
        step.refuse_sparse()
    inner = step.child(est.estimator_, step.x, "estimator_", x_sparse=step.x_sparse)
    probabilities = inner["predict_proba"]
    second = Select(as_numbers(step, probabilities), Array.of([1], np.int32))
    # numpy compares float32 with a Python number in float32, and with its own float64 in float64.
    weak = not isinstance(est.threshold, np.generic)
    above = Compare(second, "gt", Array([float(est.threshold)]), "int32", weak=weak)
    return {"predict": Output(above, Labels(Array(est.classes_))), "predict_proba": probabilities}


@parses("sklego.meta.DecayEstimator", features=_columns)
def parse_decay_estimator(step: Step) -> dict[str, Output]:
    """Predict as the estimator that was fitted with decaying weights."""
    inner = step.child(step.estimator.estimator_, step.x, "estimator_", x_sparse=step.x_sparse)
    return {"predict": inner["predict"]}


@parses("sklego.meta.EstimatorTransformer", features=_columns)
def parse_estimator_transformer(step: Step) -> Node:
    """Return what a method of the estimator answers, as columns."""
    est = step.estimator
    inner = (
        step.child(est.estimator_, _require_floats(step), "estimator_")
        if est.check_input
        else step.child(est.estimator_, step.x, "estimator_", x_sparse=step.x_sparse)
    )
    if est.predict_func not in inner:
        raise step.refuse("predict_func", est.predict_func, f"hbconv has {', '.join(inner)}.")
    answer = as_numbers(step, inner[est.predict_func])
    # The source reshapes to one column, so rows would no longer match.
    if answer.type.width > 1 and not est.multi_output_:
        hint = "The source lays several columns below each other; name a method that answers one."
        raise step.refuse("predict_func", est.predict_func, hint)
    return answer


@parses("sklego.meta.OrdinalClassifier", features=_columns_of_first)
def parse_ordinal_classifier(step: Step) -> dict[str, Output]:
    """Subtract neighbouring probabilities that the class is at most some one."""
    est = step.estimator
    step.refuse_sparse()
    x = step.require_finite()
    below = [
        Select(_probabilities(step, x, member, f"estimators_[{i}]"), Array.of([1], np.int32))
        for i, member in enumerate(est.estimators_.values())
    ]
    each = Cast(concat(below), "float64")
    none = ConstantRows(each, Array([0.0]))
    every = ConstantRows(each, Array([1.0]))
    lower = Map(Concat((none, each)), "neg")
    probabilities = Add((Concat((each, every)), lower))
    return _class_outputs(step, probabilities)


@parses("sklego.meta.SubjectiveClassifier", features=_columns)
def parse_subjective_classifier(step: Step) -> dict[str, Output]:
    """Weigh probabilities by the priors, by what a predicted class tells, or by both."""
    est = step.estimator
    evidence = step.require("evidence", "predict_proba", "confusion_matrix", "both")
    likelihoods = Cast(
        _probabilities(step, _require_floats(step), est.estimator_, "estimator_"), "float64"
    )
    if evidence == "predict_proba":
        prior = np.array([est.prior[label] for label in est.classes_])
        return _class_outputs(step, Normalize(Affine.of(likelihoods, mul=prior), "l1"))
    posteriors = LookupRows(
        ArgMax(likelihoods), Array(np.ascontiguousarray(est.posterior_matrix_.T))
    )
    if evidence == "confusion_matrix":
        return _class_outputs(step, posteriors)
    return _class_outputs(step, Normalize(Multiply((posteriors, likelihoods)), "l1"))


@parses("sklego.meta.ZeroInflatedRegressor", features=_columns_of_classifier)
def parse_zero_inflated_regressor(step: Step) -> dict[str, Output]:
    """Predict a number where the classifier tells that it is not zero."""
    est = step.estimator
    step.refuse_sparse()
    x = step.require_finite()
    classifier = step.child(est.classifier_, x, "classifier_")
    value = as_vector(step, step.child(est.regressor_, x, "regressor_")["predict"])
    is_other = Compare.of(Cast(as_vector(step, classifier["predict"]), "float64"), "ne", 0.0)
    zero = ConstantRows(x, Array([0.0]))
    outputs = {"predict": Output(Choose(is_other, Cast(value, "float64"), zero), VECTOR)}
    if "predict_proba" not in classifier:
        return outputs
    probabilities = as_numbers(step, classifier["predict_proba"])
    chance = Select(probabilities, Array.of([1], np.int32))
    return {**outputs, "score_samples": Output(Multiply((chance, value)), VECTOR)}


def _probabilities(step: Step, x: Node, member: Any, name: str) -> Node:
    return as_numbers(step, step.child(member, x, name)["predict_proba"])


def _class_outputs(step: Step, probabilities: Node) -> dict[str, Output]:
    labels = Labels(Array(step.estimator.classes_))
    return {
        "predict": Output(ArgMax(probabilities), labels),
        "predict_proba": Output(probabilities),
    }


@parses(
    "sklego.linear_model.ImbalancedLinearRegression",
    "sklego.linear_model.LADRegression",
    "sklego.linear_model.QuantileRegression",
)
def parse_minimizer(step: Step) -> dict[str, Output]:
    """Predict as a linear regression, whose coefficients it has."""
    step.refuse_sparse()
    return step.like("sklearn.linear_model.LinearRegression")


@parses("sklego.linear_model.DeadZoneRegressor")
def parse_dead_zone_regressor(step: Step) -> dict[str, Output]:
    """Return one product, without an intercept."""
    step.refuse_sparse()
    return {"predict": Output(Linear.of(step.require_finite(), step.estimator.coef_), VECTOR)}


def _table_of(names: Sequence[object]) -> Schema:
    return Schema.table([str(name) for name in names])


def _frame_of(names: Sequence[object]) -> FrameFormat:
    return FrameFormat("given", tuple(map(str, names)))


def _choose_columns(step: Step, parameter: str, names: Sequence[object]) -> dict[str, Output]:
    """Keep columns, found by name, each of its own dtype."""
    places = positions_by_name(step, parameter, names)
    return transform_frame([select(step.x, [place]) for place in places])


@parses(
    "sklego.preprocessing.ColumnSelector",
    features=lambda est: _table_of(est.columns_),
    frames=lambda est: _frame_of(est.columns_),
)
def parse_column_selector(step: Step) -> dict[str, Output]:
    """Keep some columns."""
    return _choose_columns(step, "columns", step.estimator.columns_)


@parses(
    "sklego.preprocessing.ColumnDropper",
    features=lambda est: _table_of(est.feature_names_),
    frames=lambda est: _frame_of(est.feature_names_),
)
def parse_column_dropper(step: Step) -> dict[str, Output]:
    """Keep the other columns, in the fitted order."""
    return _choose_columns(step, "columns", step.estimator.feature_names_)


@parses(
    "sklego.preprocessing.TypeSelector",
    features=lambda est: _table_of(est.feature_names_),
    frames=lambda est: _frame_of(est.feature_names_),
)
def parse_type_selector(step: Step) -> dict[str, Output]:
    """Keep the columns that had some types in fitting; columns of other floats are refused."""
    names = step.estimator.feature_names_
    chosen = _choose_columns(step, "include", names)
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
        # Marked on the input: capping would hide which values were infinite.
        infinite = Relation(Compare.of(x, "eq", np.inf), Compare.of(x, "eq", -np.inf), "or")
        nothing = ConstantRows(x, Array(np.full(x.type.width, np.nan)))
        x = Choose(infinite, CastLike(nothing, x), x)
    return Clip.of(promote(x, step.estimator.quantiles_), low, high)


@parses("sklego.preprocessing.OrthogonalTransformer")
def parse_orthogonal_transformer(step: Step) -> Node:
    """Project, then divide by the lengths."""
    step.refuse_sparse()
    est = step.estimator
    projected = Linear.of(promote(step.require_finite(), est.inv_R_), est.inv_R_)
    lengths = est.normalization_vector_
    return Affine.of(promote(projected, lengths), div=lengths)


@parses("sklego.preprocessing.LinearEmbedder")
def parse_linear_embedder(step: Step) -> Node:
    """Multiply each column by its coefficient."""
    step.refuse_sparse()
    weights = np.asarray(step.estimator.coef_)
    x = step.require_finite() if step.estimator.check_input else step.x
    return Affine.of(promote(x, weights), mul=weights[0])


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
    """Transform as the column transformer inside."""
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
    nearer = Minimum((there, around))
    widths = Affine.of(nearer, div=est.width_)
    return Map(Map(Multiply((widths, widths)), "neg"), "exp")


def _is_wide(*bounds: Any) -> bool:
    """Tell whether numpy promotes float32 by the bounds, which it does not by Python numbers."""
    return any(isinstance(bound, np.generic) and bound.dtype != np.float32 for bound in bounds)
