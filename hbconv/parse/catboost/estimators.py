"""CatBoost: the scikit-learn wrappers, the plain model, and its JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hbconv.containers import (
    Codes,
    Columns,
    Conventions,
    Graph,
    Output,
    Schema,
    Traits,
    at_step,
    topological,
)
from hbconv.errors import UnsupportedError
from hbconv.parse.catboost.columns import tree_inputs
from hbconv.parse.catboost.model_json import CatBoostModel, read_catboost_json
from hbconv.parse.catboost.objectives import (
    CLASSIFIERS,
    Scores,
    classified,
    prediction_of,
    regressed,
)
from hbconv.parse.damage import reading
from hbconv.parse.registry import parses
from hbconv.parse.soundness import require_sound
from hbconv.parse.step import Step

__all__ = ["parse_catboost_json"]


def parse_catboost_json(data: bytes) -> Graph:
    """Read a JSON model into a Graph that answers like CatBoostClassifier or -Regressor.

    The objective decides which.

    Raises
    ------
    ConversionError, UnsupportedError
    """
    with (
        at_step("CatBoost"),
        reading(
            "This is not a CatBoost model (JSON), or it",
            "Save it anew with model.save_model(path, format='json').",
        ),
    ):
        model = read_catboost_json(data)
        schema = _schema(model.inputs.names)
        step = Step(None, Columns.of(schema), "CatBoost")
        scores = _scores(step, model)
        classifies = model.objective in CLASSIFIERS
        outputs = (
            classified(step, scores)
            if classifies
            else regressed(step, scores, prediction_of(model.objective))
        )
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
    made_up = all(name in ("", number) for name, number in zip(names, numbers, strict=True))
    schema = Schema.table(numbers, finds="positions") if made_up else Schema.table(names)
    return replace(schema, named=not made_up, conventions=Conventions(names_as_text=True))


def _features(estimator: Any) -> Schema:
    return _schema(estimator.feature_names_)


@parses("catboost.CatBoost", "catboost.CatBoostRanker", features=_features, truncates=True)
def parse_plain(step: Step) -> dict[str, Output]:
    """Return raw scores."""
    return regressed(step, _scores(step, _read(step)), "RawFormulaVal")


@parses("catboost.CatBoostRegressor", features=_features, truncates=True)
def parse_regressor(step: Step) -> dict[str, Output]:
    """Return raw scores, or what the objective makes of them."""
    return regressed(
        step, _scores(step, _read(step)), step.estimator._get_default_prediction_type()
    )


@parses("catboost.CatBoostClassifier", features=_features, truncates=True)
def parse_classifier(step: Step) -> dict[str, Output]:
    """Take the largest raw score, or compare the only one with a cut."""
    return classified(step, _scores(step, _read(step)))


def _read(step: Step) -> CatBoostModel:
    est = step.estimator
    for kind, features in (
        ("text_features", est._get_text_feature_indices()),
        ("embedding_features", est._get_embedding_feature_indices()),
    ):
        if features:
            raise step.refuse(kind, features, "Make numbers of them before fitting.")
    data = _exported(step)
    return read_catboost_json(
        data, step.iterations, _leaf_numbers(est) if b'"trees"' in data else None
    )


def _exported(step: Step) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
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
    found = []
    waiting = [(0, True)]
    while waiting:
        node, goes_on = waiting.pop()
        left, right = steps[node]
        if goes_on and (left or right):
            waiting += ((node + right, right > 0), (node + left, left > 0))
        else:
            found.append(leaf_of[node])
    return found


def _scores(step: Step, model: CatBoostModel) -> Scores:
    return Scores(tree_inputs(step, model.inputs), model)
