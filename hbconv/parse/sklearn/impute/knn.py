"""KNNImputer: a missing value becomes the mean of the nearest fitted rows that have one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Cast,
    CastLike,
    Choose,
    Compare,
    ConstantRows,
    EntriesAt,
    GroupSums,
    Impute,
    InverseDistances,
    IsMissing,
    Map,
    Nearest,
    Node,
    Output,
    PartitionSearch,
    Quotient,
    Select,
    SharedDistances,
    SharedProducts,
    WeightedLookup,
)
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, concat


@parses("sklearn.impute.KNNImputer")
def parse_knn_imputer(step: Step) -> dict[str, Output]:
    """Fill each column, then add the columns that show what was missing.

    A column without any value when fitting is dropped, or filled with 0.
    """
    est = step.estimator
    step.require("metric", "nan_euclidean")
    step.require("weights", "uniform", "distance", None)
    missing = _missing(step)
    x = step.require_finite(Cast(step.x, "float"), allow_nan=bool(np.isnan(missing)))
    known = Impute(x, Array(np.full(x.type.width, np.nan)), missing)
    if not np.array_equal(
        est._mask_fit_X, est._fit_X == missing if missing == missing else np.isnan(est._fit_X)
    ):
        raise step.damaged("_mask_fit_X does not tell where _fit_X is missing")
    fitted = np.where(est._mask_fit_X, np.nan, est._fit_X)
    distances = Map(SharedDistances(known, Array(fitted)), "sqrt")
    columns = [
        _column(step, known, distances, fitted, j)
        for j in range(x.type.width)
        if est._valid_mask[j] or est.keep_empty_features
    ]
    if est.indicator_ is not None:
        columns.append(IsMissing(Select(x, Array.of(est.indicator_.features_, np.int32)), missing))
    return {"transform": Output(concat(columns))}


def _missing(step: Step) -> float:
    missing = step.estimator.missing_values
    if not isinstance(missing, int | float) or isinstance(missing, np.generic):
        raise step.refuse("missing_values", missing, "hbconv handles NaN and Python numbers.")
    return float(missing)


def _column(step: Step, x: Node, distances: Node, fitted: npt.NDArray[Any], j: int) -> Node:
    """Return one column with its missing values filled, in x's dtype."""
    column = Select(x, Array.of([j], np.int32))
    donors = np.flatnonzero(~np.isnan(fitted[:, j]))
    if not len(donors):
        return CastLike(ConstantRows(x, Array(np.zeros(1))), x)
    values = fitted[donors, j]
    apart = Select(distances, Array(donors.astype(np.int32)))
    count = min(step.estimator.n_neighbors, len(donors))
    positions = Nearest(
        apart,
        count,
        PartitionSearch(),
        rows=x,
        where=IsMissing(column),
        formula=SharedProducts(Array(fitted), Array(donors)),
    )
    weights = _weights(step, EntriesAt(apart, positions))
    total = GroupSums(weights, 1)
    mean = Quotient(
        (WeightedLookup(positions, weights, Array(values.astype(np.float64)[:, None])), total)
    )
    plain = np.ma.array(step.estimator._fit_X[:, j], mask=step.estimator._mask_fit_X[:, j]).mean()
    filled = Choose(
        Compare.of(total, "eq", 0.0),
        ConstantRows(total, Array(np.array([plain], dtype=np.float64))),
        mean,
    )
    return Choose(IsMissing(column), CastLike(filled, x), column)


def _weights(step: Step, distances: Node) -> Node:
    """Return how much each donor counts: nothing where it shares no known value with the row."""
    unknown = IsMissing(distances)
    nothing = ConstantRows(distances, Array(np.zeros(distances.type.width)))
    if step.estimator.weights == "distance":
        return Choose(unknown, nothing, InverseDistances(distances))
    return Choose(unknown, nothing, ConstantRows(distances, Array(np.ones(distances.type.width))))
