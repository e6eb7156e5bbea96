"""XGBoost: the scikit-learn wrappers, the Booster, its model files, and the rows that they read.

Rows are float32, with codes of categories and NaN for what counts as missing.
``HeldXGBoost`` stands for a Booster that a .skops file holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    ArgMax,
    Cast,
    CategoryCodes,
    CategoryNumbers,
    Codes,
    Columns,
    Compare,
    Concat,
    Conventions,
    FindCode,
    Graph,
    Labels,
    MissingBetween,
    Node,
    OrderedLinear,
    Output,
    Schema,
    Softmax,
    Traits,
    TreeEnsemble,
    TreeLeaves,
    Vocabulary,
    at_step,
)
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.errors import ConversionError
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.node_tables import contribution_outputs, interaction_outputs
from hbconv.parse.common.text_columns import text_column
from hbconv.parse.damage import reading
from hbconv.parse.registry import parses
from hbconv.parse.soundness import require_sound
from hbconv.parse.step import Step, select
from hbconv.parse.xgboost.model_file import (
    Categories,
    XGBoostLinear,
    XGBoostModel,
    read_xgboost_bytes,
)
from hbconv.parse.xgboost.trees import predictions

__all__ = ["HeldXGBoost", "parse_xgboost_bytes"]


def booster_schema(booster: Any) -> Schema:
    """Return the columns of an ``xgboost.Booster``, or of what stands for one."""
    if isinstance(booster, HeldXGBoost):
        return model_schema(booster.model)
    listed = (
        # Older XGBoost lacks get_categories, and no model without category columns needs it.
        "c" in (booster.feature_types or ())
        and hasattr(booster, "get_categories")
        and not booster.get_categories().empty()
    )
    return _schema(booster.feature_names or (), int(booster.num_features()), listed=listed)


def wrapper_schema(estimator: Any) -> Schema:
    """Return the columns of an estimator with scikit-learn's interface."""
    return booster_schema(estimator.get_booster())


def model_schema(model: XGBoostModel) -> Schema:
    """Return the columns of a model file."""
    return _schema(model.names, model.n_features, listed=any(model.categories))


def _schema(names: Any, n_features: int, *, listed: bool) -> Schema:
    """Return columns found by name in order; what a sparse matrix leaves out is missing.

    Category columns are read by their values where the model lists these.
    """
    schema = Schema.table([str(name) for name in names]) if names else Schema.matrix(n_features)
    conventions = Conventions(
        # Without their values, the codes of a column of categories cannot be translated.
        tables_only=listed,
        no_categories=not listed,
        absent_missing=True,
        names_as_text=True,
    )
    return replace(schema, conventions=conventions, finds="names in order")


def booster_rows(step: Step, model: XGBoostModel) -> Node:
    """Return the rows that ``Booster.predict`` reads from a DMatrix, which refuses infinity."""
    return step.require_finite(_float_rows(step, model), allow_nan=True)


def wrapper_rows(step: Step, model: XGBoostModel) -> Node:
    """Return the rows that an estimator with scikit-learn's interface reads.

    Values equal to its parameter ``missing``, which is NaN or a number, become NaN.
    Trees predict in place, which takes infinity; a linear booster predicts from a DMatrix.
    """
    missing = step.estimator.missing
    _refuse_categories_beside_missing(step, model)
    x = _float_rows(step, model)
    # float32 first, as XGBoost converts rows before it compares them with missing.
    if not np.isnan(missing):
        x = MissingBetween.of(x, np.float32(missing), np.float32(missing))
    # A DMatrix refuses infinity unless it counts as missing.
    takes_infinity = not isinstance(model.booster, XGBoostLinear) or np.isinf(missing)
    return x if takes_infinity else step.require_finite(x, allow_nan=True)


def _refuse_categories_beside_missing(step: Step, model: XGBoostModel) -> None:
    missing = step.estimator.missing
    if any(model.categories) and not np.isnan(missing):
        raise step.refuse(
            "missing",
            missing,
            "XGBoost would compare it with codes of categories: replace it by NaN, and fit "
            "with missing=nan.",
        )


def _float_rows(step: Step, model: XGBoostModel) -> Node:
    """Return the step's input as float32.

    NaN stands for missing categories and for what a sparse matrix leaves out.
    """
    if not (isinstance(step.x, Columns) and step.x.schema.conventions.absent_missing):
        step.require_dense(
            "takes for missing what a sparse matrix leaves out, and other steps for zero"
        )
    if any(model.categories):
        return _encode_categories(step, model)
    # What a sparse matrix leaves out is 0 in a dense one, and missing to XGBoost.
    return Cast(MissingBetween.of(step.x, 0, 0) if step.x_sparse else step.x, "float32")


def _encode_categories(step: Step, model: XGBoostModel) -> Node:
    """Replace categories by the codes they had in training, other columns in runs."""
    parts: list[Node] = []
    numbers: list[int] = []
    # The empty entry at the end closes the last run of numbers.
    for position, categories in enumerate((*model.categories, ())):
        if position < model.n_features and not categories:
            numbers.append(position)
            continue
        parts += [Cast(select(step.x, numbers), "float32")] if numbers else []
        parts += [_code(step, position, categories)] if categories else []
        numbers = []
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _code(step: Step, position: int, categories: Categories) -> Node:
    values = [v for v in categories if isinstance(v, int)]
    code = (
        _number_code(step, position, values)
        if values
        else _text_code(step, position, [str(v) for v in categories])
    )
    step.check(
        Compare.of(code, "lt", 0),
        f"Column {position} holds a category that {step.name} (step {step.where!r}) was not "
        "fitted on.",
    )
    # Numbers are found among ascending ones, and XGBoost's code is the place in its own list.
    places = np.argsort(values) if values else np.arange(len(categories))
    return CategoryNumbers(code, (Array(np.array([np.nan, *places, np.nan], np.float32)),))


