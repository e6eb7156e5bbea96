"""Imputers: missing values become a statistic, a mean of neighbours, or a prediction.

Missing texts are folded into the vocabulary of the encoder after them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    AreBools,
    Cast,
    CastLike,
    Choose,
    Clip,
    Compare,
    ConstantRows,
    DonorDistances,
    DonorMeans,
    FillMissing,
    FillObjects,
    Impute,
    InverseDistances,
    IsMissing,
    IsOtherDtype,
    Linear,
    NearestDonors,
    Node,
    OnlyNumbers,
    Output,
    PartitionSearch,
    Select,
    SharedProducts,
    Together,
    sparse_form,
)
from hbconv.parse.common.text_columns import (
    NA,
    columns_of,
    is_missing_text,
    is_nan,
    plain,
    refuse_na,
    with_nan,
)
from hbconv.parse.common.versions import find_empty_columns, read_fill_dtype
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.pipeline import output_library
from hbconv.parse.step import Conditions, Step, concat

_STATISTICS = ("mean", "median")
_COMPARED = "compares it with its missing value, at which the source raises."


@parses("sklearn.impute.SimpleImputer")
def parse_simple_imputer(step: Step) -> dict[str, Output]:
    """Fill each column with its statistic; columns without one are dropped."""
    est = step.estimator
    statistics = est.statistics_.tolist()
    # A column of which fitting saw only missing values has the statistic NaN.
    kept = [j for j, s in enumerate(statistics) if est.keep_empty_features or not is_nan(s)]
    texts = _are_texts(step, statistics)
    is_object = est._fit_dtype.kind == "O"
    if is_object:
        _compare_objects(step, texts)
    else:
        step.require_finite(allow_nan=_allows_nan(step))
        _require_fillable(step)
    filled = _fill_objects if is_object else _fill_numbers
    parts = [filled(step, kept)] if kept else []
    if est.indicator_ is not None:
        parts += [
            _mask(step, list(run), is_text=is_text)
            for is_text, run in groupby(
                _indicator_columns(step, est.indicator_), key=texts.__getitem__
            )
        ]
    node = concat(parts) if parts else _columns(step, [])
    _refuse_sparse_zeros(step)
    # Without a text among the fills, numbers are still returned as objects.
    dtype = "object" if is_object and not any(isinstance(s, str) for s in statistics) else None
    return {
        "transform": Output(
            node, sparse_form(step.x_sparse, "csc", arrays=est.indicator_ is None), dtype
        )
    }


@inverts("sklearn.impute.SimpleImputer")
def invert_simple_imputer(step: Step) -> Node:
    """Refuse: the result of a row depends on the others."""
    hint = (
        "The source model leaves out each column that all rows of a call miss, so that each answer "
        "depends on the other rows."
        if step.estimator.add_indicator
        else "The source model then cannot invert either."
    )
    raise step.refuse("add_indicator", step.estimator.add_indicator, hint)


@parses("sklearn.impute.MissingIndicator")
def parse_missing_indicator(step: Step) -> dict[str, Output]:
    """Show where values are missing.

    A column that had no missing value when fitting may be refused.
    """
    est = step.estimator
    step.require("features", "missing-only", "all")
    if getattr(est, "_precomputed", False):
        raise step.refuse(
            "precomputed",
            value=True,
            hint="It was fitted on a mask, and takes masks alone. Fit it on rows.",
        )
    is_text = isinstance(est.missing_values, str) or est.missing_values is None
    if is_text:
        _compare_objects(step, [True] * est.n_features_in_)
    else:
        refuse_na(step, step.x, f"The {step.place} {_COMPARED}")
        step.require_finite(allow_nan=_allows_nan(step))
    shown = _indicator_columns(step, est)
    fresh = sorted(set(range(est.n_features_in_)) - set(shown))
    if est.features == "missing-only" and est.error_on_new and fresh:
        message = (
            "Columns that had no missing values when fitting have some now, among columns "
            f"{fresh} (step {step.where!r})."
        )
        step.check(_mask(step, fresh, is_text=is_text), message)
    _refuse_sparse_zeros(step)
    sparse = step.x_sparse if est.sparse == "auto" else bool(est.sparse)
    return {"transform": Output(_mask(step, shown, is_text=is_text), sparse_form(sparse, "csc"))}


def _indicator_columns(step: Step, indicator: Any) -> list[int]:
    """Return the columns of which an indicator shows where values are missing."""
    columns: list[int] = indicator.features_.tolist()
    # The mask is made of runs of columns in their order.
    if columns != sorted(set(columns)):
        raise step.damaged("features_ does not name columns in order, each once")
    return columns


def _refuse_sparse_zeros(step: Step) -> None:
    """Refuse a sparse matrix where zero is missing: all absent values would be."""
    missing = step.estimator.missing_values
    if isinstance(missing, int | float | np.number) and missing == 0:
        step.refuse_sparse("takes zeros for missing, which a sparse matrix leaves out")


def _fill_numbers(step: Step, columns: list[int]) -> Node:
    est = step.estimator
    x = _columns(step, columns)
    x = Cast(x, "float") if est.strategy in _STATISTICS or callable(est.strategy) else x
    # transform casts the statistics to the dtype of fitting before it fills.
    fill = est.statistics_[columns].astype(read_fill_dtype(est))
    return Impute(x, Array(fill), _missing_number(step))


def _fill_objects(step: Step, columns: list[int]) -> Node:
    """Fill columns whose values are texts or numbers, as those who read them find out."""
    fill = [plain(value) for value in step.estimator.statistics_[columns].tolist()]
    odd = next((v for v in fill if not isinstance(v, str | bytes | int | float | None)), None)
    if odd is not None:
        raise step.refuse(
            "statistics_",
            odd,
            "Columns of objects must hold texts, numbers and None. Convert them before fitting.",
        )
    filled = FillObjects(_columns(step, columns), tuple(fill), _missing_objects(step))
    return with_nan(filled) if output_library(step.estimator) == "pandas" else filled


def _mask(step: Step, columns: list[int], *, is_text: bool) -> Node:
    if is_text and columns:
        return concat([is_missing_text(step, j, _missing_objects(step)) for j in columns])
    # MissingIndicator keeps no dtype of fitting: it compares rows of objects too.
    reads_objects = getattr(step.estimator, "_fit_dtype", np.dtype(object)).kind == "O"
    x = _columns(step, columns)
    return IsMissing(OnlyNumbers(x) if reads_objects else x, _missing_number(step))


def _columns(step: Step, columns: list[int]) -> Node:
    """Select columns of one array of the common dtype, unless texts may be among them."""
    if columns == list(range(step.x.type.width)):
        return step.x
    if getattr(step.estimator, "_fit_dtype", np.dtype(float)).kind == "O":
        return columns_of(step.x, columns)
    return Select(step.x, Array(np.array(columns, dtype=np.int32)))


def _missing_objects(step: Step) -> tuple[str | float | None, ...]:
    missing = step.estimator.missing_values
    if _is_pandas_na(missing):
        return (None, float("nan"), NA)
    return (missing.item() if isinstance(missing, np.generic) else missing,)


def _missing_number(step: Step) -> float:
    missing = step.estimator.missing_values
    if _is_pandas_na(missing):
        return float("nan")
    if not isinstance(missing, int | float | np.number):
        raise step.refuse(
            "missing_values", missing, "In columns of numbers hbconv handles NaN and numbers."
        )
    if (
        isinstance(missing, np.floating)
        and not is_nan(missing)
        # A number that float32 holds exactly compares alike in both dtypes.
        and float(np.float32(missing)) != float(missing)
    ):
        raise step.refuse(
            "missing_values",
            missing,
            "numpy compares it with float32 columns in float64. Pass a Python number.",
        )
    return float(missing)


def _are_texts(step: Step, statistics: list[Any]) -> list[bool]:
    """Tell of each column whether its missing values are looked for among texts.

    A constant is filled in whatever the column holds: then the missing value decides.
    """
    missing = step.estimator.missing_values
    if isinstance(missing, str) or missing is None:
        return [True] * len(statistics)
    if step.estimator.strategy == "constant" and not _allows_nan(step):
        return [False] * len(statistics)
    return [isinstance(value, str) for value in statistics]


def _allows_nan(step: Step) -> bool:
    missing = step.estimator.missing_values
    return is_nan(missing) or _is_pandas_na(missing)


def _require_fillable(step: Step) -> None:
    """Refuse rows of bools, and of ints where a constant is a float: they are not cast before."""
    est = step.estimator
    # Other strategies cast the rows to floats first.
    if est.strategy not in ("most_frequent", "constant"):
        return
    message = f"X holds bools alone, which the step {step.where!r} refuses. Give ints or floats."
    step.check(AreBools(step.x), message)
    dtype = read_fill_dtype(est)
    if est.strategy == "constant" and dtype.kind == "f":
        message = (
            f"The dtype of the filling value ({dtype}) cannot be cast to that of the "
            f"rows, which are ints, as the step {step.where!r} requires. Give floats."
        )
        step.check(IsOtherDtype(step.x, "float"), message)


def _compare_objects(step: Step, texts: list[bool]) -> None:
    """Refuse NaN and NA among objects, unless they are missing values; infinity passes there."""
    if not _is_pandas_na(step.estimator.missing_values):
        refuse_na(step, step.x, f"The {step.place} {_COMPARED}")
    for j, is_text in () if _allows_nan(step) else enumerate(texts):
        is_missing = (
            is_missing_text(step, j, (float("nan"),))
            if is_text
            else IsMissing(columns_of(step.x, [j]))
        )
        step.check(
            is_missing,
            f"Input X contains NaN in column {j} (step {step.where!r}), which the step refuses.",
        )


def _is_pandas_na(value: object) -> bool:
    # By name, so that pandas need not be imported.
    return type(value).__name__ == "NAType"


@parses("sklearn.impute.KNNImputer")
def parse_knn_imputer(step: Step) -> dict[str, Output]:
    """Fill each column, then add the columns that show what was missing.

    A column without any value when fitting is dropped, or filled with 0.
    """
    est = step.estimator
    step.require("metric", "nan_euclidean")
    step.require("weights", "uniform", "distance", None)
    missing = _read_missing_value(step)
    x = step.require_finite(Cast(step.x, "float"), allow_nan=bool(np.isnan(missing)))
    # Distances know one missing value, NaN, whatever missing_values is.
    values = Impute(x, Array(np.full(x.type.width, np.nan)), missing)
    if not np.array_equal(
        est._mask_fit_X, est._fit_X == missing if missing == missing else np.isnan(est._fit_X)
    ):
        raise step.damaged("_mask_fit_X does not show where _fit_X is missing")
    fitted = np.where(est._mask_fit_X, np.nan, est._fit_X)
    parts = [_fill_columns(step, values, fitted)]
    if est.indicator_ is not None:
        shown = Select(x, Array.of(est.indicator_.features_, np.int32))
        parts.append(CastLike(IsMissing(shown, missing), x))
    return {"transform": Output(concat(parts))}


def _read_missing_value(step: Step) -> float:
    missing = step.estimator.missing_values
    if not isinstance(missing, int | float) or isinstance(missing, np.generic):
        raise step.refuse("missing_values", missing, "hbconv handles NaN and Python numbers.")
    return float(missing)


def _fill_columns(step: Step, x: Node, fitted: npt.NDArray[Any]) -> Node:
    """Fill each column by the mean of its donors; one without donors is dropped, or all 0."""
    est = step.estimator
    valid = np.flatnonzero(est._valid_mask)
    if not np.array_equal(valid, np.flatnonzero(~np.isnan(fitted).all(axis=0))):
        raise step.damaged("_valid_mask does not show which columns have a value")
    filled = FillMissing(x, _donor_means(step, x, fitted)) if len(valid) else x
    if len(valid) == x.type.width:
        return filled
    kept = Select(filled, Array.of(valid, np.int32))
    if not est.keep_empty_features:
        return kept
    empty = np.flatnonzero(~est._valid_mask)
    zeros = CastLike(ConstantRows(x, Array(np.zeros(len(empty)))), x)
    places = np.argsort(np.concatenate([valid, empty]))
    return Select(concat([kept, zeros]), Array.of(places, np.int32))


def _donor_means(step: Step, x: Node, fitted: npt.NDArray[Any]) -> Node:
    """Average what the nearest donors of each column have; the source's mean where none counts."""
    est = step.estimator
    points = Array(fitted)
    most = int((~np.isnan(fitted)).sum(axis=0).max())
    donors = NearestDonors(
        x,
        min(est.n_neighbors, most),
        PartitionSearch(),
        SharedProducts(points),
        weighed=est.weights == "distance",
    )
    distances = DonorDistances(x, donors, points)
    # The source takes the mean for rows that share no value with any donor.
    means = [
        np.ma.filled(np.ma.array(column, mask=mask).mean().astype(np.float64), 0.0)
        for column, mask in zip(est._fit_X.T, est._mask_fit_X.T, strict=True)
    ]
    return DonorMeans(donors, _donor_weights(step, distances), points, Array(np.array(means)))


