"""Gradient boosting of scikit-learn, over float32 columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Cast,
    Clip,
    ConstantRows,
    Cube,
    Map,
    Node,
    Output,
    Select,
    Stages,
    SymmetricLogit,
    TreeLeaves,
)
from hbconv.parse.class_names import is_named
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.ensemble.boosting_stages import Boosted, boost, classified, regressed
from hbconv.parse.sklearn.tree import read_trees, shares_of
from hbconv.parse.step import Step

CONSTANT_INITS = {
    "sklearn.dummy.DummyRegressor": ("mean", "median", "quantile", "constant"),
    "sklearn.dummy.DummyClassifier": ("prior", "most_frequent", "uniform", "constant"),
    "sklearnex.dummy.DummyRegressor": ("mean", "median", "quantile", "constant"),
}
"""First estimators that say the same of every row, by class and strategy.

Where sklearnex patches scikit-learn, boosting starts from its DummyRegressor.
"""

LINKS: dict[str, Callable[[Node], Node]] = {
    "LogitLink": lambda p: Map(p, "logit"),
    "HalfLogitLink": lambda p: Affine.of(Map(p, "logit"), mul=0.5),
    "MultinomialLogit": SymmetricLogit,
}
"""From a first estimator's probabilities to raw scores, by the class name of the loss's link."""

EPS = float(np.finfo(np.float64).eps)
"""Probabilities are held this far from 0 and 1 before their link."""


@parses("sklearn.ensemble.GradientBoostingClassifier")
def parse_gradient_boosting_classifier(step: Step) -> dict[str, Output]:
    """Return labels, probabilities and scores, also after each stage.

    A score of exactly zero is the second of two classes. The scores of a stage stay a column.
    """
    x, boosted = _boosted(step, _classifier_scores)
    outputs = classified(step, boosted, "ge")
    return {
        **outputs,
        "predict_log_proba": Output(Map(outputs["predict_proba"].node, "log")),
        "staged_decision_function": Output(boosted.staged, Stages(boosted.stages)),
        "apply": Output(
            TreeLeaves(x, boosted.forest), Cube(step.estimator.estimators_.shape), "float64"
        ),
    }


@parses("sklearn.ensemble.GradientBoostingRegressor")
def parse_gradient_boosting_regressor(step: Step) -> dict[str, Output]:
    """Predict the sums: all losses have the identity as link."""
    x, boosted = _boosted(step, _regressor_scores)
    return {
        **regressed(step, boosted),
        "apply": Output(TreeLeaves(x, boosted.forest), dtype="float64"),
    }


def _boosted(step: Step, first_scores: Callable[[Step, Node], Node]) -> tuple[Node, Boosted]:
    """Add learning rate times leaf to the first scores."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float32"))
    members = [tree.tree_ for tree in est.estimators_.ravel()]
    trees = read_trees(members, scale=est.learning_rate)
    first = _constant_scores(step, x) or first_scores(step, x)
    return x, boost(x, trees, shares_of(members), first)


def _constant_scores(step: Step, x: Node) -> Node | None:
    """Return first scores that are the same for every row; None where they differ."""
    est = step.estimator
    init = step.estimator.init_
    known = (name for name in CONSTANT_INITS if is_named(type(init), name))
    strategies = CONSTANT_INITS.get(next(known, ""))
    if strategies and init.strategy not in strategies:
        raise step.refuse(
            "init", init, "It answers at random. Use a strategy that says the same of every row."
        )
    if not strategies and init != "zero":
        return None
    row = np.zeros((1, est.n_features_in_), np.float32)
    return ConstantRows(x, Array.of(est._raw_predict_init(row)[0], np.float64))


def _classifier_scores(step: Step, x: Node) -> Node:
    """Link the first estimator's probabilities, or that of the second of two classes."""
    p = _initial(step, x, "predict_proba").node
    if step.estimator.estimators_.shape[1] == 1:
        p = Select(p, Array(np.array([1], np.int32)))
    link = type(step.estimator._loss.link).__name__
    return LINKS[link](Clip.of(Cast(p, "float64"), EPS, 1 - EPS))


def _regressor_scores(step: Step, x: Node) -> Node:
    return Cast(_initial(step, x, "predict").node, "float64")


def _initial(step: Step, x: Node, method: str) -> Output:
    """Parse the first estimator, which reads what the trees read."""
    init = step.estimator.init_
    output = step.child(init, x, "init", x_sparse=step.x_sparse).get(method)
    if output is None or output.classes is not None or output.widths:
        raise step.refuse("init", init, f"Its {method} must give numbers, for one output.")
    return output
