"""XGBoost: the scikit-learn wrappers, the Booster, and its model files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Graph, Node, Output, Schema, Traits, source
from hbconv.containers.affine import Affine
from hbconv.containers.clip import Clip
from hbconv.containers.columns import Columns
from hbconv.containers.decide import ArgMax, Compare, Softmax
from hbconv.containers.elementwise import Map
from hbconv.containers.trees import TreeEnsemble, TreeLeaves
from hbconv.containers.wiring import Cast
from hbconv.forest import Forest
from hbconv.parse.probabilities import beside_complement
from hbconv.parse.registry import parses
from hbconv.parse.step import Step
from hbconv.parse.xgboost_file import LINKS, XGBoostModel, read_xgboost_bytes

__all__ = ["parse_xgboost_bytes"]


def _exp(x: Node) -> Node:
    """Round the float64 exponential, which gives the float32 one of the C library but for some ties."""
    return Cast(Map(Cast(x, "float64"), "exp"), "float32")


def _sigmoid(margin: Node) -> Node:
    """Take ``1 / (exp(min(-x, 88.7)) + 1)``, each step in float32."""
    return Map(Affine.of(_exp(Clip.of(Map(margin, "neg"), -np.inf, 88.7)), add=1.0), "reciprocal")


TRANSFORMS: dict[str, Callable[[Node], Node]] = {
    **{name: _exp for name, link in LINKS.items() if link == "log"},
    **dict.fromkeys(("binary:logistic", "reg:logistic"), _sigmoid),
    "binary:hinge": lambda margin: Compare.of(margin, "gt", 0.0, "float32"),
    "multi:softprob": lambda margin: Softmax(margin, within="float64"),
    "multi:softmax": ArgMax,
}
"""From the margins to what ``Booster.predict`` returns, where they differ."""


def parse_xgboost_bytes(data: bytes) -> Graph:
    """Read a model file (JSON or UBJSON) into a Graph that answers as ``xgboost.Booster.predict`` does.

    Raises
    ------
    ConversionError, UnsupportedError
    """
    with source("Booster"):
        model = read_xgboost_bytes(data)
        schema = Schema.table(list(model.names)) if model.names else Schema.matrix(model.n_features)
        step = Step(None, Columns.of(schema), "Booster")
        return Graph(schema, _booster_outputs(step, model), tuple(step.checks), Traits("Booster"))


def _names(booster: Any) -> Sequence[str] | int:
    return booster.feature_names or int(booster.num_features())


@parses("xgboost.Booster", features=_names)
def parse_booster(step: Step) -> dict[str, Output]:
    """Answer as for a DMatrix, with all trees."""
    return _booster_outputs(step, read_xgboost_bytes(bytes(step.estimator.save_raw("ubj"))))


@parses("xgboost.XGBRegressor", "xgboost.XGBRanker")
def parse_regressor(step: Step) -> dict[str, Output]:
    """Answer as the booster does, with the trees up to the best iteration."""
    model = _read_wrapper(step)
    x, forest = Cast(step.x, "float32"), model.forest(inplace=True)
    return {"predict": _answer(_transformed(x, forest, model)), "apply": _apply(x, forest)}


@parses("xgboost.XGBClassifier")
def parse_classifier(step: Step) -> dict[str, Output]:
    """Take the likeliest class; labels are always 0, 1..."""
    model = _read_wrapper(step)
    x, forest = Cast(step.x, "float32"), model.forest(inplace=True)
    return {**_labelled(step, _transformed(x, forest, model), TreeEnsemble(x, forest), model), "apply": _apply(x, forest)}


def _labelled(step: Step, p: Node, margin: Node, model: XGBoostModel) -> dict[str, Output]:
    classes = np.arange(max(step.estimator.n_classes_, 2))
    if model.objective == "multi:softmax":
        return {"predict": Output(p, Array(classes.astype(np.int32)), vector=True), "predict_proba": Output(Softmax(margin))}
    if p.type.width > 1 and step.estimator.n_classes_ == 2:
        return {"predict": Output(Compare.of(p, "gt", 0.5, "float64")), "predict_proba": Output(p)}
    if p.type.width > 1:
        return {"predict": Output(ArgMax(p), Array(classes), vector=True), "predict_proba": Output(p)}
    label = {"predict": Output(Compare.of(p, "gt", 0.5, "int32"), Array(classes), vector=True)}
    return label if model.objective == "binary:logitraw" else {**label, "predict_proba": Output(beside_complement(p))}


def _booster_outputs(step: Step, model: XGBoostModel) -> dict[str, Output]:
    x = step.require_finite(Cast(step.x, "float32"), allow_nan=True)
    return {"predict": _answer(_transformed(x, model.forest(), model))}


def _transformed(x: Node, forest: Forest, model: XGBoostModel) -> Node:
    margin = TreeEnsemble(x, forest)
    return TRANSFORMS[model.objective](margin) if model.objective in TRANSFORMS else margin


def _answer(node: Node) -> Output:
    return Output(node, vector=node.type.width == 1, dtype="float32")


def _apply(x: Node, forest: Forest) -> Output:
    return Output(TreeLeaves(x, forest), vector=forest.n_trees == 1, dtype="float32")


def _read_wrapper(step: Step) -> XGBoostModel:
    """Read the trees that predict uses: up to the best iteration."""
    missing = step.estimator.missing
    if not np.isnan(missing):
        raise step.refuse("missing", missing, "Replace that value by NaN in the data and fit with missing=nan.")
    model = read_xgboost_bytes(bytes(step.estimator.get_booster().save_raw("ubj")))
    best = getattr(step.estimator, "best_iteration", None)
    return model if best is None else model.first_iterations(best + 1)