def _donor_weights(step: Step, distances: Node) -> Node:
    """Return how much each donor counts: nothing where it shares no known value with the row."""
    unknown = IsMissing(distances)
    width = distances.type.width
    nothing = ConstantRows(distances, Array(np.zeros(width)))
    if step.estimator.weights == "distance":
        groups = step.estimator._fit_X.shape[1]
        return Choose(unknown, nothing, InverseDistances(distances, groups))
    return Choose(unknown, nothing, ConstantRows(distances, Array(np.ones(width))))


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
    kept = np.flatnonzero(est.keep_empty_features | ~find_empty_columns(est))
    if est.n_iter_:
        filled = _predict_columns(step, filled, Select(missing, Array.of(kept, np.int32)))
    return (
        concat([filled, Select(missing, Array.of(est.indicator_.features_, np.int32))])
        if est.add_indicator
        else filled
    )


def _predict_columns(step: Step, filled: Node, missing: Node) -> Node:
    """Replace the missing values of one column after another, each rounded to the input's dtype."""
    est = step.estimator
    empty = (
        find_empty_columns(est)
        if est.keep_empty_features
        else np.zeros(filled.type.width, dtype=bool)
    )
    if not empty.any():
        _refuse_all_missing(step, missing)
    # Columns are picked from one matrix, so that rounds of predictions have one form.
    filled = Together(filled)
    missing = Together(missing)
    columns = [_select_column(filled, j) for j in range(filled.type.width)]
    for i, (j, neighbors, estimator) in enumerate(est.imputation_sequence_):
        if not empty[j]:
            prediction = _prediction(
                step,
                concat([columns[k] for k in neighbors]),
                estimator,
                f"imputation_sequence_[{i}]",
            )
            # numpy clips between float64 bounds, then the value is stored in the dtype of the rows.
            bounded = Clip.of(Cast(prediction, "float64"), est._min_value[j], est._max_value[j])
            columns[j] = Choose(_select_column(missing, j), CastLike(bounded, filled), columns[j])
    return concat(columns)


def _prediction(step: Step, x: Node, estimator: object, name: str) -> Node:
    """Predict one column, without the checks of the estimator: its input was filled by another."""
    conditions = Conditions(warnings=step.conditions.warnings)
    output = replace(step, conditions=conditions).child(estimator, x, name)["predict"]
    step.conditions.why_dense = step.conditions.why_dense or conditions.why_dense
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
        f"All rows hold only missing values; step {step.where!r} fills such a row differently "
        "next to others. Leave it out, or give it with a row that has a value.",
    )


def _select_column(x: Node, position: int) -> Node:
    return Select(x, Array.of([position], np.int32))
