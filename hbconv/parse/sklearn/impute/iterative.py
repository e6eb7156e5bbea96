"""IterativeImputer: predict each column from the others, round after round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Cast,
    CastLike,
    Choose,
    Clip,
    Compare,
    IsMissing,
    Linear,
    Node,
    Select,
    Together,
)
from hbconv.parse.registry import parses
from hbconv.parse.step import Conditions, Step, concat


@parses("sklearn.impute.IterativeImputer")
def parse_iterative_imputer(step: Step) -> Node:
    """Fill each column first, then predict it by each estimator of the sequence."""
    est = step.estimator
    x = Cast(step.x, "float")
    step.require("sample_posterior", False)
    if not isinstance(est.missing_values, int | float | np.number):
        raise step.refuse("missing_values", est.missing_values, "hbconv handles NaN and numbers.")
    filled = step.transform(est.initial_imputer_, x, "initial_imputer_")
    missing = IsMissing(x, float(est.missing_values))
    kept = np.flatnonzero(est.keep_empty_features | ~est._is_empty_feature)
    if est.n_iter_:
        filled = _predicted(step, filled, Select(missing, Array.of(kept, np.int32)))
    return (
        concat([filled, Select(missing, Array.of(est.indicator_.features_, np.int32))])
        if est.add_indicator
        else filled
    )


def _predicted(step: Step, filled: Node, missing: Node) -> Node:
    """Replace the missing values of one column after another, each rounded to the input's dtype."""
    est = step.estimator
    empty = (
        est._is_empty_feature
        if est.keep_empty_features
        else np.zeros(filled.type.width, dtype=bool)
    )
    if not empty.any():
        _refuse_all_missing(step, missing)
    filled = Together(filled)
    missing = Together(missing)
    columns = [_column(filled, j) for j in range(filled.type.width)]
    for i, (j, neighbors, estimator) in enumerate(est.imputation_sequence_):
        if not empty[j]:
            prediction = _prediction(
                step,
                concat([columns[k] for k in neighbors]),
                estimator,
                f"imputation_sequence_[{i}]",
            )
            bounded = Clip.of(Cast(prediction, "float64"), est._min_value[j], est._max_value[j])
            columns[j] = Choose(_column(missing, j), CastLike(bounded, filled), columns[j])
    return concat(columns)


def _prediction(step: Step, x: Node, estimator: object, name: str) -> Node:
    """Predict one column, without the checks of the estimator: its input was filled by another."""
    found = Conditions(warnings=step.conditions.warnings)
    output = replace(step, conditions=found).child(estimator, x, name)["predict"]
    step.conditions.why_dense = step.conditions.why_dense or found.why_dense
    if output.classes is not None:
        raise step.refuse("estimator", type(estimator).__name__, "It must be a regressor.")
    return output.node


def _refuse_all_missing(step: Step, missing: Node) -> None:
    """Refuse rows of which none has any value.

    The source model leaves out the predictions where all rows of a batch are so.
    """
    count = Linear.of(Cast(missing, "float64"), np.ones(missing.type.width))
    step.check_every(
        Compare.of(count, "eq", missing.type.width),
        f"All rows hold missing values alone; step {step.where!r} answers such a row otherwise "
        "beside others. Leave it out, or give it with a row that has a value.",
    )


def _column(x: Node, position: int) -> Node:
    return Select(x, Array.of([position], np.int32))
