"""Neighbours within a radius: all fitted rows that are near enough count."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    ArgMax,
    Cast,
    Choose,
    Compare,
    ConstantRows,
    GroupSums,
    Held,
    InverseDistances,
    LabelColumns,
    Labels,
    Linear,
    MatrixList,
    Node,
    Output,
    Quotient,
    Sparse,
)
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.neighbors.nearest import (
    one_hot,
    refuse_two_metrics,
    votes_inside_search,
)
from hbconv.parse.sklearn.neighbors.search import Within, constant_like, within
from hbconv.parse.step import Step, concat


def _weights(step: Step, found: Within) -> Node:
    """Return the weight of each fitted row, zero beyond the radius.

    By distance, rows that are met exactly count alone.
    """
    if step.require("weights", "uniform", "distance", None) != "distance":
        return Cast(found.near, "float64")
    distances = Cast(found.distances, "float64")
    return InverseDistances(Choose(found.near, distances, constant_like(distances, np.inf)))


@parses("sklearn.neighbors.RadiusNeighborsTransformer")
def parse_radius_transformer(step: Step) -> dict[str, Output]:
    """Put the distances, or ones, in the places of the neighbours."""
    found = within(step)
    values = found.distances
    if step.require("mode", "distance", "connectivity") == "connectivity":
        values = constant_like(values, 1.0)
    return {"transform": Output(Held(found.near, values), Sparse()), **found.outputs}


@parses("sklearn.neighbors.RadiusNeighborsRegressor")
def parse_radius_regressor(step: Step) -> dict[str, Output]:
    """Average the targets of the neighbours.

    A row without any gets NaN, or what NaN becomes as an int target.
    """
    targets = np.asarray(step.estimator._y)
    table = targets.reshape(len(targets), -1)
    found = within(step)
    weights = _weights(step, found)
    with np.errstate(invalid="ignore"):
        nothing = np.full_like(table[0], np.nan).astype(np.float64)
    total = GroupSums(weights, 1)
    mean = Quotient((Linear.of(weights, table.astype(np.float64)), total))
    answer = Choose(Compare.of(total, "eq", 0.0), ConstantRows(total, Array(nothing)), mean)
    narrow = targets.dtype == np.float32 and step.estimator.weights != "distance"
    return {
        "predict": Output(
            Cast(answer, "float32") if narrow else answer, VECTOR if targets.ndim == 1 else MATRIX
        ),
        **found.outputs,
    }


@parses("sklearn.neighbors.RadiusNeighborsClassifier")
def parse_radius_classifier(step: Step) -> dict[str, Output]:
    """Let the neighbours vote; a row without any gets the outlier label."""
    est = step.estimator
    refuse_two_metrics(step)
    if est.outlier_label is not None and votes_inside_search(est):
        hint = (
            "By brute force its probabilities depend on the dtype of the rows. Use "
            "algorithm='ball_tree', or outlier_label=None."
        )
        raise step.refuse("outlier_label", est.outlier_label, hint)
    found = within(step)
    weights = _weights(step, found)
    alone = Compare.of(GroupSums(weights, 1), "eq", 0.0)
    if est.outlier_label_ is None:
        step.check(
            alone,
            f"No neighbours found for some rows (step {step.where!r}), and outlier_label is None.",
        )
    elif any(label is None for label in est.outlier_label_):
        raise step.damaged("outlier_label_ holds None, which the source model takes for a label")
    classes = est.classes_ if est.outputs_2d_ else [est.classes_]
    codes = est._y if est.outputs_2d_ else est._y.reshape(-1, 1)
    outliers = [None] * len(classes) if est.outlier_label_ is None else list(est.outlier_label_)
    each = [
        _answer(weights, alone, codes[:, k], labels, outliers[k])
        for k, labels in enumerate(classes)
    ]
    decided, shares, labels = zip(*each, strict=True)
    if not est.outputs_2d_:
        return {
            "predict": Output(decided[0], Labels(labels[0])),
            "predict_proba": Output(shares[0]),
            **found.outputs,
        }
    return {
        "predict": Output(concat(decided), LabelColumns(labels)),
        "predict_proba": Output(
            concat(shares), MatrixList(tuple(len(labels) for labels in classes))
        ),
        **found.outputs,
    }


def _answer(
    weights: Node, alone: Node, codes: npt.NDArray[Any], classes: npt.NDArray[Any], outlier: Any
) -> tuple[Node, Node, Array]:
    """Return class codes, shares of votes, and labels.

    The last label is an outlier label that is not a class.
    """
    votes = Linear.of(weights, one_hot(codes, len(classes)).data)
    place = np.flatnonzero(classes == outlier)
    beside = ConstantRows(
        alone,
        Array(
            (np.arange(len(classes)) == (place[0] if len(place) == 1 else -1)).astype(np.float64)
        ),
    )
    shares = Choose(alone, beside, Quotient((votes, GroupSums(votes, 1))))
    labels = classes if outlier is None else np.append(classes, outlier).astype(classes.dtype)
    code = ConstantRows(
        alone, Array(np.array([len(labels) - 1 if not len(place) else place[0]], dtype=np.int32))
    )
    return Choose(alone, code, ArgMax(votes)), shares, Array(labels)
