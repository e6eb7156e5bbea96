"""Several targets: one member for each, side by side or in a chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.containers import Cast, Map, MatrixList, Node, Output
from hbconv.parse.common.members import as_numbers, columns_of_array, response, side_by_side
from hbconv.parse.registry import parses
from hbconv.parse.schema import read_schema
from hbconv.parse.step import Step, concat


def _columns(estimator: Any) -> Any:
    return read_schema(estimator.estimators_[0])


@parses("sklearn.multioutput.MultiOutputRegressor", features=_columns)
def parse_multi_output_regressor(step: Step) -> dict[str, Output]:
    """Return the members' predictions side by side."""
    return {"predict": side_by_side(step, [member["predict"] for member in _members(step)])}


@parses("sklearn.multioutput.MultiOutputClassifier", features=_columns)
def parse_multi_output_classifier(step: Step) -> dict[str, Output]:
    """Return the members' labels side by side; their probabilities are a list."""
    members = _members(step)
    outputs = {"predict": side_by_side(step, [member["predict"] for member in members])}
    if not all("predict_proba" in member for member in members):
        return outputs
    each = [as_numbers(step, member["predict_proba"]) for member in members]
    return {
        **outputs,
        "predict_proba": Output(concat(each), MatrixList(tuple(p.type.width for p in each))),
    }


def _members(step: Step) -> list[dict[str, Output]]:
    return [
        step.child(member, step.x, f"estimators_[{i}]", x_sparse=step.x_sparse)
        for i, member in enumerate(step.estimator.estimators_)
    ]


@parses("sklearn.multioutput.RegressorChain")
def parse_regressor_chain(step: Step) -> dict[str, Output]:
    """Predict one target after another."""
    return {"predict": _restore_order(step, _chain(step, "predict"), "predict")}


@parses("sklearn.multioutput.ClassifierChain")
def parse_classifier_chain(step: Step) -> dict[str, Output]:
    """Predict one label after another, each of two classes.

    Each has one probability and one score.
    """
    members = _chain(step, step.estimator.chain_method_)
    outputs = {"predict": _restore_order(step, members, "predict")}
    for method in ("predict_proba", "decision_function"):
        if all(
            method in member and len(est.classes_) == 2
            for est, member in zip(step.estimator.estimators_, members, strict=True)
        ):
            outputs[method] = _restore_order(step, members, method)
    if "predict_proba" in outputs:
        outputs["predict_log_proba"] = Output(Map(outputs["predict_proba"].node, "log"))
    return outputs


def _chain(step: Step, method: str) -> list[dict[str, Output]]:
    """Read the members: each reads the input and the outputs of those before it, in float64."""
    # The source joins the rows and the outputs so far, which are float64, in one array.
    xs: list[Node] = [Cast(step.require_finite(), "float64")]
    members = []
    for i, member in enumerate(step.estimator.estimators_):
        members.append(step.child(member, concat(xs), f"estimators_[{i}]", x_sparse=step.x_sparse))
        xs.append(_link(step, member, members[-1], method))
    return members


def _link(step: Step, member: Any, outputs: dict[str, Output], method: str) -> Node:
    """Return one column, in float64."""
    node, _ = response(step, member, outputs, method)
    if node.type.width != 1:
        raise step.refuse(
            "chain_method",
            method,
            f"Member {type(member).__name__} returns {node.type.width} columns.",
        )
    return Cast(node, "float64")


def _restore_order(step: Step, members: list[dict[str, Output]], method: str) -> Output:
    """Return the outputs in the order of the targets."""
    each = [
        _link(step, est, member, method)
        for est, member in zip(step.estimator.estimators_, members, strict=True)
    ]
    order = np.asarray(step.estimator.order_)
    if sorted(order.tolist()) != list(range(len(each))):
        raise step.damaged(f"order_={order!r:.50} does not name each of {len(each)} outputs once")
    # order_ lists targets as the chain predicts them; argsort inverts it.
    return Output(columns_of_array(concat(each), np.argsort(order)))