def _number_code(step: Step, position: int, values: list[int]) -> Node:
    """Return the place of a number among the sorted values, NaN at the end."""
    if not (isinstance(step.x, Columns) and step.x.schema.conventions.tables_only):
        raise step.refuse(
            "enable_categorical",
            value=True,
            hint=(
                "Convert the XGBoost model by itself: after another step its categories could be "
                "codes."
            ),
        )
    if max(map(abs, values)) > MOST_EXACT_INT:  # a column with missing values is float64
        raise step.refuse(
            "enable_categorical",
            max(values, key=abs),
            f"hbconv handles categories up to {MOST_EXACT_INT}. Number them again before fitting.",
        )
    ascending = Array(np.array([*sorted(values), np.nan]))
    return FindCode(select(step.x, [position]), (ascending,))


def _text_code(step: Step, position: int, values: list[str]) -> Node:
    """Return the place of a text among the values, missing ones at the end."""
    column = text_column(step.x, position)
    if column is None or column.edits:
        raise step.refuse(
            "enable_categorical",
            value=True,
            hint=f"Column {position} is computed, yet categories of text were seen when fitting.",
        )
    return Codes(column.schema, column.column, Vocabulary(tuple(values), len(values), len(values)))


_NO_ROWS = Array(np.empty(0, np.float32))
"""What XGBoost answers to no rows, whatever the width of its answers to rows."""
_NO_PROBABILITIES = Array(np.empty((0, 2), np.float32))
"""What it makes of that as the only probability of two classes."""


def parse_xgboost_bytes(data: bytes) -> Graph:
    """Read a model file into a Graph that predicts like ``xgboost.Booster``.

    It is JSON, UBJSON, or the binary of versions before 3.1.

    Raises
    ------
    ConversionError, UnsupportedError
    """
    with (
        at_step("Booster"),
        reading(
            "This is not an XGBoost model, or it",
            "Save it again with booster.save_model.",
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
    return _booster_outputs(step, _keep_stages(step, model, step.iterations))


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
    return {**_label_outputs(step, margin, predictions(margin, model.objective)), **outputs}


def _label_outputs(step: Step, margin: Node, p: Node) -> dict[str, Output]:
    n_classes = step.estimator.n_classes_
    softmax = step.estimator.objective == "multi:softmax"
    classes = np.arange(max(n_classes, 2))
    # Two outputs for two labels are of multi-label training, so each one is compared with a half.
    if p.type.width > 1 and n_classes == 2:
        labels = Compare.of(p, "gt", 0.5, "float64")
        return {
            "predict": Output(labels, of_no_rows=Array(np.empty(0, np.int64))),
            "predict_proba": Output(p, of_no_rows=_NO_PROBABILITIES),
        }
    if p.type.width > 1 and n_classes != p.type.width:
        raise step.refuse(
            "n_classes_",
            n_classes,
            f"The booster has {p.type.width} outputs, but it was fitted on labels of a single "
            "value.",
        )
    if p.type.width > 1:
        return {
            "predict": Output(ArgMax(p), Labels(Array(classes))),
            "predict_proba": Output(p, of_no_rows=_NO_PROBABILITIES),
        }
    # multi:softmax predicts classes: the probabilities follow from the margin instead.
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
        # In float32, as XGBoost adds them.
        bias = model.booster.bias + model.margin[0]
        margin: Node = OrderedLinear(x, Array(model.booster.weights), Array(bias))
        return margin, {"raw_scores": _answer(margin)}
    forest = model.booster.forest(model.margin, inplace=inplace)
    sizes = model.booster.sizes
    x = CategoryCodes(x, sizes) if sizes.data.any() else x
    margin = TreeEnsemble(x, forest)
    outputs = {"raw_scores": _answer(margin)}
    if forest.n_trees:
        # XGBoost drops the axis of trees where there is one.
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
    # Early stopping wrote it as text into the attributes of the file.
    best = model.best_iteration
    return _keep_stages(step, model, step.iterations or (None if best is None else (0, best + 1)))


def _keep_stages(
    step: Step, model: XGBoostModel, iterations: tuple[int, int] | None
) -> XGBoostModel:
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


class HeldXGBoost:
    """What stands for an ``xgboost.Booster`` in the estimators of a .skops file.

    XGBoost's loader ends the process over some damaged bytes. It has what the parsers and the
    attributes of fitted estimators ask of a Booster.
    """

    data: bytes

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        handle = state.get("handle")
        if not isinstance(handle, bytes | bytearray):
            raise ConversionError("The file is damaged: it holds a Booster without its model.")
        self.data = bytes(handle)

    @cached_property
    def model(self) -> XGBoostModel:
        """What the bytes hold."""
        return read_xgboost_bytes(self.data)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features; None where the rows had none."""
        return list(self.model.names) or None

    def num_features(self) -> int:
        """Return the width of the rows."""
        return self.model.n_features

    def save_raw(self, raw_format: str) -> bytes:  # noqa: ARG002
        """Return the bytes, in the format that they have."""
        return self.data
