"""Feature selection: some of the columns, unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import ConstantRows, Node, Output, Schema, Select, Spread, sparse_form
from hbconv.errors import UnsupportedError
from hbconv.parse.common.members import pass_on
from hbconv.parse.common.versions import takes_nan
from hbconv.parse.inverses import inverts
from hbconv.parse.registry import parses
from hbconv.parse.schema import read_schema
from hbconv.parse.step import Step, is_fitted


def _columns_of_inner(selector: Any) -> Schema | None:
    """Return the columns of a prefit estimator inside a selector that was never fitted."""
    return None if hasattr(selector, "estimator_") else read_schema(selector.estimator)


def _is_prefit(selector: Any) -> bool:
    return bool(selector.prefit) and is_fitted(selector.estimator)


@parses(
    "sklearn.feature_selection.GenericUnivariateSelect",
    "sklearn.feature_selection.SelectFdr",
    "sklearn.feature_selection.SelectFpr",
    "sklearn.feature_selection.SelectFwe",
    "sklearn.feature_selection.SelectKBest",
    "sklearn.feature_selection.SelectPercentile",
    "sklearn.feature_selection.SequentialFeatureSelector",
    "sklearn.feature_selection.VarianceThreshold",
)
def parse_selector(step: Step) -> dict[str, Output]:
    """Keep the columns that ``get_support`` reports."""
    return {"transform": _selection_output(step, _select_columns(step))}


@parses(
    "sklearn.feature_selection.SelectFromModel", features=_columns_of_inner, is_fitted=_is_prefit
)
def parse_select_from_model(step: Step) -> dict[str, Output]:
    """Keep the columns that matter to an estimator, which may be prefit."""
    return {"transform": _selection_output(step, _select_columns(step))}


@parses("sklearn.feature_selection.RFE", "sklearn.feature_selection.RFECV")
def parse_recursive_elimination(step: Step) -> dict[str, Output]:
    """Keep the columns, and predict as the estimator fitted on them."""
    selected = _select_columns(step)
    outputs = pass_on(
        step, step.child(step.estimator.estimator_, selected, "estimator", x_sparse=step.x_sparse)
    )
    return {**outputs, "transform": _selection_output(step, selected)}


@inverts(
    "sklearn.feature_selection.GenericUnivariateSelect",
    "sklearn.feature_selection.RFE",
    "sklearn.feature_selection.RFECV",
    "sklearn.feature_selection.SelectFdr",
    "sklearn.feature_selection.SelectFpr",
    "sklearn.feature_selection.SelectFromModel",
    "sklearn.feature_selection.SelectFwe",
    "sklearn.feature_selection.SelectKBest",
    "sklearn.feature_selection.SelectPercentile",
    "sklearn.feature_selection.SequentialFeatureSelector",
    "sklearn.feature_selection.VarianceThreshold",
    takes_sparse=True,
)
def invert_selector(step: Step) -> Output:
    """Put the columns back to their places, and zeros between them.

    The source model looks at no values of a sparse matrix.
    """
    support = np.asarray(step.estimator.get_support())
    if np.count_nonzero(support) != step.x.type.width:
        raise step.damaged(f"get_support() keeps {np.count_nonzero(support)} columns")
    # A constant in place of sparse rows passes any check.
    step.require_finite(step.by_form(step.x, ConstantRows(step.x, Array(np.zeros(1)))))
    places = Array(np.flatnonzero(support).astype(np.int32))
    return Output(Spread(step.x, places, len(support)), sparse_form(step.x_sparse, "csc"))


def _selection_output(step: Step, selected: Node) -> Output:
    if selected.type.width == 0:
        # The source makes a new dense array where it keeps no column.
        return Output(selected)
    return Output(selected, sparse_form(step.x_sparse, arrays=True))


def _select_columns(step: Step) -> Node:
    """Select from the whole input as one array of the common dtype.

    A selector that takes NaN takes infinity too.
    """
    x = step.x if takes_nan(step.estimator) else step.require_finite()
    return Select(x, Array(np.flatnonzero(_support(step)).astype(np.int32)))


def _support(step: Step) -> npt.NDArray[np.bool_]:
    """Return which columns are kept; some selectors compute this only now.

    They use parameters that fitting did not check.
    """
    try:
        support = np.asarray(step.estimator.get_support())
    except (TypeError, ValueError) as error:
        raise UnsupportedError(
            step.name, step.where, hint=f"It cannot compute which columns it keeps: {error}."
        ) from error
    if support.dtype != np.bool_ or support.shape != (step.x.type.width,):
        raise step.damaged(
            f"get_support() gives {support.dtype}{list(support.shape)}, where a bool for each "
            f"of {step.x.type.width} columns is needed"
        )
    return support
