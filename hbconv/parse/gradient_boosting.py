"""scikit-learn's gradient boosting, plain and histogram-based."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Node, Output
from hbconv.containers.affine import Affine
from hbconv.containers.decide import ArgMax, Compare, Softmax
from hbconv.containers.elementwise import Map
from hbconv.containers.trees import TreeEnsemble, TreeLeaves
from hbconv.containers.wiring import Cast
from hbconv.forest import Forest
from hbconv.parse.forests import NodeTable, assemble
from hbconv.parse.probabilities import beside_complement
from hbconv.parse.registry import parses
from hbconv.parse.step import Step
from hbconv.parse.trees import read_trees

INVERSE_LINKS: dict[str, Callable[[Node], Node]] = {
    "IdentityLink": lambda raw: raw,
    "LogLink": lambda raw: Map(raw, "exp"),
    "LogitLink": lambda raw: beside_complement(Map(raw, "sigmoid")),
    "HalfLogitLink": lambda raw: beside_complement(Map(Affine.of(raw, mul=2.0), "sigmoid")),
    "MultinomialLogit": Softmax,
}
"""From raw scores to predictions or probabilities, by the class name of the loss's link."""

CONSTANT_INITS = {"DummyRegressor": ("mean", "median", "quantile", "constant"), "DummyClassifier": ("prior", "most_frequent", "uniform", "constant")}
"""First estimators that say the same of every row, by class name and strategy."""


@parses("sklearn.ensemble.GradientBoostingClassifier")
def parse_gradient_boosting_classifier(step: Step) -> dict[str, Output]:
    """Boost over float32 columns; a score of exactly zero is the second class."""
    raw = _boosted(step)[2]
    outputs = _classified(step, raw, "ge")
    return {**outputs, "predict_log_proba": Output(Map(outputs["predict_proba"].node, "log"))}


@parses("sklearn.ensemble.GradientBoostingRegressor")
def parse_gradient_boosting_regressor(step: Step) -> dict[str, Output]:
    """Boost over float32 columns."""
    x, forest, raw = _boosted(step)
    return {"predict": Output(_inverse_link(step, raw), vector=True), "apply": Output(TreeLeaves(x, forest), dtype="float64")}


@parses("sklearn.ensemble.HistGradientBoostingClassifier")
def parse_histogram_classifier(step: Step) -> dict[str, Output]:
    """Boost over float64 columns; a score of exactly zero is the first class."""
    return _classified(step, _histogram_boosted(step), "gt")


@parses("sklearn.ensemble.HistGradientBoostingRegressor")
def parse_histogram_regressor(step: Step) -> dict[str, Output]:
    """Boost over float64 columns."""
    return {"predict": Output(_inverse_link(step, _histogram_boosted(step)), vector=True)}


def _boosted(step: Step) -> tuple[Node, Forest, Node]:
    """Start from the first estimator's constant and add learning rate times leaf, stage after stage, in float64."""
    est = step.estimator
    x = step.require_finite(Cast(step.x, "float32"))
    trees = read_trees([tree.tree_ for tree in est.estimators_.ravel()], scale=est.learning_rate)
    target = np.tile(np.arange(est.estimators_.shape[1]), len(est.estimators_))
    forest = assemble(trees, _first_scores(step), strict=False, n_features=step.x.type.width, target=target)
    return x, forest, TreeEnsemble(x, forest)


def _first_scores(step: Step) -> npt.NDArray[np.float64]:
    est = step.estimator
    init = est.init_
    constant = isinstance(init, str) or getattr(init, "strategy", None) in CONSTANT_INITS.get(type(init).__name__, ())
    if not constant:
        raise step.refuse("init", init, "hbconv handles None, 'zero', and dummy estimators that say the same of every row.")
    row = np.zeros((1, est.n_features_in_), np.float32)
    scores: npt.NDArray[np.float64] = np.asarray(est._raw_predict_init(row), np.float64)[0]  # noqa: SLF001
    return scores


def _histogram_boosted(step: Step) -> Node:
    """Start from the baseline and add the leaves, iteration after iteration, in float64; infinite values are welcome."""
    est = step.estimator
    if est.is_categorical_ is not None:
        raise step.refuse("categorical_features", est.categorical_features, "Encode categories as numbers before fitting, with categorical_features=None.")
    predictors, start = est._predictors, np.asarray(est._baseline_prediction, np.float64)  # noqa: SLF001
    trees = [tree.nodes for iteration in predictors for tree in iteration]
    target = np.tile(np.arange(start.size), len(predictors))
    return TreeEnsemble(Cast(step.x, "float"), assemble(_table(trees).split(), start.ravel(), strict=False, n_features=step.x.type.width, target=target))


def _table(trees: list[Any]) -> NodeTable:
    nodes = np.concatenate(trees)
    left, right = (np.where(nodes["is_leaf"], -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    sizes = [len(tree) for tree in trees]
    return NodeTable(sizes, nodes["feature_idx"], nodes["num_threshold"], nodes["missing_go_to_left"], left, right, nodes["value"][:, None])


def _classified(step: Step, raw: Node, positive: str) -> dict[str, Output]:
    classes, two = Array(step.estimator.classes_), raw.type.width == 1
    label = Compare.of(raw, positive, 0.0, "int32") if two else ArgMax(raw)
    return {
        "predict": Output(label, classes, vector=True),
        "predict_proba": Output(_inverse_link(step, raw)),
        "decision_function": Output(raw, vector=two),
    }


def _inverse_link(step: Step, raw: Node) -> Node:
    link = type(step.estimator._loss.link).__name__  # noqa: SLF001
    if link not in INVERSE_LINKS:
        raise step.refuse("loss", step.estimator.loss, "hbconv handles the losses of scikit-learn itself.")
    return INVERSE_LINKS[link](raw)
