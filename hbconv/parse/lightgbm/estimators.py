"""LightGBM: the scikit-learn wrappers, the Booster, its model text, and the rows that they read.

``HeldLightGBM`` stands for a Booster that a .skops file holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Beside,
    Cast,
    CategoryNumbers,
    Columns,
    Compare,
    ConstantRows,
    Conventions,
    Graph,
    Labels,
    Map,
    Node,
    Output,
    Schema,
    Softmax,
    Traits,
    TreeContributions,
    TreeEnsemble,
    TreeLeaves,
    at_step,
    current_step,
)
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.text_columns import are_numbers, category_codes, columns_of
from hbconv.parse.damage import reading
from hbconv.parse.lightgbm.model_text import (
    LightGBMModel,
    category_lists,
    decode_text,
    read_lightgbm_text,
    read_names,
)
from hbconv.parse.registry import parses
from hbconv.parse.soundness import require_sound
from hbconv.parse.step import Step, concat
from hbconv.system.temporary import scratch_path

__all__ = ["HeldLightGBM", "booster_outputs", "parse_lightgbm_text"]


def _same(scores: Node, _model: LightGBMModel) -> Node:
    return scores


def _squared(scores: Node, model: LightGBMModel) -> Node:
    """Invert ``reg_sqrt``."""
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

# LightGBM stops early only where NeedAccuratePrediction of the objective is false.
EARLY_STOPPED = ("binary", "multiclass", "multiclassova", "lambdarank", "rank_xendcg")
"""Objectives that ``pred_early_stop`` is heeded of: predictions of others need all trees."""
_OFF = ("false", "-")


def parse_lightgbm_text(
    text: str, iterations: tuple[int, int] | None = None, categories: Sequence[int] = ()
) -> Graph:
    """Read a model text into a Graph that predicts like ``lightgbm.Booster``.

    Parameters
    ----------
    text : str
        As ``Booster.save_model`` writes it.
    iterations : tuple of int, optional
        First and last (not included) boosting iteration to use; all by default.
    categories : sequence of int
        Features that are pandas columns of categories, in order, which the text does not always
        tell.

    Raises
    ------
    ConversionError, UnsupportedError
    """
    with (
        at_step("Booster"),
        reading("The LightGBM model text", "Save it again with booster.save_model."),
    ):
        model = read_lightgbm_text(text, iterations, categories)
        schema = read_schema(model.names, categories=bool(model.categories))
        step = Step(None, Columns.of(schema), "Booster")
        outputs = _of_booster(step, model)
        return require_sound(
            Graph(
                schema,
                outputs,
                tuple(step.conditions.checks),
                Traits("Booster", source="lightgbm.Booster"),
            )
        )


def _schema(estimator: Any) -> Schema:
    booster = getattr(estimator, "booster_", estimator)
    return read_schema(_names(booster), categories=bool(booster.pandas_categorical))


def _names(booster: Any) -> Sequence[str]:
    """Return the names of the features, which LightGBM itself does not decode as Latin-1."""
    try:
        names: Sequence[str] = booster.feature_name()
    except UnicodeDecodeError:
        return read_names(_text(booster, 1))
    return names


@parses("lightgbm.Booster", features=_schema, truncates=True)
def parse_booster(step: Step) -> dict[str, Output]:
    """Return the transformed scores, a vector where there is one output.

    A booster in training keeps the sigmoid's factor as given.
    Once trained or read, it has the six digits of the text.
    """
    model = _read(step, step.estimator)
    # The text rounds the factor to six digits, so a booster in training may answer otherwise.
    exact = step.estimator.params.get("sigmoid")
    if (
        exact is not None
        and "sigmoid" in model.options
        and float(exact) != float(model.options["sigmoid"])
    ):
        hint = (
            "The model text keeps six digits of it: choose a value with no more, or convert "
            "Booster(model_str=booster.model_to_string())."
        )
        raise step.refuse("sigmoid", exact, hint)
    return _of_booster(step, model)


@parses(
    "lightgbm.LGBMModel",
    "lightgbm.LGBMRegressor",
    "lightgbm.LGBMRanker",
    features=_schema,
    truncates=True,
)
def parse_regressor(step: Step) -> dict[str, Output]:
    """Predict as the booster does."""
    return _answers(step, _read_wrapper(step))


@parses("lightgbm.LGBMClassifier", features=_schema, truncates=True)
def parse_classifier(step: Step) -> dict[str, Output]:
    """Take the larger probability.

    A custom objective has no probabilities: all methods return raw scores.
    """
    answers = _answers(step, _read_wrapper(step))
    p = answers["predict"]
    raw = answers["raw_scores"]
    if hasattr(step.estimator, "decision_function"):
        answers["decision_function"] = raw
    # LightGBM warns here and returns raw scores, whatever the method.
    if callable(step.estimator.objective_):
        return {**answers, "predict_proba": p}
    two = p.node.type.width == 1
    classes = Array(step.estimator.classes_)
    label = _label_codes(p.node, len(classes))
    probabilities = beside_complement(p.node) if two else p.node
    return {
        **answers,
        "predict": Output(label, Labels(classes)),
        "predict_proba": Output(probabilities),
    }


def _label_codes(p: Node, n_classes: int) -> Node:
    """Return the position of the larger probability; ``p`` has one column for two classes."""
    if p.type.width > 1:
        return ArgMax(p)
    if n_classes == 1:  # its only probability is never above a half
        return ConstantRows(p, Array.of([0], np.int32))
    return Compare.of(p, "gt", 0.5, "int32")


def _of_booster(step: Step, model: LightGBMModel) -> dict[str, Output]:
    """Return the outputs of a booster, whose scores of no rows are a vector; wrappers refuse it."""
    answers = _answers(step, model)
    # LightGBM answers no rows with shape (0,), also where rows have several scores.
    nothing = Array(np.empty(0))
    for method in ("predict", "raw_scores"):
        answers[method] = replace(answers[method], of_no_rows=nothing)
    return answers


def _answers(step: Step, model: LightGBMModel) -> dict[str, Output]:
    return booster_outputs(read_features(step, model.categories), model)


def booster_outputs(features: Node, model: LightGBMModel) -> dict[str, Output]:
    """Return the outputs of ``predict``, also for each argument that asks for other answers.

    Parameters
    ----------
    features : Node
        Floats, a column for each feature; categories are numbers.
    model : LightGBMModel
    """
    x = model.views.of(features)
    raw = TreeEnsemble(x, model.forest)
    return {
        "predict": _answer(_transform(raw, model)),
        "raw_scores": _answer(raw),
        "apply": Output(TreeLeaves(x, model.forest)),
        **_contributions(x, model),
    }


def _contributions(x: Node, model: LightGBMModel) -> dict[str, Output]:
    """Return the sums, which LightGBM never averages, the outputs side by side."""
    covered = model.covered
    if covered is None:
        return {}
    return {"contributions": Output(TreeContributions(x, covered), on_demand=True)}


def _answer(node: Node) -> Output:
    return Output(node, VECTOR if node.type.width == 1 else MATRIX)


def _transform(raw: Node, model: LightGBMModel) -> Node:
    if model.objective not in TRANSFORMS:
        hint = f"hbconv handles {', '.join(filter(None, TRANSFORMS))}, and custom ones."
        raise UnsupportedError("LightGBM", current_step(), "objective", model.objective, hint)
    # A division, not a product with the reciprocal: LightGBM divides, and the last bit shows it.
    mean = Affine.of(raw, div=model.iterations) if model.average else raw
    return TRANSFORMS[model.objective](mean, model)


def _read_wrapper(step: Step) -> LightGBMModel:
    """Read the booster of a wrapper, whose parameters ``predict`` reads too."""
    model = _read(step, step.estimator.booster_)
    early = step.estimator.get_params().get("pred_early_stop")
    if early and str(early).lower() not in _OFF and model.objective in EARLY_STOPPED:
        hint = "It leaves out trees row by row. Call set_params(pred_early_stop=False) before."
        raise step.refuse("pred_early_stop", early, hint)
    return model


def _read(step: Step, booster: Any) -> LightGBMModel:
    """Read the trees that predict uses: those asked for, else up to the best iteration."""
    if isinstance(booster, HeldLightGBM):
        iterations = step.iterations or booster.iterations
        return read_lightgbm_text(booster.text, iterations, step.known_categories)
    # None keeps the best iteration, as predict does; -1 writes all
    # trees, of which a range is read then.
    text = _text(booster, -1 if step.iterations else None)
    return read_lightgbm_text(text, step.iterations, step.known_categories)


def _text(booster: Any, iterations: int | None) -> str:
    """Write the model's text to a file.

    ``model_to_string`` writes a text of more than a megabyte twice.
    """
    with scratch_path("model.txt") as path:
        booster.save_model(path, num_iteration=iterations)
        return decode_text(path.read_bytes())


class HeldLightGBM:
    """What stands for a ``lightgbm.Booster`` in the estimators of a .skops file.

    LightGBM's loader ends the process over some damaged texts. It has what the parsers and the
    attributes of fitted estimators ask of a Booster.

    Parameters
    ----------
    text : str
        All trees.
    iterations : tuple of int or None
        First and last (not included) boosting iteration that predict uses; None: all.
    pandas_categorical : list of list
        Values of the columns that pandas had as categories.
    """

    text: str
    iterations: tuple[int, int] | None
    pandas_categorical: list[list[Any]]

    # skops sets the state of a Booster's pickle: LightGBM 4 calls
    # the text _handle, earlier ones handle.
    def __setstate__(self, state: Mapping[str, Any]) -> None:
        text = state.get("_handle", state.get("handle"))
        best = state.get("best_iteration", 0)
        if not isinstance(text, str) or type(best) is not int:
            raise ConversionError("The file is damaged: it holds a Booster without its model.")
        self.text = text
        self.iterations = (0, best) if best > 0 else None
        self.pandas_categorical = category_lists(text)
        # The text and the pickle both hold the lists; in a damaged file they may differ.
        if (state.get("pandas_categorical") or []) != self.pandas_categorical:
            raise ConversionError("The file is damaged: it holds two lists of categories.")

    def feature_name(self) -> list[str]:
        """Return the names of the features."""
        return read_names(self.text)

    def num_feature(self) -> int:
        """Return the width of the rows."""
        return len(self.feature_name())


def read_schema(names: Sequence[str], *, categories: bool) -> Schema:
    """Return columns found by position, whatever the names of a table.

    Arrays of ints are read as float32, and LightGBM has no spaces in names.
    """
    made_up = list(names) == [f"Column_{i}" for i in range(len(names))]
    # LightGBM reads arrays of ints as float32, and replaces spaces in names by underscores.
    conventions = Conventions(
        tables_only=categories, other_arrays="float32", underscored=True, names_as_text=True
    )
    return replace(
        Schema.table(names, finds="positions"), named=not made_up, conventions=conventions
    )


def read_features(step: Step, categories: Mapping[int, Sequence[Any]]) -> Node:
    """Return all features as floats."""
    # Neighbours of one kind share a node, so that wide tables need few.
    runs = [
        (is_category, list(run))
        for is_category, run in groupby(range(step.x.type.width), categories.__contains__)
    ]
    return concat(
        [
            node
            for is_category, run in runs
            for node in (_codes(step, run, categories) if is_category else [_floats(step.x, run)])
        ]
    )


def _floats(x: Node, positions: list[int]) -> Node:
    """Cast ints: of a table to float64, of an array to float32.

    Another step makes an array of its input.
    """
    is_table = isinstance(x, Beside) or (
        isinstance(x, Columns) and (x.schema.named or bool(x.schema.conventions.other_arrays))
    )
    return Cast(columns_of(x, positions), "float", "float64" if is_table else "float32")


def _codes(step: Step, positions: list[int], categories: Mapping[int, Sequence[Any]]) -> list[Node]:
    return [_code(step, position, list(categories[position])) for position in positions]


def _code(step: Step, position: int, categories: list[Any]) -> Node:
    """Return the place of the value among the categories, NaN for other values."""
    numbers = are_numbers(categories)
    if numbers and not (isinstance(step.x, Columns) and step.x.schema.conventions.tables_only):
        raise step.refuse(
            "pandas_categorical",
            categories[:5],
            "Convert the LightGBM model by itself: after another step its categories could "
            "be codes.",
        )
    ordered = sorted(categories) if numbers else categories
    place_of = {value: place for place, value in enumerate(categories)}
    # Numbers are found among ascending values, and LightGBM's code is the place in its own list.
    table = np.array([np.nan, *(place_of[value] for value in ordered)], np.float32)
    return CategoryNumbers(category_codes(step, position, ordered), (Array(table),), "float")
