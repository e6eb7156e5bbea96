"""Bagging, over members of any kind.

Sums are those of a single job (``n_jobs`` None or 1).
With more jobs the source model adds up the sums of its jobs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Add,
    Affine,
    ArgMax,
    Cast,
    Labels,
    LogAdd,
    LookupRows,
    Map,
    Node,
    OneHot,
    Output,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.parse.common.members import (
    are_trees,
    class_codes,
    columns_of_array,
    read_members,
    spread_classes,
)
from hbconv.parse.common.node_tables import assemble
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.tree import read_trees, require_own_counts, tree_input
from hbconv.parse.step import Step, concat
from hbconv.trees.forest import Forest

Numbers = npt.NDArray[Any]


@parses("sklearn.ensemble.BaggingClassifier")
def parse_bagging_classifier(step: Step) -> dict[str, Output]:
    """Average the members' probabilities, or their votes where they have none."""
    est = step.estimator
    sums = _tree_sums(step) if are_trees(step) else _sums(step)
    means = {
        name: replace(output, node=Affine.of(output.node, div=est.n_estimators))
        for name, output in sums.items()
    }
    mean = means["predict_proba"].node
    logarithm = (
        Affine.of(sums["predict_log_proba"].node, sub=np.log(est.n_estimators))
        if "predict_log_proba" in sums
        else Map(mean, "log")
    )
    return means | {
        "predict": Output(ArgMax(mean), Labels(Array(est.classes_))),
        "predict_log_proba": Output(logarithm),
    }


@parses("sklearn.ensemble.BaggingRegressor")
def parse_bagging_regressor(step: Step) -> dict[str, Output]:
    """Average the members' predictions."""
    est = step.estimator
    total = (
        _tree_total(step)
        if are_trees(step)
        else _total([output["predict"] for output in read_members(step, est.estimators_features_)])
    )
    return {"predict": replace(total, node=Affine.of(total.node, div=est.n_estimators))}


def _tree_total(step: Step) -> Output:
    members = step.estimator.estimators_
    return Output(
        TreeEnsemble(*_forest(step, [member.tree_.value[:, :, 0] for member in members])),
        VECTOR if members[0].n_outputs_ == 1 else MATRIX,
    )


def _total(outputs: list[Output]) -> Output:
    return replace(outputs[0], node=Add(tuple(output.node for output in outputs)))


def _forest(step: Step, values: list[Numbers]) -> tuple[Node, Forest]:
    """Make one forest of all trees, each over its own columns.

    Its leaves are numbered, and rows are checked in those columns alone.
    """
    members = step.estimator.estimators_
    columns = step.estimator.estimators_features_
    require_own_counts(step, members)
    tree_input(
        replace(step, x=columns_of_array(step.x, np.unique(np.concatenate(columns)))), members[0]
    )
    x = Cast(step.x, "float32")
    trees = read_trees([member.tree_ for member in members], values=values, columns=columns)
    forest = assemble(trees, np.zeros(values[0].shape[1]), strict=False, n_features=x.type.width)
    return x, forest.with_numbered_leaves()


def _tree_sums(step: Step) -> dict[str, Output]:
    """Sum class fractions, and return what the sum of their logarithms needs."""
    est = step.estimator
    values = [np.zeros((member.tree_.node_count, est.n_classes_)) for member in est.estimators_]
    for own, member in zip(values, est.estimators_, strict=True):
        own[:, member.classes_] = member.tree_.value[:, 0]
    x, forest = _forest(step, values)
    with np.errstate(divide="ignore"):
        logarithms = LookupRows(TreeLeaves(x, forest), Array(np.log(forest.values.data)))
    return {
        "predict_proba": Output(TreeEnsemble(x, forest)),
        "predict_log_proba": Output(LogAdd(logarithms, len(values))),
    }


def _sums(step: Step) -> dict[str, Output]:
    """Sum over members, which may know only some of the classes.

    There are no decisions where the members have different numbers of them.
    """
    est = step.estimator
    outputs = read_members(step, est.estimators_features_)
    classes = [member.classes_ for member in est.estimators_]
    fractions = [
        _fractions(step, output, known) for output, known in zip(outputs, classes, strict=True)
    ]
    sums = {"predict_proba": Output(Add(tuple(fractions)))}
    if all("predict_log_proba" in output for output in outputs):
        logarithms = [
            _spread(step, output["predict_log_proba"].node, known, -np.inf)
            for output, known in zip(outputs, classes, strict=True)
        ]
        sums["predict_log_proba"] = Output(LogAdd(concat(logarithms), len(outputs)))
    scores = [output["decision_function"] for output in outputs if "decision_function" in output]
    if len(scores) == len(outputs) and len({score.node.type.width for score in scores}) == 1:
        sums["decision_function"] = _total(scores)
    return sums


def _fractions(step: Step, output: dict[str, Output], classes: Numbers) -> Node:
    """Return probabilities, or a one for the class predicted."""
    if "predict_proba" in output:
        return _spread(step, output["predict_proba"].node, classes, 0.0)
    n_classes = step.estimator.n_classes_
    return OneHot(class_codes(step, output["predict"], np.arange(n_classes)), (n_classes,))


def _spread(step: Step, values: Node, classes: Numbers, fill: float) -> Node:
    """Return columns of a member's classes as columns of all classes, in float64."""
    return spread_classes(Cast(values, "float64"), classes, step.estimator.n_classes_, fill)
