"""XGBoost: the scikit-learn wrappers, the Booster, and its model files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    ArgMax,
    CategoryCodes,
    Columns,
    Compare,
    Graph,
    Labels,
    Node,
    OrderedLinear,
    Output,
    Softmax,
    Traits,
    TreeEnsemble,
    TreeLeaves,
    at_step,
)
from hbconv.parse.checks.damage import reading
from hbconv.parse.checks.soundness import require_sound
from hbconv.parse.common.covers import contribution_outputs, interaction_outputs
from hbconv.parse.common.probabilities import beside_complement
from hbconv.parse.registry import parses
from hbconv.parse.step import Step
from hbconv.parse.xgboost.inputs import (
    booster_rows,
    booster_schema,
    model_schema,
    wrapper_rows,
    wrapper_schema,
)
from hbconv.parse.xgboost.model_file import XGBoostLinear, XGBoostModel, read_xgboost_bytes
from hbconv.parse.xgboost.objectives import predictions

__all__ = ["parse_xgboost_bytes"]

_NO_ROWS = Array(np.empty(0, np.float32))
"""What XGBoost answers to no rows, whatever the width of its answers to rows."""
_NO_PROBABILITIES = Array(np.empty((0, 2), np.float32))
"""What it makes of that as the only probability of two classes."""


def parse_xgboost_bytes(data: bytes) -> Graph:
    """Read a model file into a Graph that answers like ``xgboost.Booster``.

    It is JSON, UBJSON, or the binary of versions before 3.1.

    Raises
    ------
    ConversionError, UnsupportedError
    """
    with (
        at_step("Booster"),
        reading(
            "This is not an XGBoost model, or it",
            "Save it anew with booster.save_model.",
        ),
    ):
        model = read_xgboost_bytes(data)
        schema = model_schema(model)
        step = Step(None, Columns.of(schema), "Booster")
        return require_sound(
            Graph(
                schema,
                _booster_outputs(step, model),
                tuple(step.conditions.checks),
                Traits("Booster", source="xgboost.Booster"),
            )
        )


@parses("xgboost.Booster", features=booster_schema, truncates=True)
def parse_booster(step: Step) -> dict[str, Output]:
    """Predict as from a DMatrix, with all trees unless told otherwise."""
    model = read_xgboost_bytes(bytes(step.estimator.save_raw("ubj")))
    return _booster_outputs(step, _between(step, model, step.iterations))


@parses(
    "xgboost.XGBModel",
    "xgboost.XGBRegressor",
    "xgboost.XGBRanker",
    features=wrapper_schema,
    truncates=True,
)
def parse_regressor(step: Step) -> dict[str, Output]:
    """Predict as the booster does, with the trees up to the best iteration."""
    model = _read_wrapper(step)
    margin, outputs = _scores(wrapper_rows(step, model), model, inplace=True)
    return {"predict": _answer(predictions(margin, model.objective)), **outputs}


@parses("xgboost.XGBClassifier", features=wrapper_schema, truncates=True)
def parse_classifier(step: Step) -> dict[str, Output]:
    """Take the likeliest class; labels are always 0, 1..."""
    model = _read_wrapper(step)
    margin, outputs = _scores(wrapper_rows(step, model), model, inplace=True)
    return {**_labelled(step, margin, predictions(margin, model.objective)), **outputs}


def _labelled(step: Step, margin: Node, p: Node) -> dict[str, Output]:
    known = step.estimator.n_classes_
    softmax = step.estimator.objective == "multi:softmax"
    classes = np.arange(max(known, 2))
    if p.type.width > 1 and known == 2:
        labels = Compare.of(p, "gt", 0.5, "float64")
        return {
            "predict": Output(labels, of_no_rows=Array(np.empty(0, np.int64))),
            "predict_proba": Output(p, of_no_rows=_NO_PROBABILITIES),
        }
    if p.type.width > 1 and known != p.type.width:
        raise step.refuse(
            "n_classes_",
            known,
            f"The booster has {p.type.width} outputs, but it was fitted on labels of a single "
            "value.",
        )
    if p.type.width > 1:
        return {
            "predict": Output(ArgMax(p), Labels(Array(classes))),
            "predict_proba": Output(p, of_no_rows=_NO_PROBABILITIES),
        }
    if softmax:
        return {
            "predict": Output(p, Labels(Array(classes.astype(np.int32)))),
            "predict_proba": Output(Softmax(margin)),
        }
    return {
        "predict": Output(Compare.of(p, "gt", 0.5, "int32"), Labels(Array(classes))),
        "predict_proba": Output(beside_complement(p)),
    }


def _booster_outputs(step: Step, model: XGBoostModel) -> dict[str, Output]:
    margin, outputs = _scores(booster_rows(step, model), model, inplace=False)
    return {"predict": _answer(predictions(margin, model.objective)), **outputs}


def _scores(x: Node, model: XGBoostModel, *, inplace: bool) -> tuple[Node, dict[str, Output]]:
    """Return the raw scores, and the methods that return them and the leaves."""
    if isinstance(model.booster, XGBoostLinear):
        # XGBoost starts every output of a linear booster from the first margin.
        bias = model.booster.bias + model.margin[0]
        margin: Node = OrderedLinear(x, Array(model.booster.weights), Array(bias))
        return margin, {"raw_scores": _answer(margin)}
    forest = model.booster.forest(model.margin, inplace=inplace)
    sizes = model.booster.sizes
    x = CategoryCodes(x, sizes) if sizes.data.any() else x
    margin = TreeEnsemble(x, forest)
    outputs = {"raw_scores": _answer(margin)}
    if forest.n_trees:
        form = VECTOR if forest.n_trees == 1 else MATRIX
        outputs["apply"] = Output(TreeLeaves(x, forest), form, "float32", of_no_rows=_NO_ROWS)
    covered = model.booster.covered(model.margin)
    explained = contribution_outputs(x, covered, "float32")
    explained |= interaction_outputs(x, covered, "float32")
    for method, output in explained.items():
        outputs[method] = replace(output, of_no_rows=_NO_ROWS)
    return margin, outputs


def _answer(node: Node) -> Output:
    form = VECTOR if node.type.width == 1 else MATRIX
    return Output(node, form, "float32", of_no_rows=_NO_ROWS)


def _read_wrapper(step: Step) -> XGBoostModel:
    """Read the trees that predict uses: by default those up to the best iteration."""
    model = read_xgboost_bytes(bytes(step.estimator.get_booster().save_raw("ubj")))
    best = model.best_iteration
    return _between(step, model, step.iterations or (None if best is None else (0, best + 1)))


def _between(step: Step, model: XGBoostModel, iterations: tuple[int, int] | None) -> XGBoostModel:
    """Keep the trees of some boosting stages, None for all."""
    if isinstance(model.booster, XGBoostLinear):
        if step.iterations is not None:
            raise step.refuse(
                "iterations", step.iterations, "A linear booster has but one set of weights."
            )
        return model
    if iterations is None:
        return model
    count = len(model.booster.ends) - 1
    if iterations[1] > count:
        raise step.refuse("iterations", iterations, f"The model has {count}.")
    return replace(model, booster=model.booster.between(*iterations))
