"""LightGBM: the scikit-learn wrappers, the Booster, and its model text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbconv.array import Array
from hbconv.containers import Graph, Node, Output, Schema, Traits, current_source, source
from hbconv.containers.affine import Affine
from hbconv.containers.columns import Columns
from hbconv.containers.decide import ArgMax, Compare, Softmax
from hbconv.containers.elementwise import Map
from hbconv.containers.trees import TreeEnsemble
from hbconv.containers.wiring import Cast
from hbconv.errors import UnsupportedError
from hbconv.parse.lightgbm_text import LightGBMModel, read_lightgbm_text
from hbconv.parse.probabilities import beside_complement
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

__all__ = ["parse_lightgbm_text"]


def _same(scores: Node, model: LightGBMModel) -> Node:  # noqa: ARG001
    return scores


def _squared(scores: Node, model: LightGBMModel) -> Node:
    """Undo ``reg_sqrt``."""
    return Map(scores, "signed_square") if "sqrt" in model.options else scores


def _sigmoid(scores: Node, model: LightGBMModel) -> Node:
    return Map(Affine.of(scores, mul=float(model.options.get("sigmoid", 1.0))), "sigmoid")


TRANSFORMS: dict[str, Callable[[Node, LightGBMModel], Node]] = {
    **dict.fromkeys(("", "lambdarank", "rank_xendcg"), _same),
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), _squared),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), lambda scores, _: Map(scores, "exp")),
    **dict.fromkeys(("binary", "multiclassova", "cross_entropy"), _sigmoid),
    "cross_entropy_lambda": lambda scores, _: Map(Map(scores, "exp"), "log1p"),
    "multiclass": lambda scores, _: Softmax(scores),
}
"""From the (averaged) sums to what ``Booster.predict`` returns, by objective."""


def parse_lightgbm_text(text: str) -> Graph:
    """Read a model text into a Graph that answers as ``lightgbm.Booster(model_str=text).predict`` does.

    Raises
    ------
    ConversionError, UnsupportedError
    """
    with source("Booster"):
        model = read_lightgbm_text(text)
        schema = Schema.matrix(columns) if isinstance(columns := _columns(list(model.names)), int) else Schema.table(columns)
        raw = _raw(Columns.of(schema), model)
        return Graph(schema, {"predict": _answer(_transformed(raw, model))}, traits=Traits("Booster"))


def _names(estimator: Any) -> list[str] | int:
    return _columns((estimator.booster_ if hasattr(estimator, "booster_") else estimator).feature_name())


def _columns(names: list[str]) -> list[str] | int:
    """Names, or only their number where LightGBM made them up."""
    return len(names) if names == [f"Column_{i}" for i in range(len(names))] else names


@parses("lightgbm.Booster", features=_names)
def parse_booster(step: Step) -> dict[str, Output]:
    """Answer with the transformed scores, a vector where there is one output."""
    model = _read(step, step.estimator)
    return {"predict": _answer(_transformed(_raw(step.x, model), model))}


@parses("lightgbm.LGBMRegressor", "lightgbm.LGBMRanker", features=_names)
def parse_regressor(step: Step) -> dict[str, Output]:
    """Answer as the booster does."""
    model = _read_wrapper(step)
    return {"predict": _answer(_transformed(_raw(step.x, model), model))}


@parses("lightgbm.LGBMClassifier", features=_names)
def parse_classifier(step: Step) -> dict[str, Output]:
    """Take the larger probability; a custom objective has none, and all methods give raw scores."""
    model = _read_wrapper(step)
    raw = _raw(step.x, model)
    p = _transformed(raw, model)
    outputs = {"decision_function": _answer(raw)} if hasattr(step.estimator, "decision_function") else {}
    if callable(step.estimator.objective_):
        return {"predict": _answer(p), "predict_proba": _answer(p), **outputs}
    classes = Array(step.estimator.classes_)
    two = p.type.width == 1
    label = Compare.of(p, "gt", 0.5, "int32") if two else ArgMax(p)
    return {"predict": Output(label, classes, vector=True), "predict_proba": Output(beside_complement(p) if two else p), **outputs}


def _answer(node: Node) -> Output:
    return Output(node, vector=node.type.width == 1)


def _raw(x: Node, model: LightGBMModel) -> Node:
    """Sum the leaves. LightGBM reads ints in an array as float32, in a table as float64."""
    named = isinstance(x, Columns) and x.schema.named
    return TreeEnsemble(Cast(x, "float", "float64" if named else "float32"), model.forest)


def _transformed(raw: Node, model: LightGBMModel) -> Node:
    if model.objective not in TRANSFORMS:
        hint = f"hbconv handles {', '.join(filter(None, TRANSFORMS))}, and custom ones."
        raise UnsupportedError("LightGBM", current_source(), "objective", model.objective, hint)
    mean = Affine.of(raw, div=model.iterations) if model.average else raw
    return TRANSFORMS[model.objective](mean, model)


def _read_wrapper(step: Step) -> LightGBMModel:
    early = step.estimator.get_params().get("pred_early_stop")
    if early:
        raise step.refuse("pred_early_stop", early, "It leaves out trees row by row. Fit without it.")
    return _read(step, step.estimator.booster_)


def _read(step: Step, booster: Any) -> LightGBMModel:
    """Read the trees that predict uses: up to the best iteration."""
    model = read_lightgbm_text(booster.model_to_string())
    exact = booster.params.get("sigmoid")
    if exact is not None and "sigmoid" in model.options and float(exact) != float(model.options["sigmoid"]):
        raise step.refuse("sigmoid", exact, "The model text keeps six digits of it: choose a value with no more.")
    return model
