"""Dummy estimators: the same prediction for every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import MATRIX, VECTOR, ConstantRows, LabelColumns, Labels, MatrixList, Output
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, concat, select

Numbers = npt.NDArray[Any]
_RANDOM = (
    "It draws each prediction at random, by the row's place among those of the call. Use 'prior', "
    "'most_frequent' or 'constant'."
)


@parses("sklearn.dummy.DummyRegressor")
def parse_dummy_regressor(step: Step) -> dict[str, Output]:
    """Return the constant found in fitting, and deviations of zero."""
    est = step.estimator
    if np.size(est.constant_) != est.n_outputs_:
        raise step.damaged(
            f"n_outputs_={est.n_outputs_}, but constant_ holds {np.size(est.constant_)}"
        )
    form = VECTOR if est.n_outputs_ == 1 else MATRIX
    deviations = _rows(step, np.zeros(est.n_outputs_))
    return {
        "predict": Output(_rows(step, np.ravel(est.constant_)), form),
        "predict_std": Output(deviations, form, on_demand=True),
    }


@parses("sklearn.dummy.DummyClassifier")
def parse_dummy_classifier(step: Step) -> dict[str, Output]:
    """Return the most frequent class, or a given one; what is drawn at random is refused."""
    est = step.estimator
    if est._strategy == "stratified":
        raise step.refuse("strategy", est._strategy, _RANDOM)
    if est.sparse_output_:
        raise step.refuse("sparse_output_", value=True, hint="Fit it on labels in a dense array.")
    several = est.n_outputs_ > 1
    classes, priors = (
        (est.classes_, est.class_prior_) if several else ([est.classes_], [est.class_prior_])
    )
    chosen = _choose_classes(step, classes, priors)
    codes = _rows(step, np.array(chosen, np.int32))
    labels = tuple(map(Array, classes))
    decoded = LabelColumns(labels) if several else Labels(labels[0])
    each = [_rows(step, p) for p in _probabilities(step, chosen, priors)]
    with np.errstate(divide="ignore"):
        logarithms = [_rows(step, np.log(p.values.data)) for p in each]
    form = MatrixList(tuple(p.type.width for p in each)) if several else MATRIX
    predicted = {"predict": Output(codes, decoded, _dtype(step, classes, chosen))}
    if est._strategy == "uniform":
        step.refuse_method("predict", "strategy", "uniform", _RANDOM)
        predicted = {}
    return {
        **predicted,
        "predict_proba": Output(concat(each), form),
        "predict_log_proba": Output(concat(logarithms), form),
    }


def _dtype(step: Step, classes: list[Numbers], chosen: list[int]) -> str | None:
    """Return the dtype of one array of the predictions: the source repeats such an array.

    It holds texts, no longer than the longest of them, where the classes are objects.
    None where it is the dtype of the classes.
    """
    predictions = step.estimator.constant
    if step.estimator._strategy != "constant":
        predictions = [labels[place] for labels, place in zip(classes, chosen, strict=True)]
    dtype = np.asarray(predictions).dtype
    if all(labels.dtype == dtype for labels in classes):
        return None
    return dtype.str if dtype.kind == "U" else dtype.name


def _choose_classes(step: Step, classes: list[Numbers], priors: list[Numbers]) -> list[int]:
    """Return the position of the class that each output predicts."""
    if step.estimator._strategy != "constant":
        return [int(prior.argmax()) for prior in priors]
    constants = np.ravel(np.asarray(step.estimator.constant))
    return [
        int(np.flatnonzero(labels == constant)[0])
        for labels, constant in zip(classes, constants, strict=True)
    ]


def _probabilities(step: Step, chosen: list[int], priors: list[Numbers]) -> list[Numbers]:
    if step.estimator._strategy == "prior":
        return priors
    if step.estimator._strategy == "uniform":
        return [np.full(len(prior), 1.0) / len(prior) for prior in priors]
    return [np.eye(len(prior))[position] for position, prior in zip(chosen, priors, strict=True)]


def _rows(step: Step, values: Numbers) -> ConstantRows:
    # No column is read, so rows of any content pass, as in the source.
    return ConstantRows(select(step.x, []), Array(values))
