"""CatBoost: the scikit-learn wrappers, the plain model, its JSON, and its objectives.

An objective decides what the methods make of the sums of the trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Codes,
    Columns,
    Compare,
    Concat,
    Conventions,
    Cube,
    Graph,
    Labels,
    Linear,
    LookupRows,
    Map,
    Matrix,
    Node,
    Output,
    RunningSums,
    Schema,
    Select,
    Stages,
    TableExp,
    TableLogSoftmax,
    TableSoftmax,
    Traits,
    TreeEnsemble,
    TreeLeaves,
    Vector,
    at_step,
    topological,
)
from hbconv.errors import UnsupportedError
from hbconv.parse.catboost.columns import tree_inputs
from hbconv.parse.catboost.model_json import CatBoostModel, read_catboost_json
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.node_tables import contribution_outputs
from hbconv.parse.damage import reading
from hbconv.parse.registry import parses
from hbconv.parse.soundness import require_sound
from hbconv.parse.step import Step
from hbconv.system.temporary import scratch_path

__all__ = ["CLASSIFIERS", "parse_catboost_json"]


def parse_catboost_json(data: bytes) -> Graph:
    """Read a JSON model into a Graph that predicts like CatBoostClassifier or -Regressor.

    The objective decides which.

    Raises
    ------
    ConversionError, UnsupportedError
    """
    with (
        at_step("CatBoost"),
        reading(
            "This is not a CatBoost model (JSON), or it",
            "Save it again with model.save_model(path, format='json').",
        ),
    ):
        model = read_catboost_json(data)
        schema = _schema(model.inputs.names)
        step = Step(None, Columns.of(schema), "CatBoost")
        scores = _scores(step, model)
        classifies = model.objective in CLASSIFIERS
        outputs = (
            classifier_outputs(step, scores)
            if classifies
            else regressor_outputs(step, scores, prediction_of(model.objective))
        )
        # Only columns of which codes are read hold texts; others
        # may be categories that no tree reads.
        text = {node.column for node in topological((scores.raw,)) if isinstance(node, Codes)}
        typed = schema.with_dtypes(
            ["string" if i in text else c.dtype for i, c in enumerate(schema.columns)]
        )
        traits = Traits(
            "CatBoost",
            "classifier" if classifies else "",
            outputs["predict"].classes,
            source="catboost.CatBoostClassifier" if classifies else "catboost.CatBoostRegressor",
        )
        return require_sound(Graph(schema, outputs, traits=traits).with_schema(typed))


def _schema(names: Sequence[str]) -> Schema:
    """Return columns found by name, or by position where CatBoost made the names up.

    No attribute tells which: columns numbered from zero may have been named so by the user.
    """
    numbers = [str(i) for i in range(len(names))]
    # CatBoost names columns by their numbers where the rows had no names.
    made_up = all(name in ("", number) for name, number in zip(names, numbers, strict=True))
    schema = Schema.table(numbers, finds="positions") if made_up else Schema.table(names)
    return replace(schema, named=not made_up, conventions=Conventions(names_as_text=True))


def _features(estimator: Any) -> Schema:
    return _schema(estimator.feature_names_)


@parses("catboost.CatBoost", "catboost.CatBoostRanker", features=_features, truncates=True)
def parse_plain(step: Step) -> dict[str, Output]:
    """Return raw scores."""
    return regressor_outputs(step, _scores(step, _read(step)), "RawFormulaVal")


@parses("catboost.CatBoostRegressor", features=_features, truncates=True)
def parse_regressor(step: Step) -> dict[str, Output]:
    """Return raw scores, or what the objective makes of them."""
    return regressor_outputs(
        step, _scores(step, _read(step)), step.estimator._get_default_prediction_type()
    )


@parses("catboost.CatBoostClassifier", features=_features, truncates=True)
def parse_classifier(step: Step) -> dict[str, Output]:
    """Take the largest raw score, or compare the only one with a cut."""
    return classifier_outputs(step, _scores(step, _read(step)))


def _read(step: Step) -> CatBoostModel:
    est = step.estimator
    for kind, features in (
        ("text_features", est._get_text_feature_indices()),
        ("embedding_features", est._get_embedding_feature_indices()),
    ):
        if features:
            raise step.refuse(kind, features, "Make numbers of them before fitting.")
    data = _export_json(step)
    return read_catboost_json(
        # Leaves of symmetric trees are numbered by their place; asking
        # for the others takes a call for each tree.
        data,
        step.iterations,
        _leaf_numbers(est) if b'"trees"' in data else None,
    )


def _export_json(step: Step) -> bytes:
    with scratch_path("model.json") as path:
        try:
            step.estimator.save_model(str(path), format="json")
        except Exception as error:  # CatBoostError, a class that is not imported here
            raise UnsupportedError(
                step.name,
                step.where,
                hint=f"CatBoost does not write it as JSON, which hbconv reads: {error}",
            ) from error
        return path.read_bytes()


def _leaf_numbers(estimator: Any) -> list[list[int]]:
    """List the leaf numbers of trees that are not symmetric, left to right.

    In memory leaves are numbered as they grew.
    """
    return [
        _leaves(estimator._get_tree_step_nodes(tree), estimator._get_tree_node_to_leaf(tree))
        for tree in range(estimator.tree_count_)
    ]


def _leaves(steps: Sequence[tuple[int, int]], leaf_of: Sequence[int]) -> list[int]:
    """Follow the steps of a tree to the left and right children.

    A step of 0 ends in the leaf of the node itself.
    """
    numbers = []
    # A stack in place of recursion: a tree that is not symmetric may be deep.
    waiting = [(0, True)]
    while waiting:
        node, goes_on = waiting.pop()
        left, right = steps[node]
        if goes_on and (left or right):
            # The left child is pushed last, so that it is taken
            # first: leaves come out left to right.
            waiting += ((node + right, right > 0), (node + left, left > 0))
        else:
            numbers.append(leaf_of[node])
    return numbers


def _scores(step: Step, model: CatBoostModel) -> Scores:
    return Scores(tree_inputs(step, model.inputs), model)


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
        # CatBoost multiplies the sum by the scale once, then adds the
        # bias: the order decides the last bit.
        return Affine.of(
            TreeEnsemble(self.inputs, self.model.forest), mul=self.model.scale, add=self.model.bias
        )

    @cached_property
    def staged(self) -> Node:
        """Return the bias plus one scaled leaf after another, which rounds differently."""
        forest = self.model.forest
        values = forest.values.data * self.model.scale
        # The bias goes to the leaves of the first tree, since
        # running sums have no start of their own.
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
        outputs = contribution_outputs(self.inputs, self.model.covered)
        shared = self.model.inputs.shared
        if not outputs or not shared:
            return outputs
        n_features = len(self.model.inputs.names)
        kept = np.eye(n_features + 1)
        parts = np.zeros((len(shared), n_features + 1))
        for row, places in zip(parts, shared, strict=True):
            # CatBoost shares the value of a statistic alike among its
            # categories, whatever their number.
            row[list(places)] = 1 / len(places)
        # Rows: features, sets of features, and the expected value, which stays last.
        spread = np.concatenate([kept[:-1], parts, kept[-1:]])
        sums = Linear.of(outputs["contributions"].node, np.kron(np.eye(self.width), spread))
        form = MATRIX if self.width == 1 else Cube((self.width, n_features + 1))
        return {"contributions": replace(outputs["contributions"], node=sums, form=form)}

    def after_each(self, node: Node, form: Matrix | Vector | Labels = MATRIX) -> Output:
        """Return the outputs after each stage, which the node computes side by side."""
        return Output(node, Stages(self.stages, form))


def prediction_of(objective: str) -> str:
    """Return the type of prediction that CatBoostRegressor makes by default."""
    return {"Poisson": "Exponent", "Tweedie": "Exponent", UNCERTAIN: UNCERTAIN}.get(
        objective, "RawFormulaVal"
    )


def regressor_outputs(step: Step, scores: Scores, prediction: str) -> dict[str, Output]:
    """Return predictions of the type of that name; the stages are raw scores in any case."""
    form = VECTOR if scores.width == 1 else MATRIX
    return {
        "predict": Output(_apply_prediction_type(step, scores.raw, prediction), form),
        "staged_predict": scores.after_each(scores.staged, form),
        **scores.outputs,
    }


def _apply_prediction_type(step: Step, raw: Node, prediction: str) -> Node:
    if prediction == "RawFormulaVal":
        return raw
    if prediction == "Exponent":
        return TableExp(raw)
    if prediction == UNCERTAIN and raw.type.width == 2:
        mean, deviation = (Select(raw, Array.of([column], np.int32)) for column in (0, 1))
        # The model predicts the logarithm of the deviation; the answer is the variance.
        return Concat((mean, TableExp(Affine.of(deviation, mul=2.0))))
    raise step.refuse(
        "prediction_type",
        prediction,
        "hbconv handles RawFormulaVal, Exponent and RMSEWithUncertainty.",
    )


def classifier_outputs(step: Step, scores: Scores) -> dict[str, Output]:
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
        # Strictly above the cut, also at a score that is the cut itself.
        return Compare.of(raw, "gt", model.cut, "int64"), MATRIX
    if scores.width == 1:
        return Compare.of(raw, "gt", model.cut, "int32"), Labels(model.classes)
    return ArgMax(raw, stages), Labels(model.classes, vector=False)


def _probabilities(scores: Scores, raw: Node, stages: int) -> Node:
    if scores.model.objective == SOFTMAX:
        return TableSoftmax(raw, stages)
    # One exponential and one division, as CatBoost computes it.
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
