"""CatBoost's objectives: from the sums of the trees to the outputs of the methods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Compare,
    Concat,
    Cube,
    Labels,
    Linear,
    LookupRows,
    Map,
    Matrix,
    Node,
    Output,
    RunningSums,
    Select,
    Stages,
    TableExp,
    TableLogSoftmax,
    TableSoftmax,
    TreeEnsemble,
    TreeLeaves,
    Vector,
)
from hbconv.parse.catboost.model_json import CatBoostModel
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.node_tables import contribution_outputs
from hbconv.parse.step import Step

__all__ = ["CLASSIFIERS", "Scores", "classified", "prediction_of", "regressed"]

EACH = ("MultiLogloss", "MultiCrossEntropy")
"""Objectives of several yes-or-no answers."""

TWO = ("Logloss", "CrossEntropy")
"""Objectives of two classes with one score."""

SOFTMAX = "MultiClass"
AGAINST_REST = "MultiClassOneVsAll"
"""Objectives of a score for each class."""

CLASSIFIERS = (*EACH, *TWO, SOFTMAX, AGAINST_REST)
"""Objectives of classifiers."""

CUSTOM = ("PythonUserDefinedPerObject", "")
"""Objectives of classifiers that others may have too: the user's own, and none (sums of models)."""

UNCERTAIN = "RMSEWithUncertainty"


@dataclass(frozen=True)
class Scores:
    """Raw scores of a model, of all trees and after each.

    Parameters
    ----------
    inputs : Node
        What the trees read.
    model : CatBoostModel
    """

    inputs: Node
    model: CatBoostModel

    @cached_property
    def raw(self) -> Node:
        """Return sums of leaves, scaled, then moved by the bias, in float64."""
        return Affine.of(
            TreeEnsemble(self.inputs, self.model.forest), mul=self.model.scale, add=self.model.bias
        )

    @cached_property
    def staged(self) -> Node:
        """Return the bias plus one scaled leaf after another, which rounds differently."""
        forest = self.model.forest
        values = forest.values.data * self.model.scale
        values[: forest.first_leaf[min(1, self.stages)]] += self.model.bias
        leaves = TreeLeaves(self.inputs, forest.with_numbered_leaves())
        return RunningSums(LookupRows(leaves, Array(values)), self.stages)

    @property
    def stages(self) -> int:
        """Return the number of trees."""
        return self.model.forest.n_trees

    @property
    def width(self) -> int:
        """Return the number of raw scores of a row."""
        return self.model.forest.n_outputs

    @property
    def outputs(self) -> dict[str, Output]:
        """Return the outputs that all models have."""
        leaves = Output(TreeLeaves(self.inputs, self.model.forest), dtype="uint32")
        return {
            "apply": leaves,
            "raw_scores": Output(self.raw, VECTOR if self.width == 1 else MATRIX),
            **self._contributions(),
        }

    def _contributions(self) -> dict[str, Output]:
        """Share what a statistic of several categories adds among these, as CatBoost does."""
        found = contribution_outputs(self.inputs, self.model.covered)
        shared = self.model.inputs.shared
        if not found or not shared:
            return found
        n_features = len(self.model.inputs.names)
        kept = np.eye(n_features + 1)
        parts = np.zeros((len(shared), n_features + 1))
        for row, places in zip(parts, shared, strict=True):
            row[list(places)] = 1 / len(places)
        spread = np.concatenate([kept[:-1], parts, kept[-1:]])
        sums = Linear.of(found["contributions"].node, np.kron(np.eye(self.width), spread))
        form = MATRIX if self.width == 1 else Cube((self.width, n_features + 1))
        return {"contributions": replace(found["contributions"], node=sums, form=form)}

    def after_each(self, node: Node, form: Matrix | Vector | Labels = MATRIX) -> Output:
        """Return the outputs after each stage, which the node computes side by side."""
        return Output(node, Stages(self.stages, form))


def prediction_of(objective: str) -> str:
    """Return the type of prediction that CatBoostRegressor makes by default."""
    return {"Poisson": "Exponent", "Tweedie": "Exponent", UNCERTAIN: UNCERTAIN}.get(
        objective, "RawFormulaVal"
    )


def regressed(step: Step, scores: Scores, prediction: str) -> dict[str, Output]:
    """Return predictions of the type of that name; the stages are raw scores in any case."""
    form = VECTOR if scores.width == 1 else MATRIX
    return {
        "predict": Output(_predicted(step, scores.raw, prediction), form),
        "staged_predict": scores.after_each(scores.staged, form),
        **scores.outputs,
    }


def _predicted(step: Step, raw: Node, prediction: str) -> Node:
    if prediction == "RawFormulaVal":
        return raw
    if prediction == "Exponent":
        return TableExp(raw)
    if prediction == UNCERTAIN and raw.type.width == 2:
        mean, deviation = (Select(raw, Array.of([column], np.int32)) for column in (0, 1))
        return Concat((mean, TableExp(Affine.of(deviation, mul=2.0))))
    raise step.refuse(
        "prediction_type",
        prediction,
        "hbconv handles RawFormulaVal, Exponent and RMSEWithUncertainty.",
    )


def classified(step: Step, scores: Scores) -> dict[str, Output]:
    """Return labels and probabilities, also after each tree."""
    objective = scores.model.objective
    if objective not in CLASSIFIERS and not (scores.width == 1 and objective in CUSTOM):
        raise step.refuse(
            "loss_function", objective, f"As a classifier hbconv handles {', '.join(CLASSIFIERS)}."
        )
    return {
        "predict": Output(*_labels(scores, scores.raw, 1)),
        "predict_proba": Output(_probabilities(scores, scores.raw, 1)),
        "predict_log_proba": Output(_log_probabilities(scores)),
        "staged_predict": scores.after_each(*_labels(scores, scores.staged, scores.stages)),
        "staged_predict_proba": scores.after_each(
            _probabilities(scores, scores.staged, scores.stages)
        ),
        **scores.outputs,
    }


def _labels(scores: Scores, raw: Node, stages: int) -> tuple[Node, Matrix | Labels]:
    model = scores.model
    if model.objective in EACH:
        return Compare.of(raw, "gt", model.cut, "int64"), MATRIX
    if scores.width == 1:
        return Compare.of(raw, "gt", model.cut, "int32"), Labels(model.classes)
    return ArgMax(raw, stages), Labels(model.classes, vector=False)


def _probabilities(scores: Scores, raw: Node, stages: int) -> Node:
    if scores.model.objective == SOFTMAX:
        return TableSoftmax(raw, stages)
    p = Map(_denominator(raw), "reciprocal")
    return beside_complement(p) if scores.width == 1 else p


def _log_probabilities(scores: Scores) -> Node:
    raw = scores.raw
    if scores.model.objective == SOFTMAX:
        return TableLogSoftmax(raw)
    both = Concat((Map(raw, "neg"), raw)) if scores.width == 1 else raw
    return Map(Map(_denominator(both), "log"), "neg")


def _denominator(raw: Node) -> Node:
    """Return ``1 + exp(-raw)``, whose reciprocal is the probability."""
    return Affine.of(Map(Map(raw, "neg"), "exp"), add=1.0)
